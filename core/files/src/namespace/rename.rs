//! Renaming, which replaces what has the new name, in one transaction.

use nearflash_units::Nanos;

use super::access::{entries, locate};
use super::change::{drop_inode, existing, put_entry, remove_entry, touch, unlinked};
use super::{Entry, Error, Refusal, Replace};
use crate::{Kind, Path, Run, TablesMut};

/// Renames a file or a directory. Returns the runs of the file that it replaces.
///
/// # Errors
/// As rename(2), and as renameat2(2) with `RENAME_NOREPLACE` for [`Replace::Never`].
pub fn rename<T: TablesMut>(
    tables: &mut T,
    from: &Path,
    to: &Path,
    replace: Replace,
    now: Nanos,
) -> Result<Vec<Run>, Error<T::Error>> {
    let (old, entry) = existing(tables, from)?;
    if to.is_root() {
        return Err(Refusal::Root.into());
    }
    let new = locate(tables, to)?;
    if new.directories.contains(&entry.inode) {
        return Err(Refusal::IntoItself(from.clone()).into());
    }
    let mut freed = Vec::new();
    if let Some(target) = &new.entry {
        if replace == Replace::Never {
            return Err(Refusal::Exists(to.clone()).into());
        }
        if target.inode == entry.inode {
            return Ok(freed);
        }
        may_replace(tables, &entry, target, to)?;
        freed = drop_inode(tables, target)?.runs;
        if target.kind == Kind::Directory {
            unlinked(tables, new.directory(), now)?;
        }
    }
    remove_entry(tables, &old)?;
    put_entry(tables, &new, entry.inode, entry.kind)?;
    if entry.kind == Kind::Directory && old.directory() != new.directory() {
        unlinked(tables, old.directory(), now)?;
        let linked = touch(tables, new.directory(), now, |inode| {
            inode.links = inode.links.checked_add(1)?;
            Some(())
        })?;
        linked.ok_or_else(|| Refusal::TooManyLinks(to.clone()))?;
    } else {
        touch(tables, old.directory(), now, |_| Some(()))?;
        touch(tables, new.directory(), now, |_| Some(()))?;
    }
    Ok(freed)
}

/// Whether `entry` may replace `target`, the entry of the path `to`.
fn may_replace<T: TablesMut>(
    tables: &T,
    entry: &Entry,
    target: &Entry,
    to: &Path,
) -> Result<(), Error<T::Error>> {
    match (entry.kind, target.kind) {
        (Kind::File, Kind::File) => Ok(()),
        (Kind::File, Kind::Directory) => Err(Refusal::IsADirectory(to.clone()).into()),
        (Kind::Directory, Kind::File) => Err(Refusal::NotADirectory(to.clone()).into()),
        (Kind::Directory, Kind::Directory) => {
            match entries(tables, target.inode, None, 1)?.is_empty() {
                true => Ok(()),
                false => Err(Refusal::NotEmpty(to.clone()).into()),
            }
        }
    }
}
