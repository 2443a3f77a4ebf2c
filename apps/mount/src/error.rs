//! The errors of mounting and unmounting, each in one line that names the thing and the remedy.

use std::io;
use std::path::PathBuf;

use nearflash_files_service::FilesError;

/// The reason why a volume cannot be mounted, or a mount has ended.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum MountError {
    /// The mount point does not exist, or cannot be read.
    #[error("cannot mount on {}: {source}; create the directory, or choose another one", .dir.display())]
    MountPoint { dir: PathBuf, source: io::Error },
    /// The mount point is a file.
    #[error("cannot mount on {}: it is not a directory", .0.display())]
    NotDirectory(PathBuf),
    /// Another file system is mounted there.
    #[error("cannot mount on {}: '{mounted}' is mounted there; unmount it, or choose another directory", .dir.display())]
    Mounted { dir: PathBuf, mounted: String },
    /// The process of a former mount has ended.
    #[error("cannot mount on {dir}: the mount there has lost its process; run 'nearflash umount {dir}' first", dir = .0.display())]
    Abandoned(PathBuf),
    /// The kernel has no FUSE, or this process may not use it.
    #[error(
        "cannot open /dev/fuse: {0}; load the kernel's module with 'modprobe fuse', and let users read and write the device"
    )]
    Device(io::Error),
    /// A normal user needs a helper.
    #[error(
        "cannot mount as a normal user without fusermount3: install the package fuse3, or mount as root"
    )]
    NoHelper,
    /// The kernel or the helper refuses.
    #[error("cannot mount on {}: {}", .dir.display(), .source.to_string().trim_end())]
    Refused { dir: PathBuf, source: io::Error },
    /// The volume cannot be connected to.
    #[error(transparent)]
    Client(#[from] nearflash::Error),
    /// The volume cannot be opened, or its last changes cannot be written.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// Another process has taken the volume over, or changes cannot be made durable.
    #[error("the mount has ended: {0}; 'nearflash umount' removes its mount point")]
    Failed(String),
    /// The mount has ended without its node.
    #[error("the node of {url} does not answer, and the mount has ended without it")]
    NoAnswer { url: String },
    /// The session with the kernel failed.
    #[error("the connection to the kernel failed: {0}")]
    Kernel(io::Error),
    /// Signals cannot be handled.
    #[error("cannot handle signals: {0}")]
    Signals(io::Error),
    /// The place where unmounting commands wait cannot be created.
    #[error("cannot listen for 'nearflash umount': {0}")]
    Listen(io::Error),
}

/// The reason why a file system cannot be unmounted.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum UnmountError {
    /// The directory does not exist.
    #[error("cannot unmount {}: {source}", .dir.display())]
    MountPoint { dir: PathBuf, source: io::Error },
    /// No volume of files is mounted there.
    #[error("{} is not a mount of nearflash: 'findmnt -t fuse,fuse.nearflash' lists them", .0.display())]
    NotMounted(PathBuf),
    /// Another user's mount.
    #[error("cannot unmount {}: {source}; run the command as the user who mounted it", .dir.display())]
    NotOurs { dir: PathBuf, source: io::Error },
    /// The process of the mount is stopped, or cannot be reached.
    #[error(
        "cannot unmount {dir}: its process does not answer ({source}); 'nearflash umount --force {dir}' does not \
         wait for it", dir = .dir.display()
    )]
    NoProcess { dir: PathBuf, source: io::Error },
    /// Files or directories are in use.
    #[error(
        "cannot unmount {dir}: it is in use; 'fuser -vm {dir}' lists the processes, and 'nearflash umount --force \
         {dir}' makes their calls fail", dir = .0.display())]
    Busy(PathBuf),
    /// A normal user needs a helper.
    #[error(
        "cannot unmount as a normal user without fusermount3: install the package fuse3, or unmount as root"
    )]
    NoHelper,
    /// The kernel or the helper refuses.
    #[error("cannot unmount {}: {reason}", .dir.display())]
    Refused { dir: PathBuf, reason: String },
    /// The last changes are lost.
    #[error("{} is unmounted, and its last changes may be lost: {reason}", .dir.display())]
    Lost { dir: PathBuf, reason: String },
}
