//! The life of a node: it opens and checks everything, starts the cores and announces that it is
//! ready; on a signal, it ends everything in the reverse order.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

use nearflash_access::{SECRET_LEN, Secret, UnixTime};
use nearflash_api::socket::{default_data_dir, socket_path};
use nearflash_api::{Document, Ready};
use nearflash_catalog::CatalogError;
use nearflash_cluster_store::Supervisor;
use nearflash_data_dir::{DataDirError, owner_of};
use nearflash_nvme::serving::ALL_CONTROLLER_IDS;
use nearflash_publish::{FilesAccess, Portals, SILENT_AFTER, Served};
use nearflash_request::VolumeId;
use nearflash_space::{Home, Name};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sd_notify::NotifyState;
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use uuid::Uuid;

use crate::asker::{Asker, Event};
use crate::authentication::{self, Authenticator, Queue};
use crate::clustered::{Clustered, Enrolled};
use crate::control::ControlServer;
use crate::doors::{Addresses, DoorSocket, Doors, OpenDoor, SocketFile, absolute, open_for_owner};
use crate::files::{self, FilesOwner, Queues};
use crate::health::Health;
use crate::http::{Http, NetworkDoor};
use crate::node::{BackingWatch, Changes, ExpiryWatch, Node, RemoteWatch, Workers, now};
use crate::prepare::{Prepared, Slices, prepare};
use crate::recorded::Recorded;
use crate::runtime::{Cores, CoresError, FilesNews, News, On, RuntimeConfig};
use crate::{Catalog, StartError, remote, runtime};
use nearflash_config::{Admits, Config, Door, InitiatorAccess, Protocol};
use nearflash_media::boot;

/// A node that serves.
pub struct Running {
    data_dir: PathBuf,
    addresses: Addresses,
    node: Arc<Node>,
    cores: Arc<Cores>,
    control: ControlServer,
    http: Option<Http>,
    expiry: ExpiryWatch,
    changes: Changes,
    authenticator: Authenticator,
    workers: Workers,
    watches: Watches,
    cluster: Option<Clustered>,
    /// The Unix socket for direct clients on this machine; dropping it removes the file.
    local_socket: Option<SocketFile>,
    /// The owner of files, and its socket.
    files: Option<(Arc<FilesOwner>, SocketFile)>,
}

/// The threads that wait for other nodes, and that look at the files of devices.
type Watches = (RemoteWatch, Option<BackingWatch>);

/// Prepares what the configuration and the cluster say. `remotes` are those that were found, and whether they are all.
fn prepare_by(
    config: &Config,
    catalog: Catalog,
    doors: &Doors,
    cluster: Option<&Enrolled>,
    remotes: (&[remote::Remote], bool),
) -> Result<Prepared, StartError> {
    let slices = cluster.zip(config.cluster.as_ref().map(|it| &it.slices[..]));
    let serves_iscsi = !doors.addresses.of(Protocol::Iscsi).is_empty();
    prepare(catalog, (&config.devices, slices), (&config.volumes, serves_iscsi), remotes)
}

