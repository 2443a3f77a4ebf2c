//! The errors of a catalog.

use std::io;
use std::path::{Path, PathBuf};

use nearflash_data_dir::DataDirError;
use nearflash_guarded::Damage;
use nearflash_space::Name;
use nearflash_units::ByteLen;
use uuid::Uuid;

/// An error of the catalog. Every message is one line that names the thing and the remedy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum CatalogError {
    /// The data directory cannot be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The database returned an error.
    #[error("catalog {}: {source}", path.display())]
    Database { path: PathBuf, source: Box<redb::Error> },
    /// Bytes of the file are not those that were written.
    #[error(
        "catalog {} is damaged: {what}: stop the node, and restore the file from a backup",
        path.display()
    )]
    DamagedFile { path: PathBuf, what: Box<str> },
    /// The file has no bytes. No version leaves such a file.
    #[error(
        "catalog {} is empty: restore the file from a backup; the devices have the data of the volumes, \
         and the catalog had their places",
        path.display()
    )]
    Empty { path: PathBuf },
    /// The file system of the catalog is full.
    #[error(
        "catalog {}: its file system is full: make space there, and repeat the command",
        path.display()
    )]
    Full { path: PathBuf },
    /// A later version wrote the catalog.
    #[error(
        "catalog {} has schema {found}, which this version does not know: \
         use the nearflash that wrote it, or a later one",
        path.display()
    )]
    Schema { path: PathBuf, found: Box<str> },
    /// The catalog has a table that this version does not know, and would ignore or lose.
    #[error(
        "catalog {} has the table '{table}', which this version does not know: \
         use the nearflash that wrote it, or a later one",
        path.display()
    )]
    Table { path: PathBuf, table: Box<str> },
    /// A record cannot be read.
    #[error(
        "catalog {}: the record of '{what}' is damaged, or a later version wrote it: restore the \
         file from a backup, or use the nearflash that wrote it",
        path.display()
    )]
    Damaged { path: PathBuf, what: Box<str> },
    /// A record is not the one that a change was decided on.
    #[error(
        "catalog {}: the record of '{key}' is of revision {found} instead of {expected}: another program \
         writes to it: stop that program, and start the node again",
        path.display()
    )]
    Overtaken {
        path: PathBuf,
        key: Box<str>,
        /// The revision of the record that the change was decided on.
        expected: u64,
        found: u64,
    },
    /// A volume is on a device that is not configured.
    #[error(
        "volume '{volume}' is on device '{device}' ({uuid}), which is not configured: add it with \
         --device"
    )]
    DeviceMissing { volume: Box<str>, device: Box<str>, uuid: Uuid },
    /// A device in memory is configured smaller than it was.
    #[error(
        "device '{device}' is {size} long, shorter than the {recorded} in the catalog: restore its \
         former size"
    )]
    Shrunk { device: Name, size: ByteLen, recorded: ByteLen },
}

impl CatalogError {
    /// An error of the database.
    pub(crate) fn of(path: &Path, error: redb::Error) -> Self {
        let path = path.to_owned();
        if let Some(damage) = Damage::of_database(&error) {
            return Self::DamagedFile { path, what: damage.to_string().into() };
        }
        match error {
            redb::Error::Corrupted(what) => Self::DamagedFile { path, what: what.into() },
            redb::Error::Io(error) if is_full(&error) => Self::Full { path },
            error => Self::Database { path, source: Box::new(error) },
        }
    }

    /// Whether the file has failed, so that the database must be opened again.
    pub(crate) fn is_of_file(&self) -> bool {
        match self {
            Self::Full { .. } => true,
            Self::Database { source, .. } => {
                matches!(**source, redb::Error::Io(_) | redb::Error::PreviousIo)
            }
            _ => false,
        }
    }

    /// The error of an upgrade step, with the path of the file.
    pub(crate) fn at(self, path: &Path) -> Self {
        let path = path.to_owned();
        match self {
            Self::Damaged { what, .. } => Self::Damaged { path, what },
            Self::Database { source, .. } => Self::Database { path, source },
            Self::DamagedFile { what, .. } => Self::DamagedFile { path, what },
            Self::Full { .. } => Self::Full { path },
            other => other,
        }
    }
}

/// Whether there is no space, for this user at least.
fn is_full(error: &io::Error) -> bool {
    [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded].contains(&error.kind())
}
