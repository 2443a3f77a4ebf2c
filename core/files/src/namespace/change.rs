//! Creating, linking and removing.

use nearflash_units::{ByteLen, Nanos};

use super::access::{Place, directory, entries, entry, entry_value, inode, named_inode};
use super::{Damage, Entry, Error, Refusal, Replace, TARGET_LEN_MAX};
use crate::tables::{inode_key, named_key};
use crate::{Inode, InodeNumber, Kind, Path, Permissions, Run, Table, Tables, TablesMut};

/// The fact that the next inode has this number, little-endian.
const NEXT_INODE: &[u8] = b"next-inode";

/// Set-group-ID: on a directory, new inodes in it get its group (inode(7)).
const SET_GROUP_ID: u32 = 0o2000;

/// Creates the root directory in empty tables.
///
/// # Errors
/// When the store cannot be written.
pub fn format<T: TablesMut>(
    tables: &mut T,
    permissions: Permissions,
    now: Nanos,
) -> Result<(), T::Error> {
    let root = Inode::new(Kind::Directory, permissions, now);
    let root = Inode { parent: InodeNumber::ROOT, ..root };
    let record = root.encode(InodeNumber::ROOT);
    tables.put(Table::Inodes, &inode_key(InodeNumber::ROOT), &record)?;
    tables.put(Table::Facts, NEXT_INODE, &(InodeNumber::ROOT.0 + 1).to_le_bytes())
}

/// A new inode in a directory with set-group-ID gets its group.
fn inherit_group(parent: &Inode, inode: &mut Inode) {
    if parent.mode & SET_GROUP_ID != 0 {
        inode.gid = parent.gid;
        inode.mode |= if inode.kind == Kind::Directory { SET_GROUP_ID } else { 0 };
    }
}

/// A change of the tables: one operation, or several that take effect together.
pub struct Change<'t, T> {
    pub(super) tables: &'t mut T,
    pub(super) now: Nanos,
    is_open: &'t dyn Fn(InodeNumber) -> bool,
    freed: Vec<Run>,
    inodes: i64,
}

/// The effects of a change outside the tables.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Effects {
    /// The runs that the change has freed.
    pub freed: Vec<Run>,
    /// The number of inodes that it has created, less those that it has removed.
    pub inodes: i64,
}

impl<'t, T: TablesMut> Change<'t, T> {
    /// A change of these tables at this time. An inode for which `is_open` is true outlives its last
    /// link, until [`Self::reap`].
    pub fn new(tables: &'t mut T, now: Nanos, is_open: &'t dyn Fn(InodeNumber) -> bool) -> Self {
        Self { tables, now, is_open, freed: Vec::new(), inodes: 0 }
    }

    /// The tables, for reading.
    pub fn tables(&self) -> &impl Tables<Error = T::Error> {
        &*self.tables
    }

    /// The time of the change.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Ends the change.
    pub fn finish(self) -> Effects {
        Effects { freed: self.freed, inodes: self.inodes }
    }

    /// Frees runs that an inode no longer has.
    pub fn free(&mut self, runs: impl IntoIterator<Item = Run>) {
        self.freed.extend(runs);
    }

    /// Creates an inode with a name. A new inode in a directory with set-group-ID gets its group.
    ///
    /// # Errors
    /// When the directory does not exist, or the name exists and may not be replaced.
    pub fn create(
        &mut self,
        place: Place<'_>,
        mut inode: Inode,
        replace: Replace,
    ) -> Result<(InodeNumber, Inode), Error<T::Error>> {
        let parent = directory(self.tables, place)?;
        let old = entry(self.tables, place.directory, place.name)?;
        let is_directory = inode.kind == Kind::Directory;
        match &old {
            Some(old) if !is_directory && old.kind == Kind::Directory => {
                return Err(Refusal::IsADirectory(place.path()).into());
            }
            Some(_) if is_directory || replace == Replace::Never => {
                return Err(Refusal::Exists(place.path()).into());
            }
            _ => {}
        }
        inherit_group(&parent, &mut inode);
        if is_directory {
            inode.parent = place.directory;
        }
        let number = self.next_number()?;
        if let Some(old) = old {
            self.unlink_inode(&old)?;
        }
        self.put(number, &inode)?;
        self.inodes += 1;
        self.put_entry(place, number, inode.kind)?;
        self.touch_directory(place, i32::from(is_directory))?;
        Ok((number, inode))
    }

    /// Creates a file without a name, for a directory: open(2) with O_TMPFILE. It is one of those that are
    /// removed when the volume is opened again, until [`Self::link_open`] gives it a name.
    ///
    /// # Errors
    /// When the directory does not exist.
    pub fn create_nameless(
        &mut self,
        directory: InodeNumber,
        permissions: Permissions,
    ) -> Result<InodeNumber, Error<T::Error>> {
        let parent = inode(self.tables, directory)?;
        if parent.kind != Kind::Directory {
            return Err(Refusal::NotADirectory(Path::default()).into());
        }
        let mut inode = Inode::new(Kind::File, permissions, self.now);
        inode.links = 0;
        inherit_group(&parent, &mut inode);
        let number = self.next_number()?;
        self.put(number, &inode)?;
        self.tables.put(Table::Orphans, &inode_key(number), &[]).map_err(Error::Store)?;
        self.inodes += 1;
        Ok(number)
    }

