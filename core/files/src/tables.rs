//! The ordered tables that hold inodes and entries, and their keys.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::ControlFlow;

use crate::InodeNumber;

/// A table. Keys are compared as bytes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Table {
    /// The number of an inode, big-endian: its record.
    Inodes,
    /// The number of a directory, big-endian, and a name: the number and the kind of the inode.
    Entries,
    /// The number of a symbolic link, big-endian: its target.
    Targets,
    /// The number of an inode, big-endian, and the name of an extended attribute: its value.
    Attributes,
    /// The number of an inode without links that a process had open, big-endian: nothing.
    Orphans,
    /// A fact about the whole volume.
    Facts,
}

impl Table {
    /// All tables.
    pub const ALL: [Self; 6] =
        [Self::Inodes, Self::Entries, Self::Targets, Self::Attributes, Self::Orphans, Self::Facts];
}

impl Table {
    /// The place of the table in [`Self::ALL`].
    pub fn index(self) -> usize {
        match self {
            Self::Inodes => 0,
            Self::Entries => 1,
            Self::Targets => 2,
            Self::Attributes => 3,
            Self::Orphans => 4,
            Self::Facts => 5,
        }
    }
}

/// Takes a key and its value, and says whether the scan goes on.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// Ordered tables.
pub trait Tables {
    /// The reason why the store cannot be read or written.
    type Error;

    /// The value of a key.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Self::Error>;

    /// Visits the keys from `from` on in their order, until `visit` breaks.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn scan(&self, table: Table, from: &[u8], visit: &mut Visit<'_>) -> Result<(), Self::Error>;
}

/// Tables that can be changed. The changes take effect together, or not at all, when the store
/// commits them.
pub trait TablesMut: Tables {
    /// Sets the value of a key.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), Self::Error>;

    /// Removes a key.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn remove(&mut self, table: Table, key: &[u8]) -> Result<(), Self::Error>;
}

/// Tables through a reference.
impl<T: Tables> Tables for &T {
    type Error = T::Error;

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, T::Error> {
        (*self).get(table, key)
    }

    fn scan(&self, table: Table, from: &[u8], visit: &mut Visit<'_>) -> Result<(), T::Error> {
        (*self).scan(table, from, visit)
    }
}

/// Tables in memory.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MemoryTables(BTreeMap<(Table, Vec<u8>), Vec<u8>>);

impl Tables for MemoryTables {
    type Error = Infallible;

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Infallible> {
        Ok(self.0.get(&(table, key.to_vec())).cloned())
    }

    fn scan(&self, table: Table, from: &[u8], visit: &mut Visit<'_>) -> Result<(), Infallible> {
        let rest = self.0.range((table, from.to_vec())..);
        for ((_, key), value) in rest.take_while(|((of, _), _)| *of == table) {
            if visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl TablesMut for MemoryTables {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), Infallible> {
        self.0.insert((table, key.to_vec()), value.to_vec());
        Ok(())
    }

    fn remove(&mut self, table: Table, key: &[u8]) -> Result<(), Infallible> {
        self.0.remove(&(table, key.to_vec()));
        Ok(())
    }
}

pub(crate) fn inode_key(number: InodeNumber) -> [u8; 8] {
    number.0.to_be_bytes()
}

/// The number in the first 8 bytes of a key.
pub(crate) fn number_of(key: &[u8]) -> Option<(InodeNumber, &[u8])> {
    let (number, rest) = key.split_first_chunk()?;
    Some((InodeNumber(u64::from_be_bytes(*number)), rest))
}

/// The key of what belongs to an inode under a name: an entry of a directory, or an attribute.
pub(crate) fn named_key(number: InodeNumber, name: &[u8]) -> Vec<u8> {
    [&inode_key(number)[..], name].concat()
}

/// Visits every inode's number and record, in the order of the numbers, until `visit` breaks. Keys
/// that are not a number are visited as `None`.
///
/// # Errors
/// When the store cannot be read.
pub fn inodes<T: Tables>(
    tables: &T,
    mut visit: impl FnMut(Option<InodeNumber>, &[u8]) -> ControlFlow<()>,
) -> Result<(), T::Error> {
    tables.scan(Table::Inodes, &[], &mut |key, record| {
        let number = number_of(key).filter(|(_, rest)| rest.is_empty());
        visit(number.map(|(number, _)| number), record)
    })
}

/// The inodes without links that a process had open.
///
/// # Errors
/// When the store cannot be read.
pub fn orphans<T: Tables>(tables: &T) -> Result<Vec<InodeNumber>, T::Error> {
    let mut orphans = Vec::new();
    tables.scan(Table::Orphans, &[], &mut |key, _| {
        orphans.extend(number_of(key).map(|(number, _)| number));
        ControlFlow::Continue(())
    })?;
    Ok(orphans)
}
