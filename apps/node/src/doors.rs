//! The listening sockets of a node, for hosts and direct clients. All are bound before the node
//! touches anything else.

use std::fs::{remove_file, symlink_metadata};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nearflash_ring::ShortPath;
use nearflash_session::DoorTls;
use rustix::io::Errno;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::StartError;
use crate::control::listen_privately;
use crate::http::{NetworkDoor, socket_path};
use nearflash_config::{Admits, Advertise, Config, HostAccess, InitiatorAccess, Protocol};

/// The backlog of a listening socket: connections that wait for a core to accept them.
const BACKLOG: i32 = 4096;

/// The time for which an address in use is tried again: the sockets in the rings of a killed node
/// close shortly after it has ended, and a new node must be able to start at once.
const PATIENCE: Duration = Duration::from_secs(2);

/// An open door.
#[derive(Debug)]
pub(crate) struct OpenDoor {
    /// The protocol.
    pub(crate) protocol: Protocol,
    /// Bound, listening and non-blocking.
    pub(crate) socket: DoorSocket,
    /// The peers that it admits.
    pub(crate) admits: Admits,
    /// Whether its connections use TLS, which iSCSI does not have.
    pub(crate) tls: DoorTls,
}

/// A door's socket.
#[derive(Debug)]
pub(crate) enum DoorSocket {
    /// Reachable over the network.
    Tcp {
        /// The socket.
        listener: TcpListener,
        /// The address that discovery reports: the bound one, or the one that `--advertise` gives.
        /// An unspecified IP (`0.0.0.0`) stands for the address that the peer connected to.
        advertise: SocketAddr,
    },
    /// A Unix socket on this machine. Only the owner of its file can connect.
    Local(UnixListener),
}

/// The addresses of a node.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Addresses {
    bound: Vec<Bound>,
    pub(crate) direct_local: Option<PathBuf>,
    /// The address for HTTP, and its Unix socket.
    pub(crate) http: Option<SocketAddr>,
    pub(crate) http_local: Option<PathBuf>,
}

/// An address of a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Bound {
    protocol: Protocol,
    /// As bound, with the port that the system chose for port 0.
    address: SocketAddr,
    /// The address by which discovery reports it.
    advertised: SocketAddr,
    tls: DoorTls,
    /// Other machines reach it, and it admits peers that neither authenticate nor are named.
    is_for_everyone: bool,
}

/// Whether a door admits peers of other machines that neither authenticate nor are named.
fn is_for_everyone(door: &nearflash_config::Door, config: &Config) -> bool {
    let names_nobody = match door.protocol {
        Protocol::NvmeTcp => config.hosts == HostAccess::Any,
        Protocol::Iscsi => config.initiators == InitiatorAccess::Any,
        Protocol::Direct => true,
    };
    let needs_key = door.admits == Admits::Proven || door.tls == DoorTls::Required;
    !door.is_loopback() && !needs_key && names_nobody
}

impl Addresses {
    /// The addresses that other machines reach, and that admit peers which neither authenticate nor are named.
    pub(crate) fn for_everyone(&self) -> impl Iterator<Item = (Protocol, SocketAddr)> {
        let found = self.bound.iter().filter(|bound| bound.is_for_everyone);
        found.map(|bound| (bound.protocol, bound.address))
    }

    /// The addresses by which discovery reports those of a protocol, and whether each has TLS.
    pub(crate) fn advertised(&self, protocol: Protocol) -> Vec<(SocketAddr, DoorTls)> {
        let of = self.bound.iter().filter(|bound| bound.protocol == protocol);
        of.map(|bound| (bound.advertised, bound.tls)).collect()
    }

    pub(crate) fn of(&self, protocol: Protocol) -> Vec<SocketAddr> {
        self.with(protocol, |_| true)
    }

    /// Those of a protocol that peers without TLS can use.
    pub(crate) fn plain(&self, protocol: Protocol) -> Vec<SocketAddr> {
        self.with(protocol, |tls| tls != DoorTls::Required)
    }

    /// Those of a protocol that require TLS.
    pub(crate) fn only_tls(&self, protocol: Protocol) -> Vec<SocketAddr> {
        self.with(protocol, |tls| tls == DoorTls::Required)
    }

