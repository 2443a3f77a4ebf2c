//! The control socket: `control.sock` in the data directory, for the node's own user alone. One
//! request on one line, one answer on one line, and the connection is over.
//!
//! Plain threads that may block: nothing here is on the data path, and nothing here waits for it
//! except where an answer depends on it. Bounded: connections at a time, a request's length, and
//! how long a peer may take.

mod client;
mod server;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use socket2::{Domain, SockAddr, Socket, Type};

pub use client::{ControlError, ask};
pub(crate) use server::{ControlServer, parse};

/// Longest request and longest answer, without the line's end.
const LINE_LEN_MAX: usize = 16 << 20;

/// The socket of a data directory.
pub fn socket_path(data_dir: &Path) -> PathBuf {
    data_dir.join("control.sock")
}

/// Longest path that a socket's address holds, without its NUL.
const ADDRESS_LEN_MAX: usize = 107;

/// A way to a socket that its address can hold: its path, or one through the open folder where the
/// path is too long.
pub(crate) struct ShortPath {
    pub(crate) path: PathBuf,
    /// Kept open for as long as `path` leads through it.
    _folder: Option<OwnedFd>,
}

impl ShortPath {
    pub(crate) fn to(socket: &Path) -> io::Result<Self> {
        if socket.as_os_str().len() <= ADDRESS_LEN_MAX {
            return Ok(Self { path: socket.to_owned(), _folder: None });
        }
        let (folder, name) = socket.parent().zip(socket.file_name()).ok_or(Errno::INVAL)?;
        let folder =
            open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let path = Path::new(&format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
        Ok(Self { path, _folder: Some(folder) })
    }
}

/// Listens on a Unix socket that nobody but its owner can connect to, not even for a moment.
pub(crate) fn listen_privately(path: &Path, backlog: i32) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // Before it has a name.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(backlog)?;
    Ok(UnixListener::from(OwnedFd::from(socket)))
}
