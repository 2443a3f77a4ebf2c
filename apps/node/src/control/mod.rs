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
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};

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
struct ShortPath {
    path: PathBuf,
    /// Kept open for as long as `path` leads through it.
    _folder: Option<OwnedFd>,
}

impl ShortPath {
    fn to(data_dir: &Path) -> io::Result<Self> {
        let path = socket_path(data_dir);
        if path.as_os_str().len() <= ADDRESS_LEN_MAX {
            return Ok(Self { path, _folder: None });
        }
        let folder =
            open(data_dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let path = socket_path(Path::new(&format!("/proc/self/fd/{}", folder.as_raw_fd())));
        Ok(Self { path, _folder: Some(folder) })
    }
}
