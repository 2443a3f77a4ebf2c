//! A data directory: the private directory of one node, and the lock that reserves it.
//!
//! A file can name the process that owns it ([`Owner`]). It names the start time of the process, too, since
//! the system reuses the numbers of processes. This crate knows no database and no cluster: both keep their
//! files in a data directory.

mod error;
mod lock;
mod owner;

use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

pub use error::DataDirError;
pub use lock::{Lock, owner_of};
pub use owner::Owner;

/// Creates the directory with mode 0700 and makes its entry durable. An existing directory keeps
/// its mode.
///
/// # Errors
/// When the system returns one.
pub fn make_private_dir(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    make_private_dir(parent)?;
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        made => made?,
    }
    match sync_dir(parent) {
        // A process may create entries in a directory that it has no right to open.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        synced => synced,
    }
}

/// Makes the entries of a directory durable.
///
/// # Errors
/// When the system returns one.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Sets a file's mode to 0600.
///
/// # Errors
/// When the system returns one.
pub fn make_private_file(path: &Path) -> io::Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(0o600))
}
