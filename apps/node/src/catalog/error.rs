//! Why a catalog cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use nearflash_space::Name;
use nearflash_units::ByteLen;
use uuid::Uuid;

/// Why a catalog cannot be used. Every message is one line that names the thing and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// The folder cannot be made or used.
    #[error("data directory {}: {source}: correct it, or choose another with --data-dir", path.display())]
    DataDir {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another node has it.
    #[error(
        "data directory {} is in use by another node{}: stop that one, or give this one its own \
         --data-dir",
        path.display(), pid.map_or(String::new(), |pid| format!(" (process {pid})"))
    )]
    Locked {
        /// Which.
        path: PathBuf,
        /// Whose, when it says.
        pid: Option<u32>,
    },
    /// The lock of a process that has ended is not given up.
    #[error(
        "data directory {}: process {pid} has ended and still holds its lock, since a device has not \
         done its last operations: the kernel's log may name the device; start again later",
        path.display()
    )]
    LockHeld {
        /// Which.
        path: PathBuf,
        /// Whose.
        pid: u32,
    },
    /// The database refuses.
    #[error("catalog {}: {source}", path.display())]
    Database {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: Box<redb::Error>,
    },
    /// It was written by a later version.
    #[error(
        "catalog {} has schema {found}, which this version does not know: \
         use the nearflash that wrote it, or a later one",
        path.display()
    )]
    Schema {
        /// Which file.
        path: PathBuf,
        /// What it says.
        found: Box<str>,
    },
    /// It has what this version would not go by, and perhaps lose.
    #[error(
        "catalog {} has the table '{table}', which this version does not know: \
         use the nearflash that wrote it, or a later one",
        path.display()
    )]
    Table {
        /// Which file.
        path: PathBuf,
        /// Its name.
        table: Box<str>,
    },
    /// A record cannot be read.
    #[error(
        "catalog {}: the record of '{what}' is damaged, or of a later version: restore the file \
         from a backup, or use the nearflash that wrote it",
        path.display()
    )]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Which record.
        what: Box<str>,
    },
    /// The catalog is not the one that a change was decided on.
    #[error(
        "catalog {}: its generation is '{found}' where {expected} was expected: another program \
         writes to it; stop that, and start the node again",
        path.display()
    )]
    Overtaken {
        /// Which file.
        path: PathBuf,
        /// The generation of the records that the change was decided on.
        expected: u64,
        /// The generation in the file.
        found: Box<str>,
    },
    /// A volume's device is not among those given.
    #[error(
        "volume '{volume}' lies on device '{device}' ({uuid}), which is not among those given: \
         add it with --device"
    )]
    DeviceMissing {
        /// Which volume.
        volume: Box<str>,
        /// What its device was called.
        device: Box<str>,
        /// Its device.
        uuid: Uuid,
    },
    /// A device in memory is given less of it than its volumes were made on.
    #[error(
        "device '{device}' is {size}, shorter than the catalog says ({recorded}): \
         give it its former size"
    )]
    Shrunk {
        /// Which device.
        device: Name,
        /// Its size now.
        size: ByteLen,
        /// Its size before.
        recorded: ByteLen,
    },
}

impl CatalogError {
    /// The database could not be opened.
    pub(super) fn database(path: &Path, error: redb::DatabaseError) -> Self {
        Self::Database { path: path.to_owned(), source: Box::new(error.into()) }
    }

    /// The error of an upgrade step, with the file that it is about.
    pub(super) fn at(self, path: &Path) -> Self {
        let path = path.to_owned();
        match self {
            Self::Damaged { what, .. } => Self::Damaged { path, what },
            Self::Database { source, .. } => Self::Database { path, source },
            other => other,
        }
    }
}
