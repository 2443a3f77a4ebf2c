//! The events that end a mount.

use std::time::Duration;

use nearflash_files_service::FilesError;

/// The time in which everything becomes durable after the file system was unmounted. A node that takes longer
/// does not answer any more.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The end of a mount.
#[derive(Debug)]
pub(crate) enum Event {
    /// The file system was unmounted, or the kernel ended the connection.
    Unmounted(std::io::Result<()>),
    /// SIGTERM or SIGINT.
    Signal,
    /// `nearflash umount` has unmounted the file system.
    Detached,
    /// `nearflash umount --force` has unmounted it, although it may be in use.
    Forced,
    /// Everything is durable, or is not.
    Closed(Result<(), FilesError>),
    /// Nothing can be changed any more, since another process has taken the volume over, for example.
    Failed(String),
}
