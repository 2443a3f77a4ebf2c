//! Reading: the inode of a path, and the entries of a directory.

use std::ops::ControlFlow;

use super::{Damage, Entry, Error, Refusal};
use crate::tables::{inode_key, number_of};
use crate::{Inode, InodeNumber, Kind, Name, Path, Table, Tables};

/// The inode of a path, and its number.
///
/// # Errors
/// When the path does not exist.
pub fn stat<T: Tables>(tables: &T, path: &Path) -> Result<(InodeNumber, Inode), Error<T::Error>> {
    let place = locate(tables, path)?;
    let entry = match path.names().last() {
        None => InodeNumber::ROOT,
        Some(_) => place.entry.ok_or_else(|| Refusal::NotFound(path.clone()))?.inode,
    };
    Ok((entry, inode(tables, entry)?))
}

/// The entries of a directory in the order of their names' bytes, from the first behind `after` on,
/// at most `count_max`.
///
/// # Errors
/// When the path does not exist or is not a directory.
pub fn list<T: Tables>(
    tables: &T,
    path: &Path,
    after: Option<&Name>,
    count_max: usize,
) -> Result<Vec<Entry>, Error<T::Error>> {
    let (directory, inode) = stat(tables, path)?;
    if inode.kind != Kind::Directory {
        return Err(Refusal::NotADirectory(path.clone()).into());
    }
    entries(tables, directory, after, count_max)
}

/// The entries of the directory with this number, as [`list`] returns them.
pub(super) fn entries<T: Tables>(
    tables: &T,
    directory: InodeNumber,
    after: Option<&Name>,
    count_max: usize,
) -> Result<Vec<Entry>, Error<T::Error>> {
    let mut entries = Vec::new();
    let mut damage = None;
    let mut from = inode_key(directory).to_vec();
    if let Some(name) = after {
        // No name has this key: it is the first one behind `name`.
        from.extend_from_slice(name.as_bytes());
        from.push(0);
    }
    let scanned = tables.scan(Table::Entries, &from, &mut |key, value| {
        if entries.len() == count_max || !key.starts_with(&inode_key(directory)) {
            return ControlFlow::Break(());
        }
        match decode_entry(key, value) {
            Some((_, entry)) => entries.push(entry),
            None => {
                damage = Some(Damage::Entry(directory));
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    scanned.map_err(Error::Store)?;
    damage.map_or(Ok(entries), |damage| Err(damage.into()))
}

/// The place of a path's last name, which need not exist.
pub(super) struct Place<'p> {
    /// The directories from the root to the one of the last name.
    pub(super) directories: Vec<InodeNumber>,
    /// The last name; `None` for the root.
    pub(super) name: Option<&'p Name>,
    /// The entry of that name, if it exists.
    pub(super) entry: Option<Entry>,
}

impl Place<'_> {
    /// The directory of the last name.
    pub(super) fn directory(&self) -> InodeNumber {
        *self.directories.last().expect("the root is one")
    }
}

/// Follows a path up to its last name.
pub(super) fn locate<'p, T: Tables>(
    tables: &T,
    path: &'p Path,
) -> Result<Place<'p>, Error<T::Error>> {
    let mut place = Place { directories: vec![InodeNumber::ROOT], name: None, entry: None };
    let Some((last, before)) = path.names().split_last() else { return Ok(place) };
    let mut so_far = Path::default();
    for name in before {
        so_far = so_far.join(name);
        let found = entry(tables, place.directory(), name)?;
        let entry = found.ok_or_else(|| Refusal::NotFound(so_far.clone()))?;
        if entry.kind != Kind::Directory {
            return Err(Refusal::NotADirectory(so_far).into());
        }
        place.directories.push(entry.inode);
    }
    place.entry = entry(tables, place.directory(), last)?;
    place.name = Some(last);
    Ok(place)
}

fn entry<T: Tables>(
    tables: &T,
    directory: InodeNumber,
    name: &Name,
) -> Result<Option<Entry>, Error<T::Error>> {
    let key = entry_key(directory, name);
    let value = tables.get(Table::Entries, &key).map_err(Error::Store)?;
    let Some(value) = value else { return Ok(None) };
    let (_, entry) = decode_entry(&key, &value).ok_or(Damage::Entry(directory))?;
    Ok(Some(entry))
}

/// The inode of this number.
pub(super) fn inode<T: Tables>(tables: &T, number: InodeNumber) -> Result<Inode, Error<T::Error>> {
    let record = tables.get(Table::Inodes, &inode_key(number)).map_err(Error::Store)?;
    let record = record.ok_or(Damage::Missing(number))?;
    Ok(Inode::decode(number, &record).map_err(|error| Damage::Inode { number, error })?)
}

pub(super) fn entry_key(directory: InodeNumber, name: &Name) -> Vec<u8> {
    [&inode_key(directory)[..], name.as_bytes()].concat()
}

pub(super) fn entry_value(inode: InodeNumber, kind: Kind) -> [u8; 9] {
    let mut value = [kind.encode(); 9];
    value[..8].copy_from_slice(&inode.0.to_le_bytes());
    value
}

/// The directory and the entry that a key and its value describe; `None` if they are not valid.
pub(crate) fn decode_entry(key: &[u8], value: &[u8]) -> Option<(InodeNumber, Entry)> {
    let (directory, name) = number_of(key)?;
    let (inode, kind) = value.split_first_chunk()?;
    let [kind] = kind else { return None };
    let entry = Entry {
        name: Name::new(name).ok()?,
        inode: InodeNumber(u64::from_le_bytes(*inode)),
        kind: Kind::decode(*kind)?,
    };
    Some((directory, entry))
}