impl Running {
    /// Opens everything, and starts the cores with `start`.
    ///
    /// # Errors
    /// When any step fails, in one line that names the thing and the remedy.
    pub fn start(
        config: &Config,
        start: impl FnOnce(RuntimeConfig) -> Result<Cores, CoresError>,
    ) -> Result<Self, StartError> {
        // The doors are first: an address in use is the most frequent failure, and nothing else has
        // been touched yet.
        let doors = Doors::open(config).map_err(|error| runs_already(error, &config.data_dir))?;
        let catalog = Catalog::open(&config.data_dir, Uuid::new_v4())?;
        record_changes(config)?;
        check_proofs(config, &catalog)?;
        let cluster = enrolled(config, &catalog, &doors)?;
        let (remotes, absent) = remote::find(&config.remotes)?;
        let remotes = (&remotes[..], absent.is_empty());
        let mut prepared = prepare_by(config, catalog, &doors, cluster.as_ref(), remotes)?;
        let Doors { mut open, local_socket, addresses, http } = doors;
        let ordinal = cluster.as_ref().map_or(0, |it| it.ordinal);
        let (on_files, files) = configure(config, ordinal, &mut prepared, &mut open)?;
        let shown_at = now();
        let served = served_first(&prepared, shown_at);
        let (asker, events) = Asker::new();
        let (on_authentication, authentications) = authentication::queue();
        let health = open_health(config, &prepared);
        prepared.catalog.serve();
        let news = News {
            changes: asker.clone(),
            mirrors: cluster.as_ref().map(Enrolled::on_mirrors).unwrap_or_default(),
            files: on_files,
            authentication: on_authentication,
        };
        let given = (served, open, news);
        let given = runtime_config(config, &prepared, cluster.as_ref(), &health, given);
        let cores = Arc::new(start(given)?);
        let slices = std::mem::replace(&mut prepared.slices, Slices::Taken(Vec::new()));
        let (face, reached) = (Arc::clone(&cores), addresses.clone());
        let node = Arc::new(Node::new(prepared, shown_at, face, asker, reached, health));
        // The node has only just started, so there is nothing to report.
        let given_up = |_: &StartError| _ = cores.drain_and_join();
        let (control, http, expiry) = start_control(config, http, &node).inspect_err(given_up)?;
        let desks = start_desks(&node, events, authentications).inspect_err(given_up)?;
        let (changes, authenticator, workers) = desks;
        let watches = start_watches(&node, absent, cluster.is_some()).inspect_err(given_up)?;
        let files = files.map(|it| it.start(&node, &cores)).transpose().inspect_err(given_up)?;
        let cluster = cluster.map(|it| it.follow(&node, slices)).transpose();
        let cluster = cluster.inspect_err(given_up)?;
        node.report_iscsi_clashes();
        node.report_closed();
        node.save_health(true);
        Ok(Self {
            data_dir: absolute(&config.data_dir),
            addresses,
            node,
            cores,
            control,
            http,
            expiry,
            changes,
            authenticator,
            workers,
            watches,
            cluster,
            local_socket,
            files,
        })
    }

    /// The announcement of the node on stdout.
    pub fn ready(&self) -> Document<Ready> {
        Document::new(Ready {
            event: "ready".to_owned(),
            nvme_tcp: self.addresses.of(Protocol::NvmeTcp),
            direct: self.addresses.of(Protocol::Direct),
            direct_local: self.addresses.direct_local.clone(),
            iscsi: self.addresses.of(Protocol::Iscsi),
            http: self.addresses.http,
            http_local: self.addresses.http_local.clone(),
            control: socket_path(&self.data_dir),
            volumes: self.node.volumes(),
            pid: std::process::id(),
        })
    }

    /// Stops accepting peers, finishes the requests in flight, and ends.
    ///
    /// # Errors
    /// When some request could not be finished and flushed.
    pub fn stop(self) -> Result<(), StartError> {
        // Its changes become durable while the cores serve.
        if let Some((owner, socket)) = self.files {
            owner.stop();
            drop(socket);
        }
        // Requests that wait for a job or trace are answered when the workers stop.
        let are_idle = self.workers.stop();
        let (remotes, backings) = self.watches;
        remotes.stop();
        backings.into_iter().for_each(BackingWatch::stop);
        self.http.into_iter().for_each(Http::stop);
        self.control.stop();
        self.cluster.into_iter().for_each(Clustered::stop);
        self.expiry.stop();
        // Before the drain: another node may take the path as soon as this one stops listening.
        drop(self.local_socket);
        self.authenticator.stop();
        if !self.cores.drain_and_join() {
            return Err(StartError::NotDrained);
        }
        self.changes.join();
        self.node.record_suspects();
        self.node.save_health(false);
        nearflash_journal::refusals::write_due(true);
        if are_idle {
            self.node.release();
        }
        Ok(())
    }
}

/// An address is most often in use because the same node was started before.
fn runs_already(error: StartError, data_dir: &Path) -> StartError {
    let is_in_use = |source: &io::Error| source.kind() == io::ErrorKind::AddrInUse;
    match (&error, owner_of(data_dir)) {
        (StartError::Bind { source, .. }, Some(pid)) if is_in_use(source) => {
            CatalogError::from(DataDirError::Locked { path: data_dir.to_owned(), pid: Some(pid) })
                .into()
        }
        _ => error,
    }
}

