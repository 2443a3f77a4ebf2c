//! Paths of Unix sockets of any length.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

/// Maximum length of a path in `sun_path`, without its NUL; unix(7).
const ADDRESS_LEN_MAX: usize = 107;

/// A path of a socket that fits into `sun_path`: the path itself or, if that is too long, one
/// through the open folder's entry in /proc.
#[derive(Debug)]
pub struct ShortPath {
    path: PathBuf,
    /// Kept open as long as `path` uses it.
    _folder: Option<OwnedFd>,
}

impl ShortPath {
    /// A short path of a socket.
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

    /// The path, which is valid as long as this exists.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn a_socket_in_a_folder_of_any_depth_is_reached() {
        let folder = std::env::temp_dir().join(format!("nearflash-short-{}", std::process::id()));
        let deep = (0..10).fold(folder.clone(), |path, _| path.join("x".repeat(100)));
        std::fs::create_dir_all(&deep).unwrap();
        for socket in [folder.join("n.sock"), deep.join("n.sock")] {
            let _listener = UnixListener::bind(ShortPath::to(&socket).unwrap().path()).unwrap();
            UnixStream::connect(ShortPath::to(&socket).unwrap().path()).unwrap();
            assert!(socket.exists());
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
