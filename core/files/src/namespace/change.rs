//! Creating and removing files and directories.

use nearflash_units::{ByteLen, Nanos};

use super::access::{Place, entries, entry_key, entry_value, inode, locate};
use super::{Contents, Damage, Entry, Error, Refusal, Replace};
use crate::tables::inode_key;
use crate::{Inode, InodeNumber, Kind, Path, Run, Table, TablesMut};

/// The fact that the next inode has this number, little-endian.
const NEXT_INODE: &[u8] = b"next-inode";

/// Creates the root directory in empty tables.
///
/// # Errors
/// When the store cannot be written.
pub fn format<T: TablesMut>(tables: &mut T, now: Nanos) -> Result<(), T::Error> {
    let root = Inode::new(Kind::Directory, now).encode(InodeNumber::ROOT);
    tables.put(Table::Inodes, &inode_key(InodeNumber::ROOT), &root)?;
    tables.put(Table::Facts, NEXT_INODE, &(InodeNumber::ROOT.0 + 1).to_le_bytes())
}

/// Creates a file whose contents are in place. Returns its number, and the runs of the file that it
/// replaces.
///
/// # Errors
/// When its directory does not exist, or the name exists and may not be replaced.
pub fn create<T: TablesMut>(
    tables: &mut T,
    path: &Path,
    contents: Contents,
    replace: Replace,
    now: Nanos,
) -> Result<(InodeNumber, Vec<Run>), Error<T::Error>> {
    let place = locate(tables, path)?;
    let freed = match &place.entry {
        None => Vec::new(),
        Some(entry) if entry.kind == Kind::Directory => {
            return Err(Refusal::IsADirectory(path.clone()).into());
        }
        Some(_) if replace == Replace::Never => return Err(Refusal::Exists(path.clone()).into()),
        Some(entry) => drop_inode(tables, entry)?.runs,
    };
    let Contents { size, runs } = contents;
    let file = Inode { size, runs, ..Inode::new(Kind::File, now) };
    let number = add(tables, &place, &file)?;
    touch(tables, place.directory(), now, |_| Some(()))?;
    Ok((number, freed))
}

/// Creates an empty directory.
///
/// # Errors
/// When its directory does not exist, or the name exists.
pub fn mkdir<T: TablesMut>(
    tables: &mut T,
    path: &Path,
    now: Nanos,
) -> Result<InodeNumber, Error<T::Error>> {
    let place = locate(tables, path)?;
    if place.entry.is_some() {
        return Err(Refusal::Exists(path.clone()).into());
    }
    let number = add(tables, &place, &Inode::new(Kind::Directory, now))?;
    let linked = touch(tables, place.directory(), now, |inode| {
        inode.links = inode.links.checked_add(1)?;
        Some(())
    })?;
    linked.ok_or_else(|| Refusal::TooManyLinks(path.clone()))?;
    Ok(number)
}

/// Removes a file. Returns its runs.
///
/// # Errors
/// When it does not exist, or is a directory.
pub fn unlink<T: TablesMut>(
    tables: &mut T,
    path: &Path,
    now: Nanos,
) -> Result<Vec<Run>, Error<T::Error>> {
    let (place, entry) = existing(tables, path)?;
    if entry.kind == Kind::Directory {
        return Err(Refusal::IsADirectory(path.clone()).into());
    }
    let freed = drop_inode(tables, &entry)?.runs;
    remove_entry(tables, &place)?;
    touch(tables, place.directory(), now, |_| Some(()))?;
    Ok(freed)
}

/// Removes an empty directory.
///
/// # Errors
/// When it does not exist, is not a directory, or is not empty.
pub fn rmdir<T: TablesMut>(tables: &mut T, path: &Path, now: Nanos) -> Result<(), Error<T::Error>> {
    let (place, entry) = existing(tables, path)?;
    if entry.kind != Kind::Directory {
        return Err(Refusal::NotADirectory(path.clone()).into());
    }
    if !entries(tables, entry.inode, None, 1)?.is_empty() {
        return Err(Refusal::NotEmpty(path.clone()).into());
    }
    drop_inode(tables, &entry)?;
    remove_entry(tables, &place)?;
    unlinked(tables, place.directory(), now)
}

