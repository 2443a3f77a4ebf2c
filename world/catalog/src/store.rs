//! The database of the catalog, over its file. Its blocks are checked at every read
//! (`nearflash-guarded`).
//!
//! After an error of the file, the database refuses everything, although the file has the last change that
//! was durable: its file system was full for a moment, for example. So it is closed then, and the next use
//! opens it again.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nearflash_guarded::{Guarded, is_guarded};
use redb::backends::FileBackend;
use redb::{
    Database, ReadTransaction, ReadableDatabase as _, ReadableTable as _, TableDefinition,
    TableError, TableHandle as _, WriteTransaction,
};

use crate::META;

type Open = Box<dyn Fn() -> Result<Database, redb::Error> + Send + Sync>;

/// The database, while its file works.
pub(crate) struct Store {
    open: Open,
    database: Mutex<Option<Database>>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

impl Store {
    /// The database in a file, which exists.
    pub(crate) fn in_file(path: &Path) -> Result<Self, redb::Error> {
        let path = path.to_owned();
        Self::new(Box::new(move || open(OpenOptions::new().read(true).write(true).open(&path)?)))
    }

    pub(crate) fn new(open: Open) -> Result<Self, redb::Error> {
        let database = Mutex::new(Some(open()?));
        Ok(Self { open, database })
    }

    /// The schema of the database; `None` of an empty one, and of one whose schema is not a number.
    pub(crate) fn schema(&self) -> Result<Option<usize>, redb::Error> {
        let read = self.begin_read()?;
        let meta = match read.open_table(META) {
            Err(TableError::TableDoesNotExist(_)) => return Ok(None),
            opened => opened?,
        };
        Ok(meta.get("schema")?.and_then(|text| text.value().parse().ok()))
    }

    pub(crate) fn begin_read(&self) -> Result<ReadTransaction, redb::Error> {
        let mut database = self.database();
        Ok(self.opened(&mut database)?.begin_read()?)
    }

    /// A change, whose commit has two phases: the guard relies on that.
    pub(crate) fn begin_write(&self) -> Result<WriteTransaction, redb::Error> {
        let mut database = self.database();
        let mut transaction = self.opened(&mut database)?.begin_write()?;
        transaction.set_two_phase_commit(true);
        Ok(transaction)
    }

    fn opened<'d>(
        &self,
        database: &'d mut MutexGuard<'_, Option<Database>>,
    ) -> Result<&'d Database, redb::Error> {
        if database.is_none() {
            **database = Some((self.open)()?);
        }
        Ok(database.as_ref().expect("it was just opened"))
    }

    /// The file has failed.
    pub(crate) fn close(&self) {
        *self.database() = None;
    }

    fn database(&self) -> MutexGuard<'_, Option<Database>> {
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open(file: File) -> Result<Database, redb::Error> {
    Ok(Database::builder().create_with_backend(Guarded::new(FileBackend::new(file)?))?)
}

/// Creates an empty database.
pub(crate) fn create(path: &Path) -> Result<Database, redb::Error> {
    open(OpenOptions::new().read(true).write(true).create_new(true).open(path)?)
}

/// The kind of a file, by its first bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Empty,
    /// A database without checksums of its blocks, which earlier builds have written.
    Plain,
    Guarded,
}

pub(crate) fn kind_of(path: &Path) -> io::Result<Kind> {
    let mut start = Vec::new();
    File::open(path)?.take(16).read_to_end(&mut start)?;
    Ok(if start.is_empty() {
        Kind::Empty
    } else if is_guarded(&start) {
        Kind::Guarded
    } else {
        Kind::Plain
    })
}

/// Copies all tables of a database to another, in one transaction.
pub(crate) fn copy(from: &Database, to: &Database) -> Result<(), redb::Error> {
    let (read, mut write) = (from.begin_read()?, to.begin_write()?);
    write.set_two_phase_commit(true);
    for handle in read.list_tables()? {
        let definition: TableDefinition<'_, &str, &str> = TableDefinition::new(handle.name());
        let mut table = write.open_table(definition)?;
        for entry in read.open_table(definition)?.iter()? {
            let (key, value) = entry?;
            table.insert(key.value(), value.value())?;
        }
    }
    Ok(write.commit()?)
}