    fn with(&self, protocol: Protocol, is_meant: impl Fn(DoorTls) -> bool) -> Vec<SocketAddr> {
        let of =
            self.bound.iter().filter(|bound| bound.protocol == protocol && is_meant(bound.tls));
        of.map(|bound| bound.address).collect()
    }
}

/// The open doors of a node.
pub(crate) struct Doors {
    pub(crate) open: Vec<OpenDoor>,
    pub(crate) local_socket: Option<SocketFile>,
    pub(crate) addresses: Addresses,
    /// The address for HTTP.
    pub(crate) http: Option<NetworkDoor>,
}

/// The path of a Unix socket; dropping it removes the file.
#[derive(Debug)]
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // The file may be gone already, which is no error.
        let _ = remove_file(&self.0);
    }
}

impl Doors {
    pub(crate) fn open(config: &Config) -> Result<Self, StartError> {
        let mut open = Vec::new();
        let mut addresses = Addresses::default();
        for door in &config.doors {
            let (protocol, admits) = (door.protocol, door.admits);
            let shares_port = |other: &nearflash_config::Door| {
                other.address.port() == door.address.port()
                    && other.address.ip() == Ipv4Addr::UNSPECIFIED
            };
            // `[::]` accepts IPv4, too, unless `0.0.0.0` is given for it.
            let is_half =
                door.address.ip() == Ipv6Addr::UNSPECIFIED && config.doors.iter().any(shares_port);
            let accepts = if is_half { Accepts::OnlyIpv6 } else { Accepts::Both };
            let (listener, bound) = open_tcp(protocol.key(), door.address, accepts)?;
            let advertise = advertised(protocol, bound, config.advertise);
            let socket = DoorSocket::Tcp { listener, advertise };
            open.push(OpenDoor { protocol, socket, admits, tls: door.tls });
            let tls = door.tls;
            let is_for_everyone = is_for_everyone(door, config);
            let (address, advertised) = (bound, advertise);
            addresses.bound.push(Bound { protocol, address, advertised, tls, is_for_everyone });
        }
        addresses.direct_local = config.direct_local.as_deref().map(absolute);
        let local = addresses.direct_local.as_deref().map(open_local).transpose()?;
        let (listener, local_socket) = local.unzip();
        open.extend(listener.map(|listener| OpenDoor {
            protocol: Protocol::Direct,
            socket: DoorSocket::Local(listener),
            // The mode of its file admits only the node's own user.
            admits: Admits::Unproven,
            tls: DoorTls::Off,
        }));
        let http = NetworkDoor::open(config)?;
        addresses.http = http.as_ref().and_then(NetworkDoor::address);
        addresses.http_local = config.http.is_on.then(|| socket_path(&config.data_dir));
        Ok(Self { open, local_socket, addresses, http })
    }
}

/// Opens the door of the owner of files, which is a client of this node.
pub(crate) fn open_for_owner(path: &Path) -> Result<(OpenDoor, SocketFile), StartError> {
    let (listener, file) = open_local(path)?;
    let socket = DoorSocket::Local(listener);
    let (protocol, admits) = (Protocol::Direct, Admits::Proven);
    Ok((OpenDoor { protocol, socket, admits, tls: DoorTls::Off }, file))
}

/// An absolute path, valid in any working directory.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The protocols that a listener on every IPv6 address accepts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Accepts {
    /// IPv4, too.
    Both,
    /// Another listener has the IPv4 addresses.
    OnlyIpv6,
}

/// Opens an address.
pub(crate) fn open_tcp(
    flag: &'static str,
    address: SocketAddr,
    accepts: Accepts,
) -> Result<(TcpListener, SocketAddr), StartError> {
    let opened = patiently(|| listen(address, accepts))
        .and_then(|listener| listener.local_addr().map(|bound| (listener, bound)));
    opened.map_err(|source| StartError::Bind {
        flag,
        remedy: address_remedy(source.kind()),
        address: address.to_string().into(),
        source,
    })
}

/// Opens a Unix socket. A socket that a dead node left behind is replaced; a socket in use, or a
/// file of another kind, is left alone.
fn open_local(path: &Path) -> Result<(UnixListener, SocketFile), StartError> {
    open_private("direct-local", path)
}