/// The configuration of the cores.
fn runtime_config(
    config: &Config,
    prepared: &Prepared,
    cluster: Option<&Enrolled>,
    health: &Health,
    (served, doors, news): (Served, Vec<OpenDoor>, News),
) -> RuntimeConfig {
    RuntimeConfig {
        cores: config.cores.clone(),
        pool_len: config.pool_len,
        spin_max: config.spin_max,
        login_timeout: config.login_timeout,
        stall_timeout: config.stall_timeout,
        silent_after: SILENT_AFTER,
        devices: prepared.outfit.all.clone(),
        boot: boot(&prepared.outfit.all, !config.remotes.is_empty() || cluster.is_some()),
        served,
        doors,
        ktls: config.ktls,
        hosts: config.hosts.clone(),
        tls_hosts: prepared.recorded.hosts.tls(),
        node: cluster.map_or_else(|| prepared.catalog.node(), Enrolled::cluster),
        ordinal: prepared.recorded.portals.ordinal,
        controller_ids: cluster.map_or(ALL_CONTROLLER_IDS, Enrolled::controller_ids),
        life: health.life(),
        ledger: Arc::clone(health.ledger()),
        news,
    }
}

/// The state that a node serves first.
fn served_first(prepared: &Prepared, now: UnixTime) -> Served {
    let devices = Arc::new(prepared.outfit.devices());
    let keyed = Arc::new(prepared.recorded.hosts.keyed());
    let mut served = Served { devices, keyed, ..Served::default() };
    served.follow(&prepared.recorded, now);
    served
}

/// The way of initiators to a node with these doors.
fn portals(config: &Config, ordinal: u16, doors: &[OpenDoor]) -> Portals {
    let portal = |door: &OpenDoor| match door.socket {
        DoorSocket::Tcp { advertise, .. } if door.protocol == Protocol::Iscsi => Some(advertise),
        DoorSocket::Tcp { .. } | DoorSocket::Local(_) => None,
    };
    let initiators = match &config.initiators {
        InitiatorAccess::Any => None,
        InitiatorAccess::Only(names) => Some(names.iter().cloned().collect()),
    };
    Portals { addresses: doors.iter().filter_map(portal).collect(), ordinal, initiators }
}

/// The owner of files before the cores serve.
struct FilesStart {
    access: FilesAccess,
    ids: Vec<(Name, VolumeId)>,
    data_dir: PathBuf,
    socket: SocketFile,
    queues: Queues,
}

/// Adds what only the configuration has to the state: the volumes of hosts without a list, the way of initiators,
/// and the owner of the files of the configured volumes, which must be volumes of this node alone.
fn configure(
    config: &Config,
    ordinal: u16,
    prepared: &mut Prepared,
    doors: &mut Vec<OpenDoor>,
) -> Result<(On<FilesNews>, Option<FilesStart>), StartError> {
    prepared.recorded.unlisted_hosts = config.unlisted_hosts;
    prepared.recorded.anonymous = config.anonymous;
    prepared.recorded.portals = Arc::new(portals(config, ordinal, doors));
    let of_node = |name: &Name| match prepared.recorded.space.volume(name) {
        Some(volume) if volume.home == Home::Node => Ok((name.clone(), volume.id)),
        Some(_) => Err(StartError::FilesNotOfNode { name: name.clone() }),
        None => Err(StartError::FilesUnknown { name: name.clone() }),
    };
    let ids = config.files.iter().map(of_node).collect::<Result<Vec<_>, _>>()?;
    if ids.is_empty() {
        return Ok((On::default(), None));
    }
    let mut secret = [0; SECRET_LEN];
    for part in secret.chunks_exact_mut(16) {
        part.copy_from_slice(Uuid::new_v4().as_bytes());
    }
    let access = FilesAccess { secret: Secret::new(secret), volumes: config.files.clone() };
    prepared.recorded.files = Some(access.clone());
    let data_dir = absolute(&config.data_dir);
    let (door, socket) = open_for_owner(&files::socket_path(&data_dir))?;
    doors.push(door);
    let (on_files, queues) = files::queues();
    Ok((on_files, Some(FilesStart { access, ids, data_dir, socket, queues })))
}

impl FilesStart {
    /// Starts the owner. The cores serve.
    fn start(
        self,
        node: &Node,
        cores: &Arc<Cores>,
    ) -> Result<(Arc<FilesOwner>, SocketFile), StartError> {
        let Self { access, ids, data_dir, socket, queues } = self;
        let owner = FilesOwner::start(&access, ids, &data_dir, queues, cores);
        let owner = owner.map_err(no_thread)?;
        node.serve_files(Arc::clone(&owner));
        Ok((owner, socket))
    }
}

