//! The errors of files.

use std::io;
use std::path::PathBuf;

/// The reason why a file cannot be measured.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum FileError {
    /// The file does not exist, and no size is given to create it.
    #[error("{path} does not exist: add --size to create it")]
    Absent { path: PathBuf },
    /// The system refused the operation.
    #[error("{path}: {source}")]
    Open { path: PathBuf, source: io::Error },
    /// The file system does not support direct I/O.
    #[error("{path} does not support O_DIRECT: give --direct 0, or a path on a disk")]
    NoDirect { path: PathBuf },
    /// The block device is in use.
    #[error(
        "{path} is in use (mounted, or part of an array): writing to it would destroy its data"
    )]
    InUse { path: PathBuf },
    /// The path is neither a regular file nor a block device.
    #[error("{path} is neither a regular file nor a block device")]
    NoStorage { path: PathBuf },
}