/// The same, with the flag that names the socket.
pub(crate) fn open_private(
    flag: &'static str,
    path: &Path,
) -> Result<(UnixListener, SocketFile), StartError> {
    let opened = patiently(|| {
        let short = ShortPath::to(path)?;
        remove_if_dead(short.path())?;
        let listener = listen_privately(short.path(), BACKLOG)?;
        listener.set_nonblocking(true)?;
        Ok((listener, SocketFile(path.to_owned())))
    });
    opened.map_err(|source| StartError::Bind {
        flag,
        remedy: path_remedy(source.kind()),
        address: path.display().to_string().into(),
        source,
    })
}

fn remove_if_dead(path: &Path) -> io::Result<()> {
    match symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(rustix::io::Errno::EXIST.into());
        }
        Ok(_) => {}
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A socket whose queue is full is in use, and `connect` must not wait for it.
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::unix(path)?) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        _ => Err(Errno::ADDRINUSE.into()),
    }
}

/// Repeats a bind while the address is in use, for at most [`PATIENCE`].
fn patiently<T>(listen: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match listen() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::sleep(PATIENCE / 100);
            }
            ended => return ended,
        }
    }
}

fn listen(address: SocketAddr, accepts: Accepts) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if accepts == Accepts::OnlyIpv6 {
        socket.set_only_v6(true)?;
    }
    // A restarted node must not wait for the connections of the previous one to leave TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// The address that discovery reports. An advertised port applies to NVMe/TCP only.
fn advertised(protocol: Protocol, bound: SocketAddr, advertise: Option<Advertise>) -> SocketAddr {
    let Some(Advertise { ip, port }) = advertise else { return bound };
    let port = port.filter(|_| protocol == Protocol::NvmeTcp);
    SocketAddr::new(ip, port.unwrap_or(bound.port()))
}

fn address_remedy(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::AddrInUse => {
            "another program is listening there: stop it, or choose another port (0 selects a free \
             one)"
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address: 'ip address' lists its addresses"
        }
        io::ErrorKind::PermissionDenied => "choose a port above 1023",
        _ => "choose another address",
    }
}

fn path_remedy(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::AddrInUse => {
            "another program is listening there: stop it, or choose another path"
        }
        io::ErrorKind::AlreadyExists => "the file there is not a socket: choose another path",
        io::ErrorKind::NotFound => "create its directory, or choose another path",
        _ => "choose another path",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_local_door_is_for_its_owner_alone_and_goes_with_the_node() {
        let folder = tempfile::tempdir().unwrap();
        // A directory whose name is too long for a socket address works, too.
        let long = folder.path().join("x".repeat(120));
        std::fs::create_dir(&long).unwrap();
        for path in [folder.path().join("d.sock"), long.join("d.sock")] {
            // A socket left over from a node that was killed.
            let short = ShortPath::to(&path).unwrap();
            drop(UnixListener::bind(short.path()).unwrap());
            let (_listener, file) = open_local(&path).unwrap();
            let mode = symlink_metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            drop(file);
            assert!(!path.exists());
        }
    }

    #[test]
    fn every_ipv6_address_can_be_a_listener_beside_one_of_every_ipv4_address() {
        let all = |ip: &str, port, accepts| {
            open_tcp("nvme-tcp", SocketAddr::new(ip.parse().unwrap(), port), accepts)
        };
        let (_ipv4, bound) = all("0.0.0.0", 0, Accepts::Both).unwrap();
        let (_ipv6, other) = all("::", bound.port(), Accepts::OnlyIpv6).unwrap();
        assert_eq!(other.port(), bound.port());
    }

    #[test]
    fn a_local_door_in_use_or_of_another_kind_is_refused_by_name_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d.sock");
        let refused = |path: &Path| {
            let message = open_local(path).unwrap_err().to_string();
            message.replace(&*folder.path().to_string_lossy(), "DIR")
        };
        let (listener, _file) = open_local(&path).unwrap();
        assert_eq!(
            refused(&path),
            "--direct-local DIR/d.sock: Address already in use (os error 98): another program \
             is listening there: stop it, or choose another path"
        );
        assert!(path.exists());
        drop(listener);
        let file = folder.path().join("file");
        std::fs::write(&file, "kept").unwrap();
        assert!(refused(&file).ends_with("the file there is not a socket: choose another path"));
        assert_eq!(std::fs::read(&file).unwrap(), b"kept");
        let message = refused(&folder.path().join("none/d.sock"));
        assert!(message.ends_with("create its directory, or choose another path"), "{message}");
    }
}