/// The node's place in its cluster, if it has one.
fn enrolled(
    config: &Config,
    catalog: &Catalog,
    doors: &Doors,
) -> Result<Option<Enrolled>, StartError> {
    let cluster = config.cluster.as_ref().map(|it| (config.data_dir.as_path(), it));
    let enrol = |it| Enrolled::new(it, (catalog, config.has_own_devices()), &doors.addresses);
    cluster.map(enrol).transpose()
}

/// Serves until SIGTERM or SIGINT, then drains; announces on stdout when hosts can connect. A
/// second signal ends the process at once.
///
/// # Errors
/// When the node cannot start, in one line that names the thing and the remedy.
pub fn serve(config: &Config) -> Result<(), StartError> {
    let failed = |action| move |source| StartError::System { action, source };
    // Until the cores serve, a start can wait for a device or for etcd: there is nothing to drain, and a signal
    // ends the process.
    let starts = Arc::new(AtomicBool::new(true));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&starts))
            .map_err(failed("receive signals"))?;
    }
    // The handlers are registered first, so that they catch a signal at any moment.
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(failed("receive signals"))?;
    // A write past the limit of the file size fails, and the host gets the error; without this
    // handler, SIGXFSZ would end the process.
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map_err(failed("receive signals"))?;
    raise_limits();
    if config.cluster.is_some() {
        forbid_core_dumps();
    }
    // A node of a cluster needs it at its start.
    let _supervisor = supervise_etcd(&config.data_dir);
    let running = Running::start(config, |given| {
        starts.store(false, Ordering::SeqCst);
        runtime::start(given)
    })?;
    let line = running.ready().to_line();
    let mut stdout = io::stdout();
    let announced = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    if let Err(source) = announced {
        running.stop()?;
        return Err(failed("write the ready line to stdout")(source));
    }
    notify_manager(NotifyState::Ready);
    greet(&running.ready().body, config);
    let signal = signals.forever().next();
    tracing::info!(signal, "draining");
    notify_manager(NotifyState::Stopping);
    end_at_once_on_another(signals);
    running.stop()?;
    tracing::info!("drained");
    Ok(())
}

/// Says in the log where the node serves, and the next command: the line on stdout is for programs.
fn greet(ready: &Ready, config: &Config) {
    let mut doors: Vec<String> = Vec::new();
    let mut add = |name: &str, addresses: &[SocketAddr]| {
        doors.extend(addresses.iter().map(|address| format!("{name} on {address}")));
    };
    add("NVMe/TCP", &ready.nvme_tcp);
    add("iSCSI", &ready.iscsi);
    add("direct", &ready.direct);
    add("HTTP", ready.http.as_slice());
    doors.extend(ready.direct_local.iter().map(|path| format!("direct on {}", path.display())));
    let data_dir = match default_data_dir() {
        Ok(found) if found == config.data_dir => String::new(),
        _ => format!(" --data-dir {}", config.data_dir.display()),
    };
    let doors = doors.join(", ");
    tracing::info!("ready: {doors}; next: nearflash status{data_dir}");
}

/// The health of the node. A loss of volumes of other nodes, or of a cluster, is not one of its own.
fn open_health(config: &Config, prepared: &Prepared) -> Health {
    let boot = boot(&prepared.outfit.all, false);
    Health::open(&config.data_dir, &prepared.recorded.space, boot)
}

/// Supervises this machine's etcd, if its data directory belongs to a cluster. The node serves its
/// volumes without it.
fn supervise_etcd(data_dir: &Path) -> Option<Supervisor> {
    Supervisor::start(data_dir).unwrap_or_else(|error| {
        // The start of the node reports a directory that it cannot read.
        if std::fs::read_dir(data_dir).is_ok() {
            tracing::error!("cannot supervise etcd: {error}");
        }
        None
    })
}

/// Starts the control side's threads.
fn start_control(
    config: &Config,
    network: Option<NetworkDoor>,
    node: &Arc<Node>,
) -> Result<(ControlServer, Option<Http>, ExpiryWatch), StartError> {
    let data_dir = &config.data_dir;
    let http = Http::start(config, network, node)?;
    let failed = |source| StartError::Control { path: socket_path(data_dir), source };
    let control = ControlServer::start(data_dir, Arc::clone(node)).map_err(failed)?;
    match ExpiryWatch::start(Arc::clone(node)) {
        Ok(expiry) => Ok((control, http, expiry)),
        Err(source) => {
            http.into_iter().for_each(Http::stop);
            control.stop();
            Err(no_thread(source))
        }
    }
}

