//! Operations on names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use fuser::{Errno, INodeNo, RenameFlags, Request};
use nearflash_files_service::{
    Inode, InodeNumber, Kind, MODE_MASK, NewInode, Permissions, Renaming,
};

use super::Translator;
use crate::attributes::{inherited, kind_of, name, number};

type Found = Result<(InodeNumber, Inode), Errno>;
/// A directory and a name in it.
type Place<'a> = (INodeNo, &'a OsStr);

impl Translator {
    pub(super) fn lookup_name(&self, parent: INodeNo, text: &OsStr) -> Found {
        let name = name(text)?;
        self.files.call(|files| files.lookup(number(parent), &name))
    }

    /// Creates an inode for the caller.
    fn create(&self, request: &Request, place: Place<'_>, mut new: NewInode) -> Found {
        let (parent, name) = (number(place.0), name(place.1)?);
        let mode = new.permissions.mode & MODE_MASK;
        self.files.call(|files| {
            let directory = files.inode(parent)?;
            let (mode, gid) = inherited(&directory, new.kind, mode, request.gid());
            new.permissions = Permissions { mode, uid: request.uid(), gid };
            files.create(parent, &name, new)
        })
    }

    pub(super) fn make_node(
        &self,
        request: &Request,
        place: Place<'_>,
        mode: u32,
        device: u32,
    ) -> Found {
        let kind = kind_of(mode).ok_or(Errno::EINVAL)?;
        self.create(request, place, NewInode { device, ..new(kind, mode) })
    }

    pub(super) fn make_directory(&self, request: &Request, place: Place<'_>, mode: u32) -> Found {
        self.create(request, place, new(Kind::Directory, mode))
    }

    pub(super) fn make_symlink(&self, request: &Request, place: Place<'_>, target: &Path) -> Found {
        let target = target.as_os_str().as_bytes().to_owned();
        self.create(request, place, NewInode { target, ..new(Kind::Symlink, 0o777) })
    }

    /// The inode is retained, as after an open.
    pub(super) fn create_and_open(&self, request: &Request, place: Place<'_>, mode: u32) -> Found {
        let (number, inode) = self.create(request, place, new(Kind::File, mode))?;
        self.files.call(|files| files.retain(number))?;
        Ok((number, inode))
    }

    pub(super) fn remove_name(&self, parent: INodeNo, text: &OsStr) -> Result<(), Errno> {
        let name = name(text)?;
        self.files.call(|files| files.unlink(number(parent), &name))
    }

    pub(super) fn remove_directory(&self, parent: INodeNo, text: &OsStr) -> Result<(), Errno> {
        let name = name(text)?;
        self.files.call(|files| files.rmdir(number(parent), &name))
    }

    pub(super) fn rename_entry(
        &self,
        from: Place<'_>,
        to: Place<'_>,
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        let (old, new) = (name(from.1)?, name(to.1)?);
        let renaming = renaming(flags).ok_or(Errno::EINVAL)?;
        self.files
            .call(|files| files.rename((number(from.0), &old), (number(to.0), &new), renaming))
    }

    pub(super) fn add_link(&self, ino: INodeNo, parent: INodeNo, text: &OsStr) -> Found {
        let (linked, name) = (number(ino), name(text)?);
        let inode = self.files.call(|files| files.link(linked, number(parent), &name))?;
        Ok((linked, inode))
    }
}

/// A new inode, whose owner is not known yet.
fn new(kind: Kind, mode: u32) -> NewInode {
    let permissions = Permissions { mode, uid: 0, gid: 0 };
    NewInode { kind, permissions, device: 0, target: Vec::new() }
}

fn renaming(flags: RenameFlags) -> Option<Renaming> {
    match flags {
        RenameFlags::RENAME_NOREPLACE => Some(Renaming::NoReplace),
        RenameFlags::RENAME_EXCHANGE => Some(Renaming::Exchange),
        RenameFlags::RENAME_WHITEOUT => Some(Renaming::Whiteout),
        _ => flags.is_empty().then_some(Renaming::Replace),
    }
}
