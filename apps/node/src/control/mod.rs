//! The control socket: `control.sock` in the data directory, for the node's own user alone. One
//! request on one line, one answer on one line, and the connection is over.
//!
//! Plain threads that may block: nothing here is on the data path, and nothing here waits for it
//! except where an answer depends on it. Bounded: connections at a time, a request's length, and
//! how long a peer may take.

mod server;

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::Mode;
use socket2::{Domain, SockAddr, Socket, Type};

pub(crate) use server::{ControlServer, parse};

/// Listens on a Unix socket that nobody but its owner can connect to, not even for a moment.
pub(crate) fn listen_privately(path: &Path, backlog: i32) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // Before it has a name.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(backlog)?;
    Ok(UnixListener::from(OwnedFd::from(socket)))
}