/// Starts the threads that wait for other nodes, and that look at the files of devices.
fn start_watches(
    node: &Arc<Node>,
    absent: Vec<nearflash_config::RemoteSpec>,
    is_in_cluster: bool,
) -> Result<Watches, StartError> {
    let remotes = RemoteWatch::start(Arc::clone(node), absent).map_err(no_thread)?;
    match BackingWatch::start(node, is_in_cluster) {
        Ok(backings) => Ok((remotes, backings)),
        Err(source) => {
            remotes.stop();
            Err(no_thread(source))
        }
    }
}

/// Keeps the log of changes in the data directory.
fn record_changes(config: &Config) -> Result<(), StartError> {
    let opened = nearflash_journal::events::record_changes_in(&config.data_dir);
    let action = "open the file of changes in the data directory";
    opened.map_err(|source| StartError::System { action, source })
}

fn no_thread(source: io::Error) -> StartError {
    StartError::System { action: "start a thread", source }
}

/// Starts the threads that answer sessions, and those that run jobs.
fn start_desks(
    node: &Arc<Node>,
    events: Receiver<Event>,
    authentications: Arc<Queue>,
) -> Result<(Changes, Authenticator, Workers), StartError> {
    let changes = Changes::start(Arc::clone(node), events).map_err(no_thread)?;
    let authenticator = Authenticator::start(Arc::clone(node), authentications);
    let authenticator = authenticator.map_err(no_thread)?;
    let workers = Workers::start(Arc::clone(node)).map_err(no_thread)?;
    Ok((changes, authenticator, workers))
}

/// Checks that a door which admits only authenticated peers has a credential, an account or a host with keys
/// to admit. A cluster has its own credentials and accounts.
fn check_proofs(config: &Config, catalog: &Catalog) -> Result<(), StartError> {
    let is_proven = |door: &&Door| {
        let is_checked = config.cluster.is_none() || door.protocol == Protocol::NvmeTcp;
        is_checked && door.admits == Admits::Proven
    };
    for door in config.doors.iter().filter(is_proven) {
        let (key, address) = (door.key.clone(), door.address);
        let contents = Recorded::read(catalog)?;
        match door.protocol {
            Protocol::Direct if contents.has_no_credential() => {
                return Err(StartError::NoCredential { key, address });
            }
            Protocol::Iscsi if contents.has_no_account() => {
                return Err(StartError::NoAccount { key, address });
            }
            Protocol::NvmeTcp if contents.has_no_keyed_host() => {
                return Err(StartError::NoKeyedHost { key, address });
            }
            Protocol::NvmeTcp | Protocol::Direct | Protocol::Iscsi => {}
        }
    }
    Ok(())
}

/// Raises the soft limit of open files to the hard one, since every connection is an open file, and that of
/// locked memory, since the kernel counts the rings of the cores.
fn raise_limits() {
    for (resource, name) in [
        (Resource::Nofile, "open files, RLIMIT_NOFILE"),
        (Resource::Memlock, "locked memory, RLIMIT_MEMLOCK"),
    ] {
        let limit = getrlimit(resource);
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(resource, raised) {
            tracing::warn!("cannot raise the limit of {name}: {error}");
        }
    }
}

/// The other nodes learn of the end of this process by the end of its connections, which a core dump would
/// delay.
fn forbid_core_dumps() {
    let limit = getrlimit(Resource::Core);
    if let Err(error) = setrlimit(Resource::Core, Rlimit { current: Some(0), ..limit }) {
        tracing::warn!("cannot forbid core dumps, RLIMIT_CORE: {error}");
    }
}

/// Tells the service manager that started the node, if it asked: a unit with `Type=notify`, see
/// sd_notify(3).
fn notify_manager(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!("cannot notify the service manager at $NOTIFY_SOCKET: {error}");
    }
}

/// Ends the process on a second signal, since draining can wait for devices and hosts.
fn end_at_once_on_another(mut signals: Signals) {
    let waiting = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if signals.forever().next().is_some() {
            tracing::warn!("ended by a second signal, before the drain was complete");
            std::process::exit(1);
        }
    });
    if let Err(error) = waiting {
        tracing::warn!("a second signal will not end the process: {error}");
    }
}
