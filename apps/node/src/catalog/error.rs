//! The errors of a catalog.

use std::io;
use std::path::{Path, PathBuf};

use nearflash_space::Name;
use nearflash_units::ByteLen;
use uuid::Uuid;

/// An error of the catalog. Every message is one line that names the thing and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// The data directory cannot be created or used.
    #[error(
        "data directory {}: {source}: correct its path or permissions, or choose another with \
         --data-dir",
        path.display()
    )]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another node has locked the data directory.
    #[error(
        "data directory {} is in use by another node{}: stop that node, or choose another \
         directory with --data-dir",
        path.display(), pid.map_or(String::new(), |pid| format!(" (process {pid})"))
    )]
    Locked {
        /// The directory.
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
    LockHeld {
        /// The directory.
        path: PathBuf,
        /// The process that has ended.
        pid: u32,
    },
    /// The database returned an error.
    #[error("catalog {}: {source}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// The database's error.
        source: Box<redb::Error>,
    },
    /// A later version wrote the catalog.
    #[error(
        "catalog {} has schema {found}, which this version does not know: \
         use the nearflash that wrote it, or a later one",
        path.display()
    )]
    Schema {
        /// The file.
        path: PathBuf,
        /// The schema number in the file.
        found: Box<str>,
    },
    /// The catalog has a table that this version does not know, and would ignore or lose.
    #[error(
        "catalog {} has the table '{table}', which this version does not know: \
         use the nearflash that wrote it, or a later one",
        path.display()
    )]
    Table {
        /// The file.
        path: PathBuf,
        /// The table's name.
        table: Box<str>,
    },
    /// A record cannot be read.
    #[error(
        "catalog {}: the record of '{what}' is damaged, or a later version wrote it: restore the \
         file from a backup, or use the nearflash that wrote it",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The key of the record.
        what: Box<str>,
    },
    /// The catalog's generation is not the one that a change was decided on.
    #[error(
        "catalog {}: its generation is '{found}' instead of {expected}: another program writes to \
         it: stop that program, and start the node again",
        path.display()
    )]
    Overtaken {
        /// The file.
        path: PathBuf,
        /// The generation of the records that the change was decided on.
        expected: u64,
        /// The generation in the file.
        found: Box<str>,
    },
    /// A volume is on a device that is not configured.
    #[error(
        "volume '{volume}' is on device '{device}' ({uuid}), which is not configured: add it with \
         --device"
    )]
    DeviceMissing {
        /// The volume's name.
        volume: Box<str>,
        /// The recorded name of the device.
        device: Box<str>,
        /// The UUID of the device.
        uuid: Uuid,
    },
    /// A device in memory is configured smaller than it was.
    #[error(
        "device '{device}' is {size} long, shorter than the {recorded} in the catalog: restore its \
         former size"
    )]
    Shrunk {
        /// The device.
        device: Name,
        /// The configured size.
        size: ByteLen,
        /// The recorded size.
        recorded: ByteLen,
    },
}

impl CatalogError {
    /// An error of the database.
    pub(super) fn database(path: &Path, error: redb::DatabaseError) -> Self {
        Self::Database { path: path.to_owned(), source: Box::new(error.into()) }
    }

    /// The error of an upgrade step, with the path of the file.
    pub(super) fn at(self, path: &Path) -> Self {
        let path = path.to_owned();
        match self {
            Self::Damaged { what, .. } => Self::Damaged { path, what },
            Self::Database { source, .. } => Self::Database { path, source },
            other => other,
        }
    }
}
