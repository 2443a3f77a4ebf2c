//! Reading: places, inodes, the entries of a directory, targets and attributes.

use std::ops::ControlFlow;

use super::{Damage, Entry, Error, Refusal};
use crate::tables::{inode_key, named_key, number_of};
use crate::{Inode, InodeNumber, Kind, Name, Path, Table, Tables};

/// A name in a directory, which need not exist.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub(super) directory: InodeNumber,
    pub(super) name: &'a Name,
    /// The path, if it is known: for messages.
    path: Option<&'a Path>,
}

impl<'a> Place<'a> {
    /// The place of `name` in the directory of this number.
    pub fn new(directory: InodeNumber, name: &'a Name) -> Self {
        Self { directory, name, path: None }
    }

    /// The path, or the name alone.
    pub(super) fn path(self) -> Path {
        self.path.cloned().unwrap_or_else(|| self.name.into())
    }

    fn directory_path(self) -> Path {
        self.path.map_or_else(Path::default, Path::parent)
    }
}

/// The place of a path's last name.
///
/// # Errors
/// When a directory of the path does not exist, and for the root, which has no place.
pub fn locate<'a, T: Tables>(tables: &T, path: &'a Path) -> Result<Place<'a>, Error<T::Error>> {
    let (name, before) = path.names().split_last().ok_or(Refusal::Root)?;
    let mut directory = InodeNumber::ROOT;
    for (nth, name) in before.iter().enumerate() {
        let so_far = || path.first(nth + 1);
        let entry = entry(tables, directory, name)?.ok_or_else(|| Refusal::NotFound(so_far()))?;
        if entry.kind != Kind::Directory {
            return Err(Refusal::NotADirectory(so_far()).into());
        }
        directory = entry.inode;
    }
    Ok(Place { directory, name, path: Some(path) })
}

/// The inode of a path, and its number.
///
/// # Errors
/// When the path does not exist.
pub fn stat<T: Tables>(tables: &T, path: &Path) -> Result<(InodeNumber, Inode), Error<T::Error>> {
    if path.is_root() {
        return Ok((InodeNumber::ROOT, named_inode(tables, InodeNumber::ROOT)?));
    }
    lookup(tables, locate(tables, path)?)
}

/// The inode at a place, and its number.
///
/// # Errors
/// When the directory or the name does not exist.
pub fn lookup<T: Tables>(
    tables: &T,
    place: Place<'_>,
) -> Result<(InodeNumber, Inode), Error<T::Error>> {
    let Some(entry) = entry(tables, place.directory, place.name)? else {
        directory(tables, place)?;
        return Err(Refusal::NotFound(place.path()).into());
    };
    Ok((entry.inode, named_inode(tables, entry.inode)?))
}

/// The directory of a place. A removed one that is open has no names.
pub(super) fn directory<T: Tables>(tables: &T, place: Place<'_>) -> Result<Inode, Error<T::Error>> {
    let inode = inode(tables, place.directory)?;
    match inode.kind {
        Kind::Directory if inode.links == 0 => Err(Refusal::NotFound(place.path()).into()),
        Kind::Directory => Ok(inode),
        _ => Err(Refusal::NotADirectory(place.directory_path()).into()),
    }
}

/// The inode of this number.
///
/// # Errors
/// When it does not exist.
pub fn inode<T: Tables>(tables: &T, number: InodeNumber) -> Result<Inode, Error<T::Error>> {
    find(tables, number)?.ok_or_else(|| Refusal::Stale(number).into())
}

/// The inode of a number that an entry names.
pub(super) fn named_inode<T: Tables>(
    tables: &T,
    number: InodeNumber,
) -> Result<Inode, Error<T::Error>> {
    find(tables, number)?.ok_or_else(|| Damage::Missing(number).into())
}

fn find<T: Tables>(tables: &T, number: InodeNumber) -> Result<Option<Inode>, Error<T::Error>> {
    let record = tables.get(Table::Inodes, &inode_key(number)).map_err(Error::Store)?;
    let Some(record) = record else { return Ok(None) };
    let inode = Inode::decode(number, &record);
    Ok(Some(inode.map_err(|error| Damage::Inode { number, error })?))
}

/// The entry of a name, if it exists.
pub(super) fn entry<T: Tables>(
    tables: &T,
    directory: InodeNumber,
    name: &Name,
) -> Result<Option<Entry>, Error<T::Error>> {
    let key = named_key(directory, name.as_bytes());
    let value = tables.get(Table::Entries, &key).map_err(Error::Store)?;
    let Some(value) = value else { return Ok(None) };
    let (_, entry) = decode_entry(&key, &value).ok_or(Damage::Entry(directory))?;
    Ok(Some(entry))
}

/// The entries of a directory in the order of their names' bytes, from the first behind `after` on,
/// at most `count_max`.
///
/// # Errors
/// When the inode does not exist, or is not a directory.
pub fn list<T: Tables>(
    tables: &T,
    directory: InodeNumber,
    after: Option<&Name>,
    count_max: usize,
) -> Result<Vec<Entry>, Error<T::Error>> {
    if inode(tables, directory)?.kind != Kind::Directory {
        return Err(Refusal::NotADirectory(Path::default()).into());
    }
    entries(tables, directory, after, count_max)
}

/// The entries of a directory, as [`list`] returns them.
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

/// The target of a symbolic link.
///
/// # Errors
/// When the inode does not exist, or is not a symbolic link.
pub fn target<T: Tables>(tables: &T, number: InodeNumber) -> Result<Vec<u8>, Error<T::Error>> {
    if inode(tables, number)?.kind != Kind::Symlink {
        return Err(Refusal::NotASymlink(number).into());
    }
    let target = tables.get(Table::Targets, &inode_key(number)).map_err(Error::Store)?;
    Ok(target.ok_or(Damage::Target(number))?)
}

/// The value of an extended attribute.
///
/// # Errors
/// When the inode or the attribute does not exist.
pub fn attribute<T: Tables>(
    tables: &T,
    number: InodeNumber,
    name: &[u8],
) -> Result<Vec<u8>, Error<T::Error>> {
    inode(tables, number)?;
    let key = named_key(number, name);
    let value = tables.get(Table::Attributes, &key).map_err(Error::Store)?;
    Ok(value.ok_or(Refusal::NoAttribute(number))?)
}

/// The names of the extended attributes of an inode.
///
/// # Errors
/// When the inode does not exist.
pub fn attributes<T: Tables>(
    tables: &T,
    number: InodeNumber,
) -> Result<Vec<Vec<u8>>, Error<T::Error>> {
    inode(tables, number)?;
    let prefix = inode_key(number);
    let mut names = Vec::new();
    let scanned =
        tables.scan(Table::Attributes, &prefix, &mut |key, _| match key.strip_prefix(&prefix) {
            Some(name) => {
                names.push(name.to_vec());
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        });
    scanned.map_err(Error::Store)?;
    Ok(names)
}
