//! Renaming, which replaces the inode that has the new name, or exchanges the two names.

use super::access::{Place, directory, entry, inode, named_inode};
use super::{Change, Damage, Entry, Error, Refusal};
use crate::{Inode, InodeNumber, Kind, Permissions, Replace, TablesMut};

/// The deepest directory that a rename follows to the root: `PATH_MAX` allows for no deeper ones.
const DEPTH_MAX: usize = 1 << 16;

/// How a rename treats an entry that has the new name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Renaming {
    /// It is replaced, if it is of the same kind, and empty if it is a directory.
    Replace,
    /// `RENAME_NOREPLACE`: the rename is refused.
    NoReplace,
    /// `RENAME_EXCHANGE`: both must exist, and exchange their names.
    Exchange,
    /// `RENAME_WHITEOUT`: as [`Self::Replace`], and the old name becomes that of a whiteout, with which
    /// overlayfs hides a name of the layers below.
    Whiteout,
}

/// A whiteout is a character device without a number, which no program can open.
const WHITEOUT: Permissions = Permissions { mode: 0, uid: 0, gid: 0 };

impl<T: TablesMut> Change<'_, T> {
    /// Renames an inode.
    ///
    /// # Errors
    /// As renameat2(2).
    pub fn rename(
        &mut self,
        from: Place<'_>,
        to: Place<'_>,
        renaming: Renaming,
    ) -> Result<(), Error<T::Error>> {
        let moved = self.existing(from)?;
        directory(self.tables, to)?;
        let target = entry(self.tables, to.directory, to.name)?;
        self.refuse_into_itself(&moved, from, to)?;
        match (target, renaming) {
            (None, Renaming::Exchange) => Err(Refusal::NotFound(to.path()).into()),
            (Some(_), Renaming::NoReplace) => Err(Refusal::Exists(to.path()).into()),
            (Some(target), _) if target.inode == moved.inode => Ok(()),
            (Some(target), Renaming::Exchange) => self.exchange((from, &moved), (to, &target)),
            (target, Renaming::Whiteout) => {
                self.replace((from, &moved), (to, target.as_ref()))?;
                let whiteout = Inode::new(Kind::CharDevice, WHITEOUT, self.now);
                self.create(from, whiteout, Replace::Never).map(drop)
            }
            (target, _) => self.replace((from, &moved), (to, target.as_ref())),
        }
    }

    fn replace(
        &mut self,
        (from, moved): (Place<'_>, &Entry),
        (to, target): (Place<'_>, Option<&Entry>),
    ) -> Result<(), Error<T::Error>> {
        let mut directories_in_to = 0;
        if let Some(target) = target {
            self.may_replace(moved, target, to)?;
            self.unlink_inode(target)?;
            directories_in_to -= i32::from(target.kind == Kind::Directory);
        }
        self.remove_entry(from)?;
        self.give(to, moved)?;
        let is_directory = i32::from(moved.kind == Kind::Directory);
        self.touch_directory(from, -is_directory)?;
        self.touch_directory(to, directories_in_to + is_directory)
    }

    fn exchange(
        &mut self,
        (from, moved): (Place<'_>, &Entry),
        (to, target): (Place<'_>, &Entry),
    ) -> Result<(), Error<T::Error>> {
        self.refuse_into_itself(target, to, from)?;
        self.give(to, moved)?;
        self.give(from, target)?;
        let more = i32::from(moved.kind == Kind::Directory);
        let less = i32::from(target.kind == Kind::Directory);
        self.touch_directory(from, less - more)?;
        self.touch_directory(to, more - less)
    }

    /// Gives an inode the name of a place.
    fn give(&mut self, place: Place<'_>, entry: &Entry) -> Result<(), Error<T::Error>> {
        self.put_entry(place, entry.inode, entry.kind)?;
        let mut inode = named_inode(self.tables, entry.inode)?;
        inode.touch(self.now);
        if entry.kind == Kind::Directory {
            inode.parent = place.directory;
        }
        self.put(entry.inode, &inode)
    }

    /// Refuses to move a directory from one place to another in its own tree.
    fn refuse_into_itself(
        &self,
        moved: &Entry,
        from: Place<'_>,
        to: Place<'_>,
    ) -> Result<(), Error<T::Error>> {
        if moved.kind != Kind::Directory {
            return Ok(());
        }
        let mut at = to.directory;
        for _ in 0..DEPTH_MAX {
            if at == moved.inode {
                return Err(Refusal::IntoItself(from.path()).into());
            }
            if at == InodeNumber::ROOT {
                return Ok(());
            }
            at = inode(self.tables, at)?.parent;
        }
        Err(Damage::Parents(to.directory).into())
    }

    fn may_replace(
        &self,
        moved: &Entry,
        target: &Entry,
        to: Place<'_>,
    ) -> Result<(), Error<T::Error>> {
        match (moved.kind == Kind::Directory, target.kind == Kind::Directory) {
            (false, false) => Ok(()),
            (false, true) => Err(Refusal::IsADirectory(to.path()).into()),
            (true, false) => Err(Refusal::NotADirectory(to.path()).into()),
            (true, true) => self.refuse_if_not_empty(target, to),
        }
    }
}