/// The place and the entry of a path that must exist, and is not the root.
pub(super) fn existing<'p, T: TablesMut>(
    tables: &T,
    path: &'p Path,
) -> Result<(Place<'p>, Entry), Error<T::Error>> {
    if path.is_root() {
        return Err(Refusal::Root.into());
    }
    let place = locate(tables, path)?;
    let entry = place.entry.clone().ok_or_else(|| Refusal::NotFound(path.clone()))?;
    Ok((place, entry))
}

/// Stores a new inode, and the entry that names it.
fn add<T: TablesMut>(
    tables: &mut T,
    place: &Place<'_>,
    inode: &Inode,
) -> Result<InodeNumber, Error<T::Error>> {
    let fact = tables.get(Table::Facts, NEXT_INODE).map_err(Error::Store)?;
    let next = fact.as_deref().and_then(decode_next).ok_or(Damage::NextInode)?;
    let number = InodeNumber(next);
    let after = next.checked_add(1).ok_or(Damage::NextInode)?;
    tables.put(Table::Facts, NEXT_INODE, &after.to_le_bytes()).map_err(Error::Store)?;
    put_inode(tables, number, inode)?;
    put_entry(tables, place, number, inode.kind)?;
    Ok(number)
}

/// The number of the next inode, which is above the root's.
pub(crate) fn decode_next(fact: &[u8]) -> Option<u64> {
    let number = u64::from_le_bytes(fact.try_into().ok()?);
    (number > InodeNumber::ROOT.0).then_some(number)
}

/// The stored number of the next inode.
pub(crate) fn next_inode<T: crate::Tables>(tables: &T) -> Result<Option<u64>, T::Error> {
    Ok(tables.get(Table::Facts, NEXT_INODE)?.as_deref().and_then(decode_next))
}

pub(super) fn put_entry<T: TablesMut>(
    tables: &mut T,
    place: &Place<'_>,
    number: InodeNumber,
    kind: Kind,
) -> Result<(), Error<T::Error>> {
    let name = place.name.ok_or(Refusal::Root)?;
    let key = entry_key(place.directory(), name);
    tables.put(Table::Entries, &key, &entry_value(number, kind)).map_err(Error::Store)
}

pub(super) fn remove_entry<T: TablesMut>(
    tables: &mut T,
    place: &Place<'_>,
) -> Result<(), Error<T::Error>> {
    let name = place.name.ok_or(Refusal::Root)?;
    tables.remove(Table::Entries, &entry_key(place.directory(), name)).map_err(Error::Store)
}

fn put_inode<T: TablesMut>(
    tables: &mut T,
    number: InodeNumber,
    inode: &Inode,
) -> Result<(), Error<T::Error>> {
    tables.put(Table::Inodes, &inode_key(number), &inode.encode(number)).map_err(Error::Store)
}

/// Removes the inode that an entry names.
pub(super) fn drop_inode<T: TablesMut>(
    tables: &mut T,
    entry: &Entry,
) -> Result<Inode, Error<T::Error>> {
    let inode = inode(tables, entry.inode)?;
    tables.remove(Table::Inodes, &inode_key(entry.inode)).map_err(Error::Store)?;
    Ok(inode)
}

/// Changes a directory whose entries have changed. `None` if `change` cannot be made.
pub(super) fn touch<T: TablesMut>(
    tables: &mut T,
    directory: InodeNumber,
    now: Nanos,
    change: impl FnOnce(&mut Inode) -> Option<()>,
) -> Result<Option<()>, Error<T::Error>> {
    let mut inode = inode(tables, directory)?;
    inode.change = inode.change.wrapping_add(1);
    inode.modified_at = now;
    if change(&mut inode).is_none() {
        return Ok(None);
    }
    put_inode(tables, directory, &inode)?;
    Ok(Some(()))
}

/// A directory in this directory was removed or moved away.
pub(super) fn unlinked<T: TablesMut>(
    tables: &mut T,
    directory: InodeNumber,
    now: Nanos,
) -> Result<(), Error<T::Error>> {
    let changed = touch(tables, directory, now, |inode| {
        inode.links = inode.links.checked_sub(1)?;
        Some(())
    })?;
    Ok(changed.ok_or(Damage::Entry(directory))?)
}

/// A new file without contents has no blocks.
impl Default for Contents {
    fn default() -> Self {
        Self { size: ByteLen(0), runs: Vec::new() }
    }
}