    /// Creates a symbolic link.
    ///
    /// # Errors
    /// As [`Self::create`], and when the target is empty or too long.
    pub fn symlink(
        &mut self,
        place: Place<'_>,
        inode: Inode,
        target: &[u8],
    ) -> Result<(InodeNumber, Inode), Error<T::Error>> {
        if target.len() > TARGET_LEN_MAX {
            return Err(Refusal::TargetTooLong(target.len()).into());
        }
        if target.is_empty() {
            return Err(Refusal::NotFound(place.path()).into());
        }
        let inode = Inode { size: ByteLen::of(target), ..inode };
        let (number, inode) = self.create(place, inode, Replace::Never)?;
        self.tables.put(Table::Targets, &inode_key(number), target).map_err(Error::Store)?;
        Ok((number, inode))
    }

    /// Gives an inode a further name.
    ///
    /// # Errors
    /// When the inode or the directory does not exist, the name exists, or the inode is a directory.
    pub fn link(
        &mut self,
        number: InodeNumber,
        place: Place<'_>,
    ) -> Result<Inode, Error<T::Error>> {
        let mut inode = inode(self.tables, number)?;
        directory(self.tables, place)?;
        if inode.kind == Kind::Directory {
            return Err(Refusal::LinkToDirectory(place.path()).into());
        }
        if entry(self.tables, place.directory, place.name)?.is_some() {
            return Err(Refusal::Exists(place.path()).into());
        }
        if inode.links == 0 {
            return Err(Refusal::Stale(number).into());
        }
        self.add_link(number, &mut inode, place)?;
        Ok(inode)
    }

    /// Gives an inode that is open a name, also if it has none.
    ///
    /// # Errors
    /// As [`Self::link`], but a name that exists is replaced if `replace` allows it and it is not a
    /// directory's.
    pub fn link_open(
        &mut self,
        number: InodeNumber,
        place: Place<'_>,
        replace: Replace,
    ) -> Result<Inode, Error<T::Error>> {
        let mut inode = inode(self.tables, number)?;
        directory(self.tables, place)?;
        if inode.kind == Kind::Directory {
            return Err(Refusal::LinkToDirectory(place.path()).into());
        }
        let old = entry(self.tables, place.directory, place.name)?;
        match &old {
            Some(_) if replace == Replace::Never => {
                return Err(Refusal::Exists(place.path()).into());
            }
            Some(old) if old.kind == Kind::Directory => {
                return Err(Refusal::IsADirectory(place.path()).into());
            }
            Some(old) if old.inode == number => return Ok(inode),
            _ => {}
        }
        if !(self.is_open)(number) {
            return Err(Refusal::Stale(number).into());
        }
        if let Some(old) = old {
            self.unlink_inode(&old)?;
        }
        if inode.links == 0 {
            self.tables.remove(Table::Orphans, &inode_key(number)).map_err(Error::Store)?;
        }
        self.add_link(number, &mut inode, place)?;
        Ok(inode)
    }

    fn add_link(
        &mut self,
        number: InodeNumber,
        inode: &mut Inode,
        place: Place<'_>,
    ) -> Result<(), Error<T::Error>> {
        let links = inode.links.checked_add(1);
        inode.links = links.ok_or_else(|| Refusal::TooManyLinks(place.path()))?;
        inode.touch(self.now);
        self.put(number, inode)?;
        self.put_entry(place, number, inode.kind)?;
        self.touch_directory(place, 0)
    }

    /// Removes the name of an inode that is not a directory.
    ///
    /// # Errors
    /// When the name does not exist, or is a directory's.
    pub fn unlink(&mut self, place: Place<'_>) -> Result<(), Error<T::Error>> {
        let entry = self.existing(place)?;
        if entry.kind == Kind::Directory {
            return Err(Refusal::IsADirectory(place.path()).into());
        }
        self.remove_entry(place)?;
        self.unlink_inode(&entry)?;
        self.touch_directory(place, 0)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// When it does not exist, is not a directory, or is not empty.
    pub fn rmdir(&mut self, place: Place<'_>) -> Result<(), Error<T::Error>> {
        let entry = self.existing(place)?;
        if entry.kind != Kind::Directory {
            return Err(Refusal::NotADirectory(place.path()).into());
        }
        self.refuse_if_not_empty(&entry, place)?;
        self.remove_entry(place)?;
        self.unlink_inode(&entry)?;
        self.touch_directory(place, -1)
    }

    /// Changes an inode, and its time of change.
    ///
    /// # Errors
    /// When it does not exist.
    pub fn update(
        &mut self,
        number: InodeNumber,
        change: impl FnOnce(&mut Inode),
    ) -> Result<Inode, Error<T::Error>> {
        let mut inode = inode(self.tables, number)?;
        inode.touch(self.now);
        change(&mut inode);
        self.put(number, &inode)?;
        Ok(inode)
    }

    /// Stores an inode that exists, as it is.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn put(&mut self, number: InodeNumber, inode: &Inode) -> Result<(), Error<T::Error>> {
        let record = inode.encode(number);
        self.tables.put(Table::Inodes, &inode_key(number), &record).map_err(Error::Store)
    }

