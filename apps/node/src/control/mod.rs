//! The control socket: `control.sock` in the data directory, accessible to the node's own user
//! alone. A connection carries one request on one line and one answer on one line.
//!
//! Its threads may block: the data path does not run here, and a request waits for it only where
//! the answer depends on it. The number of connections, the length of a request and the time for a
//! peer are bounded.

mod server;

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::Mode;
use socket2::{Domain, SockAddr, Socket, Type};

pub(crate) use server::ControlServer;

/// Listens on a Unix socket that only its owner can connect to, from its creation on.
pub(crate) fn listen_privately(path: &Path, backlog: i32) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // The mode is set before the socket has a name.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(backlog)?;
    Ok(UnixListener::from(OwnedFd::from(socket)))
}
