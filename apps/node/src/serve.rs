//! The life of a node: everything opened and checked, the cores started, ready announced, and on a
//! signal everything finished in the reverse order.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use socket2::{Domain, Socket, Type};
use uuid::Uuid;

use crate::api::{Document, Ready};
use crate::config::{Advertise, Config};
use crate::control::{ControlServer, socket_path};
use crate::exports::published;
use crate::node::Node;
use crate::prepare::prepare;
use crate::{Catalog, Door, NodeError, Runtime, RuntimeConfig, StartError, runtime};

/// Connections that the system holds for a door until a core takes them.
const BACKLOG: i32 = 4096;

/// How long an address may still be in use: a node that was killed gives up the sockets of its
/// rings a little after it has ended, and must be replaceable at once.
const PATIENCE: Duration = Duration::from_secs(2);

/// A node that serves.
pub struct Running {
    data_dir: PathBuf,
    nvme_tcp: Vec<SocketAddr>,
    node: Arc<Node>,
    runtime: Arc<dyn Runtime>,
    control: ControlServer,
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
        let doors = open_doors(config)?;
        let nvme_tcp: Vec<SocketAddr> = doors.iter().map(|(_, address)| *address).collect();
        let catalog = Catalog::open(&config.data_dir, Uuid::new_v4())?;
        let prepared = prepare(catalog, &config.devices, &config.volumes)?;
        let runtime = start(RuntimeConfig {
            cores: config.cores.clone(),
            pool_len: config.pool_len,
            devices: prepared.devices.clone(),
            published: published(&prepared.space, &prepared.devices),
            nvme_tcp: doors.into_iter().map(|(door, _)| door).collect(),
            node: prepared.catalog.node(),
        })?;
        let node = Arc::new(Node::new(prepared, Arc::clone(&runtime), nvme_tcp.clone()));
        let control = ControlServer::start(&config.data_dir, Arc::clone(&node));
        let control = control.map_err(|source| {
            // No host has had the time to ask for anything.
            let _ = runtime.drain_and_join();
            NodeError::Control { path: socket_path(&config.data_dir), source }
        })?;
        let data_dir = absolute(&config.data_dir);
        Ok(Self { data_dir, nvme_tcp, node, runtime, control })
    }

    /// What is announced.
    pub fn ready(&self) -> Document<Ready> {
        Document::new(Ready {
            event: "ready".to_owned(),
            nvme_tcp: self.nvme_tcp.clone(),
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
        if self.runtime.drain_and_join() { Ok(()) } else { Err(NodeError::NotDrained) }
    }
}

/// Serves until SIGTERM or SIGINT, then drains; says on stdout when hosts can connect. A second
/// signal ends the process at once.
///
/// # Errors
/// When it cannot start, in one line that names the thing and the remedy.
pub fn serve(config: &Config) -> Result<(), NodeError> {
    let start =
        |given| -> Result<Arc<dyn Runtime>, StartError> { Ok(Arc::new(runtime::start(given)?)) };
    serve_with(config, start, io::stdout())
}

/// Serves until SIGTERM or SIGINT, then drains. A second signal ends the process at once.
///
/// # Errors
/// When it cannot start, in one line that names the thing and the remedy.
pub fn serve_with(
    config: &Config,
    start: impl FnOnce(RuntimeConfig) -> Result<Arc<dyn Runtime>, StartError>,
    mut announce: impl Write,
) -> Result<(), NodeError> {
    let failed = |action| move |source| NodeError::System { action, source };
    // Before anything else, so that a signal at any moment finds someone.
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(failed("receive signals"))?;
    // A write past the limit of file sizes fails, and its host is told; the signal that comes with
    // it would end the process.
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map_err(failed("receive signals"))?;
    raise_open_files_limit();
    let running = Running::start(config, start)?;
    let line = running.ready().to_line();
    let announced = writeln!(announce, "{line}").and_then(|()| announce.flush());
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

fn open_doors(config: &Config) -> Result<Vec<(Door, SocketAddr)>, NodeError> {
    let open = |address: &SocketAddr| {
        let listener = listen_patiently(*address).map_err(|source| bind_error(*address, source))?;
        let bound = listener.local_addr().map_err(|source| bind_error(*address, source))?;
        let advertise = advertised(bound, config.advertise);
        Ok((Door { listener, advertise, hosts: config.hosts.clone() }, bound))
    };
    config.nvme_tcp.iter().map(open).collect()
}

/// Tries again while the address is in use, for a bounded time.
fn listen_patiently(address: SocketAddr) -> io::Result<TcpListener> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match listen(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::sleep(PATIENCE / 100);
            }
            ended => return ended,
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // A node that is restarted must not wait for the last one's connections to be forgotten.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn advertised(bound: SocketAddr, advertise: Option<Advertise>) -> SocketAddr {
    advertise.map_or(bound, |a| SocketAddr::new(a.ip, a.port.unwrap_or(bound.port())))
}

fn bind_error(address: SocketAddr, source: io::Error) -> NodeError {
    let remedy = match source.kind() {
        io::ErrorKind::AddrInUse => {
            "another program listens there: stop it, or choose another port (0 takes a free one)"
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address: 'ip address' shows all"
        }
        io::ErrorKind::PermissionDenied => "choose a port above 1023",
        _ => "choose another address",
    };
    NodeError::Bind { address, source, remedy }
}

/// As others find it, whatever their working directory.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
