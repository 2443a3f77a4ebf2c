//! The ordered tables over `redb`, whose pages are checked at every read ([`Guarded`]).

use std::ops::ControlFlow;

use nearflash_files::{Table, Tables, TablesMut, Visit};
use nearflash_guarded::Guarded;
use redb::{
    Builder, Database, DatabaseError, ReadOnlyTable, ReadTransaction, ReadableTable,
    StorageBackend, StorageError, TableDefinition, TableError, WriteTransaction,
};

type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;

const INODES: Definition = TableDefinition::new("inodes");
const ENTRIES: Definition = TableDefinition::new("entries");
const TARGETS: Definition = TableDefinition::new("targets");
const ATTRIBUTES: Definition = TableDefinition::new("attributes");
const ORPHANS: Definition = TableDefinition::new("orphans");
const FACTS: Definition = TableDefinition::new("facts");

/// The definitions, as [`Table::index`] counts them.
const ALL: [Definition; Table::ALL.len()] = [INODES, ENTRIES, TARGETS, ATTRIBUTES, ORPHANS, FACTS];

/// The memory for pages of the database.
const CACHE_LEN: usize = 64 << 20;

/// Opens the database of a backend, or creates it in an empty one.
pub(crate) fn open(backend: impl StorageBackend) -> Result<Database, DatabaseError> {
    Builder::new().set_cache_size(CACHE_LEN).create_with_backend(Guarded::new(backend))
}

/// The tables as of one commit.
pub(crate) struct Snapshot {
    tables: Vec<ReadOnlyTable<&'static [u8], &'static [u8]>>,
}

impl Snapshot {
    pub(crate) fn new(transaction: &ReadTransaction) -> Result<Self, TableError> {
        let tables = ALL.into_iter().map(|definition| transaction.open_table(definition));
        Ok(Self { tables: tables.collect::<Result<_, _>>()? })
    }
}

/// The tables within a transaction that may change them.
pub(crate) struct Batch<'t> {
    tables: Vec<redb::Table<'t, &'static [u8], &'static [u8]>>,
}

impl<'t> Batch<'t> {
    pub(crate) fn new(transaction: &'t WriteTransaction) -> Result<Self, TableError> {
        let tables = ALL.into_iter().map(|definition| transaction.open_table(definition));
        Ok(Self { tables: tables.collect::<Result<_, _>>()? })
    }
}

fn get(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    key: &[u8],
) -> Result<Option<Vec<u8>>, StorageError> {
    Ok(table.get(key)?.map(|value| value.value().to_vec()))
}

fn scan(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    from: &[u8],
    visit: &mut Visit<'_>,
) -> Result<(), StorageError> {
    for item in table.range(from..)? {
        let (key, value) = item?;
        if visit(key.value(), value.value()) == ControlFlow::Break(()) {
            break;
        }
    }
    Ok(())
}

impl Tables for Snapshot {
    type Error = StorageError;

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        get(&self.tables[table.index()], key)
    }

    fn scan(&self, table: Table, from: &[u8], visit: &mut Visit<'_>) -> Result<(), StorageError> {
        scan(&self.tables[table.index()], from, visit)
    }
}

impl Tables for Batch<'_> {
    type Error = StorageError;

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        get(&self.tables[table.index()], key)
    }

    fn scan(&self, table: Table, from: &[u8], visit: &mut Visit<'_>) -> Result<(), StorageError> {
        scan(&self.tables[table.index()], from, visit)
    }
}

impl TablesMut for Batch<'_> {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StorageError> {
        self.tables[table.index()].insert(key, value).map(drop)
    }

    fn remove(&mut self, table: Table, key: &[u8]) -> Result<(), StorageError> {
        self.tables[table.index()].remove(key).map(drop)
    }
}
