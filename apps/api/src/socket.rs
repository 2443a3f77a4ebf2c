//! The control socket: where it is, and a way to it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

/// Longest request, its line's end included.
pub const REQUEST_LEN_MAX: usize = 64 << 10;

/// Longest answer, its line's end included.
pub const ANSWER_LEN_MAX: u64 = 16 << 20;

/// Longest path that a socket's address holds, without its NUL.
const ADDRESS_LEN_MAX: usize = 107;

/// The control socket of a data directory.
pub fn socket_path(data_dir: &Path) -> PathBuf {
    data_dir.join("control.sock")
}

/// The environment does not say where the default data directory is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no default data directory: HOME is not set: add --data-dir DIR")]
pub struct NoDataDir;

/// The data directory of a node that is not told another.
///
/// # Errors
/// When the environment does not say.
pub fn default_data_dir() -> Result<PathBuf, NoDataDir> {
    if rustix::process::geteuid().is_root() {
        return Ok("/var/lib/nearflash".into());
    }
    let folder = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = folder("XDG_STATE_HOME").filter(|path| path.is_absolute());
    let state = state.or_else(|| folder("HOME").map(|home| home.join(".local/state")));
    state.map(|state| state.join("nearflash")).ok_or(NoDataDir)
}

/// A path to a socket that fits a socket's address: the path itself, or one through the open folder
/// where it is too long.
#[derive(Debug)]
pub struct ShortPath {
    path: PathBuf,
    /// Kept open for as long as `path` leads through it.
    _folder: Option<OwnedFd>,
}

impl ShortPath {
    /// A way to that socket.
    ///
    /// # Errors
    /// When its folder cannot be opened.
    pub fn to(socket: &Path) -> io::Result<Self> {
        if socket.as_os_str().len() <= ADDRESS_LEN_MAX {
            return Ok(Self { path: socket.to_owned(), _folder: None });
        }
        let (folder, name) = socket.parent().zip(socket.file_name()).ok_or(Errno::INVAL)?;
        let folder =
            open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let path = Path::new(&format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
        Ok(Self { path, _folder: Some(folder) })
    }

    /// The path, for as long as this exists.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
