//! The ordered tables over `redb`.

use std::ops::ControlFlow;

use nearflash_files::{Table, Tables, TablesMut, Visit};
use redb::{
    Builder, Database, DatabaseError, ReadOnlyTable, ReadTransaction, ReadableTable,
    StorageBackend, StorageError, TableDefinition, TableError, WriteTransaction,
};

type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;

const INODES: Definition = TableDefinition::new("inodes");
const ENTRIES: Definition = TableDefinition::new("entries");
const FACTS: Definition = TableDefinition::new("facts");

/// The memory for pages of the database.
const CACHE_LEN: usize = 64 << 20;

/// Opens the database of a backend, or creates it in an empty one.
pub(crate) fn open(backend: impl StorageBackend) -> Result<Database, DatabaseError> {
    Builder::new().set_cache_size(CACHE_LEN).create_with_backend(backend)
}

/// The tables as of one commit.
pub(crate) struct Snapshot {
    tables: [ReadOnlyTable<&'static [u8], &'static [u8]>; 3],
}

impl Snapshot {
    pub(crate) fn new(transaction: &ReadTransaction) -> Result<Self, TableError> {
        let open = |definition| transaction.open_table(definition);
        Ok(Self { tables: [open(INODES)?, open(ENTRIES)?, open(FACTS)?] })
    }
}

/// The tables within a transaction that may change them.
pub(crate) struct Batch<'t> {
    tables: [redb::Table<'t, &'static [u8], &'static [u8]>; 3],
}

impl<'t> Batch<'t> {
    pub(crate) fn new(transaction: &'t WriteTransaction) -> Result<Self, TableError> {
        let open = |definition| transaction.open_table(definition);
        Ok(Self { tables: [open(INODES)?, open(ENTRIES)?, open(FACTS)?] })
    }
}

/// The place of a table among those of a snapshot or a batch.
fn index(table: Table) -> usize {
    match table {
        Table::Inodes => 0,
        Table::Entries => 1,
        Table::Facts => 2,
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
        get(&self.tables[index(table)], key)
    }

    fn scan(&self, table: Table, from: &[u8], visit: &mut Visit<'_>) -> Result<(), StorageError> {
        scan(&self.tables[index(table)], from, visit)
    }
}

impl Tables for Batch<'_> {
    type Error = StorageError;

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        get(&self.tables[index(table)], key)
    }

    fn scan(&self, table: Table, from: &[u8], visit: &mut Visit<'_>) -> Result<(), StorageError> {
        scan(&self.tables[index(table)], from, visit)
    }
}

impl TablesMut for Batch<'_> {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StorageError> {
        self.tables[index(table)].insert(key, value).map(drop)
    }

    fn remove(&mut self, table: Table, key: &[u8]) -> Result<(), StorageError> {
        self.tables[index(table)].remove(key).map(drop)
    }
}