    /// Removes an inode if it has no links: it was open, and is not any more.
    ///
    /// # Errors
    /// When it does not exist.
    pub fn reap(&mut self, number: InodeNumber) -> Result<(), Error<T::Error>> {
        let inode = inode(self.tables, number)?;
        if inode.links == 0 {
            self.tables.remove(Table::Orphans, &inode_key(number)).map_err(Error::Store)?;
            self.remove_inode(number, inode)?;
        }
        Ok(())
    }

    /// The entry of a place, which must exist.
    pub(super) fn existing(&self, place: Place<'_>) -> Result<Entry, Error<T::Error>> {
        directory(self.tables, place)?;
        let entry = entry(self.tables, place.directory, place.name)?;
        Ok(entry.ok_or_else(|| Refusal::NotFound(place.path()))?)
    }

    pub(super) fn refuse_if_not_empty(
        &self,
        entry: &Entry,
        place: Place<'_>,
    ) -> Result<(), Error<T::Error>> {
        match entries(self.tables, entry.inode, None, 1)?.is_empty() {
            true => Ok(()),
            false => Err(Refusal::NotEmpty(place.path()).into()),
        }
    }

    fn next_number(&mut self) -> Result<InodeNumber, Error<T::Error>> {
        let next = next_inode(self.tables).map_err(Error::Store)?.ok_or(Damage::NextInode)?;
        let after = next.checked_add(1).ok_or(Damage::NextInode)?;
        self.tables.put(Table::Facts, NEXT_INODE, &after.to_le_bytes()).map_err(Error::Store)?;
        Ok(InodeNumber(next))
    }

    pub(super) fn put_entry(
        &mut self,
        place: Place<'_>,
        number: InodeNumber,
        kind: Kind,
    ) -> Result<(), Error<T::Error>> {
        let key = named_key(place.directory, place.name.as_bytes());
        let value = entry_value(number, kind);
        self.tables.put(Table::Entries, &key, &value).map_err(Error::Store)
    }

    pub(super) fn remove_entry(&mut self, place: Place<'_>) -> Result<(), Error<T::Error>> {
        let key = named_key(place.directory, place.name.as_bytes());
        self.tables.remove(Table::Entries, &key).map_err(Error::Store)
    }

    /// An inode has lost an entry. Without links, it is removed, or becomes an orphan while it is open.
    pub(super) fn unlink_inode(&mut self, entry: &Entry) -> Result<(), Error<T::Error>> {
        let number = entry.inode;
        let mut inode = named_inode(self.tables, number)?;
        inode.links = match inode.kind {
            Kind::Directory => 0,
            _ => inode.links.saturating_sub(1),
        };
        inode.touch(self.now);
        if inode.links > 0 {
            return self.put(number, &inode);
        }
        if (self.is_open)(number) {
            self.put(number, &inode)?;
            return self.tables.put(Table::Orphans, &inode_key(number), &[]).map_err(Error::Store);
        }
        self.remove_inode(number, inode)
    }

    fn remove_inode(&mut self, number: InodeNumber, inode: Inode) -> Result<(), Error<T::Error>> {
        self.remove_attributes(number)?;
        if inode.kind == Kind::Symlink {
            self.tables.remove(Table::Targets, &inode_key(number)).map_err(Error::Store)?;
        }
        self.tables.remove(Table::Inodes, &inode_key(number)).map_err(Error::Store)?;
        self.free(inode.runs);
        self.inodes -= 1;
        Ok(())
    }

    /// The entries of a place's directory have changed, and the number of directories among them by
    /// `directories`.
    pub(super) fn touch_directory(
        &mut self,
        place: Place<'_>,
        directories: i32,
    ) -> Result<(), Error<T::Error>> {
        let mut inode = directory(self.tables, place)?;
        inode.touch(self.now);
        inode.modified_at = self.now;
        let links = inode.links.checked_add_signed(directories);
        inode.links = links.ok_or_else(|| Refusal::TooManyLinks(place.path()))?;
        self.put(place.directory, &inode)
    }
}

/// The number of the next inode, which is above the root's.
pub(crate) fn decode_next(fact: &[u8]) -> Option<u64> {
    let number = u64::from_le_bytes(fact.try_into().ok()?);
    (number > InodeNumber::ROOT.0).then_some(number)
}

/// The stored number of the next inode.
pub(crate) fn next_inode<T: Tables>(tables: &T) -> Result<Option<u64>, T::Error> {
    Ok(tables.get(Table::Facts, NEXT_INODE)?.as_deref().and_then(decode_next))
}
