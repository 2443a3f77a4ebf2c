//! The errors of a data directory.

use std::io;
use std::path::PathBuf;

fn data_dir_remedy(kind: io::ErrorKind) -> &'static str {
    match kind {
        // In another directory, the node would be another one, and its devices would refuse it.
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make space in its file system"
        }
        io::ErrorKind::ReadOnlyFilesystem => "make its file system writable",
        io::ErrorKind::PermissionDenied => {
            "run this as its owner, or correct the permissions of the directory and of the files in it"
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "it must be a directory: choose another with --data-dir"
        }
        _ => "correct its path or permissions, or choose another with --data-dir",
    }
}

/// An error of a data directory. Every message is one line that names the directory and the remedy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum DataDirError {
    /// The data directory cannot be created or used.
    #[error(
        "data directory {}: {source}: {}",
        path.display(),
        data_dir_remedy(source.kind())
    )]
    Unusable { path: PathBuf, source: io::Error },
    /// Another node has locked the data directory.
    #[error(
        "data directory {} is in use by another node{}: stop that node, or choose another \
         directory with --data-dir",
        path.display(), pid.map_or(String::new(), |pid| format!(" (process {pid})"))
    )]
    Locked {
        path: PathBuf,
        /// The process that holds the lock, if the lock file names it.
        pid: Option<u32>,
    },
    /// A process that has ended still holds the lock.
    #[error(
        "data directory {}: process {pid} has ended but still holds the lock, because a device has \
         not completed its last operations: look in the kernel's log for the device, and start \
         again later",
        path.display()
    )]
    LockHeld { path: PathBuf, pid: u32 },
}
