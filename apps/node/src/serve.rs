//! The life of a node: everything opened and checked, the cores started, ready announced, and on a
//! signal everything finished in the reverse order.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;

use nearflash_api::socket::socket_path;
use nearflash_api::{Document, Ready};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use uuid::Uuid;

use crate::config::{Config, DirectAddress, IscsiAddress};
use crate::control::ControlServer;
use crate::doors::{Addresses, Doors, SocketFile, absolute};
use crate::exports::{direct_access, published};
use crate::node::{Changes, ExpiryWatch, Node, now};
use crate::prepare::prepare;
use crate::{Catalog, NodeError, Runtime, RuntimeConfig, StartError, runtime};

/// A node that serves.
pub struct Running {
    data_dir: PathBuf,
    addresses: Addresses,
    node: Arc<Node>,
    runtime: Arc<dyn Runtime>,
    control: ControlServer,
    expiry: ExpiryWatch,
    changes: Changes,
    /// The socket of direct clients of this machine, for as long as it is there.
    local_socket: Option<SocketFile>,
}

impl Running {
    /// Opens everything, and starts the cores by `start`.
    ///
    /// # Errors
    /// When any of it cannot be, in one line that names it and the remedy.
    pub fn start(
        config: &Config,
        start: impl FnOnce(RuntimeConfig) -> Result<Arc<dyn Runtime>, StartError>,
    ) -> Result<Self, NodeError> {
        // The doors first: they are what most often is taken, and nothing has been touched yet.
        let doors = Doors::open(config)?;
        let catalog = Catalog::open(&config.data_dir, Uuid::new_v4())?;
        check_direct_doors(&config.direct, &catalog)?;
        check_iscsi_doors(&config.iscsi, &catalog)?;
        let prepared = prepare(catalog, &config.devices, &config.volumes)?;
        let direct = Arc::new(direct_access(&prepared.recorded, now()));
        let Doors { nvme_tcp, direct: direct_doors, direct_local, iscsi, .. } = doors;
        let (local_socket, addresses) = (doors.local_socket, doors.addresses);
        let (changes, asked) = channel();
        let runtime = start(RuntimeConfig {
            cores: config.cores.clone(),
            pool_len: config.pool_len,
            devices: prepared.devices.clone(),
            published: published(&prepared.recorded, &prepared.devices, Arc::clone(&direct)),
            nvme_tcp,
            direct: direct_doors,
            direct_local,
            iscsi,
            initiators: config.initiators.clone(),
            changes,
            node: prepared.catalog.node(),
        })?;
        let node = Node::new(prepared, direct, Arc::clone(&runtime), addresses.clone());
        let node = Arc::new(node);
        let given_up = |_: &NodeError| {
            // No host has had the time to ask for anything.
            let _ = runtime.drain_and_join();
        };
        let (control, expiry) = start_control(&config.data_dir, &node).inspect_err(given_up)?;
        let changes = Changes::start(Arc::clone(&node), asked)
            .map_err(|source| NodeError::System { action: "start a thread", source })
            .inspect_err(given_up)?;
        let data_dir = absolute(&config.data_dir);
        Ok(Self { data_dir, addresses, node, runtime, control, expiry, changes, local_socket })
    }

    /// What is announced.
    pub fn ready(&self) -> Document<Ready> {
        Document::new(Ready {
            event: "ready".to_owned(),
            nvme_tcp: self.addresses.nvme_tcp.clone(),
            direct: self.addresses.direct.clone(),
            direct_local: self.addresses.direct_local.clone(),
            iscsi: self.addresses.iscsi.clone(),
            control: socket_path(&self.data_dir),
            volumes: self.node.volumes(),
            pid: std::process::id(),
        })
    }

    /// Lets nobody in any more, finishes what is in flight, and ends.
    ///
    /// # Errors
    /// When not all of it could be finished and flushed.
    pub fn stop(self) -> Result<(), NodeError> {
        self.control.stop();
        self.expiry.stop();
        // Before the drain: another node may take the name as soon as nobody listens here.
        drop(self.local_socket);
        if !self.runtime.drain_and_join() {
            return Err(NodeError::NotDrained);
        }
        self.changes.join();
        self.node.release();
        Ok(())
    }
}

/// Serves until SIGTERM or SIGINT, then drains; says on stdout when hosts can connect. A second
/// signal ends the process at once.
///
/// # Errors
/// When it cannot start, in one line that names the thing and the remedy.
pub fn serve(config: &Config) -> Result<(), NodeError> {
    let failed = |action| move |source| NodeError::System { action, source };
    // Before anything else, so that a signal at any moment finds someone.
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(failed("receive signals"))?;
    // A write past the limit of file sizes fails, and its host is told; the signal that comes with
    // it would end the process.
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map_err(failed("receive signals"))?;
    raise_open_files_limit();
    let running = Running::start(config, |given| Ok(Arc::new(runtime::start(given)?)))?;
    let line = running.ready().to_line();
    let mut stdout = io::stdout();
    let announced = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    if let Err(source) = announced {
        running.stop()?;
        return Err(failed("write the ready line to stdout")(source));
    }
    let signal = signals.forever().next();
    tracing::info!(signal, "draining");
    end_at_once_on_another(signals);
    running.stop()?;
    tracing::info!("drained");
    Ok(())
}

/// What the control side does while the cores serve.
fn start_control(
    data_dir: &Path,
    node: &Arc<Node>,
) -> Result<(ControlServer, ExpiryWatch), NodeError> {
    let failed = |source| NodeError::Control { path: socket_path(data_dir), source };
    let control = ControlServer::start(data_dir, Arc::clone(node)).map_err(failed)?;
    match ExpiryWatch::start(Arc::clone(node)) {
        Ok(expiry) => Ok((control, expiry)),
        Err(source) => {
            control.stop();
            Err(NodeError::System { action: "start a thread", source })
        }
    }
}

/// A door that leads to other machines opens only when there is a credential to show at it, or
/// when it was said that everyone may come in.
fn check_direct_doors(doors: &[DirectAddress], catalog: &Catalog) -> Result<(), NodeError> {
    match doors.iter().find(|door| !door.is_anonymous) {
        Some(door) if catalog.read()?.has_no_credential() => {
            let (key, address) = (door.key.clone(), door.address);
            Err(NodeError::NoCredential { key, address })
        }
        _ => Ok(()),
    }
}

/// The same for initiators, who show that they know the secret of a CHAP user.
fn check_iscsi_doors(doors: &[IscsiAddress], catalog: &Catalog) -> Result<(), NodeError> {
    match doors.iter().find(|door| !door.is_anonymous) {
        Some(door) if catalog.read()?.has_no_account() => {
            let (key, address) = (door.key.clone(), door.address);
            Err(NodeError::NoAccount { key, address })
        }
        _ => Ok(()),
    }
}

/// Every connection is an open file: as many as the system allows at all, rather than as few as it
/// gives to those that do not ask.
fn raise_open_files_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!("cannot raise the limit of open files, RLIMIT_NOFILE: {error}");
    }
}

/// Draining waits for devices and hosts; whoever cannot wait signals again.
fn end_at_once_on_another(mut signals: Signals) {
    let waiting = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if signals.forever().next().is_some() {
            tracing::warn!("ended before all was drained, by a second signal");
            std::process::exit(1);
        }
    });
    if let Err(error) = waiting {
        tracing::warn!("a second signal will not end the process: {error}");
    }
}
