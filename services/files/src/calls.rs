//! The calls on the files of a volume, wherever its owner is.

use std::fmt;

use nearflash::direct::Rights;
use nearflash_files::{
    AttributeWrite, Entry, Inode, InodeNumber, Kind, Name, Path, Permissions, Refusal, Renaming,
    Replace,
};
use nearflash_units::{ByteLen, ByteOffset};
use rustix::io::Errno;

use crate::{Allocation, AttributeChanges, FileSystem, FilesError, NewInode, SealedFile, Usage};

/// The calls that a kernel makes. [`FileSystem`] has them for a volume that this process owns,
/// [`RemoteFiles`](crate::RemoteFiles) for one whose owner is its node, and [`Files`](crate::Files) for one
/// that this process only reads. The methods of [`FileSystem`] have their meaning.
#[allow(missing_docs, reason = "the methods of FileSystem with the same names say what they do")]
#[allow(clippy::missing_errors_doc, reason = "the methods of FileSystem say when they fail")]
pub trait FileCalls: fmt::Debug + Send + Sync {
    /// The name of the volume.
    fn volume(&self) -> &str;

    /// The inode of a path.
    fn stat(&self, path: &Path) -> Result<(InodeNumber, Inode), FilesError> {
        let mut found: Option<(InodeNumber, Inode)> = None;
        let mut at = Path::default();
        for name in path.names() {
            let directory = match found {
                None => InodeNumber::ROOT,
                Some((number, inode)) if inode.kind == Kind::Directory => number,
                Some(_) => return Err(Refusal::NotADirectory(at).into()),
            };
            at = at.join(name);
            let looked_up = self.lookup(directory, name).map_err(|error| match error.errno() {
                Errno::NOENT => error.at(&at),
                _ => error.at(path),
            });
            found = Some(looked_up?);
        }
        match found {
            Some(found) => Ok(found),
            None => Ok((InodeNumber::ROOT, self.inode(InodeNumber::ROOT)?)),
        }
    }
    fn lookup(
        &self,
        directory: InodeNumber,
        name: &Name,
    ) -> Result<(InodeNumber, Inode), FilesError>;
    fn inode(&self, number: InodeNumber) -> Result<Inode, FilesError>;
    fn list(
        &self,
        directory: InodeNumber,
        after: Option<&Name>,
        count_max: usize,
    ) -> Result<Vec<Entry>, FilesError>;

    /// [`Self::list`] with the inodes. Each is as of the time when it was asked for.
    fn entries(
        &self,
        directory: InodeNumber,
        after: Option<&Name>,
        count_max: usize,
    ) -> Result<Vec<(Entry, Inode)>, FilesError> {
        let (mut found, mut after) = (Vec::new(), after.cloned());
        while found.len() < count_max {
            let entries = self.list(directory, after.as_ref(), count_max - found.len())?;
            let Some(last) = entries.last() else { break };
            after = Some(last.name.clone());
            for entry in entries {
                match self.lookup(directory, &entry.name) {
                    Ok((inode, it)) => found.push((Entry { inode, kind: it.kind, ..entry }, it)),
                    // It was removed meanwhile.
                    Err(error) if error.errno() == Errno::NOENT => {}
                    Err(error) => return Err(error.at(&Path::from(&entry.name))),
                }
            }
        }
        Ok(found)
    }
    fn create(
        &self,
        directory: InodeNumber,
        name: &Name,
        new: NewInode,
    ) -> Result<(InodeNumber, Inode), FilesError>;
    fn create_nameless(
        &self,
        directory: InodeNumber,
        permissions: Permissions,
    ) -> Result<InodeNumber, FilesError>;
    fn publish(
        &self,
        number: InodeNumber,
        place: (InodeNumber, &Name),
        replace: Replace,
    ) -> Result<Inode, FilesError>;
    fn link(
        &self,
        number: InodeNumber,
        directory: InodeNumber,
        name: &Name,
    ) -> Result<Inode, FilesError>;
    fn unlink(&self, directory: InodeNumber, name: &Name) -> Result<(), FilesError>;
    fn rmdir(&self, directory: InodeNumber, name: &Name) -> Result<(), FilesError>;
    fn rename(
        &self,
        from: (InodeNumber, &Name),
        to: (InodeNumber, &Name),
        renaming: Renaming,
    ) -> Result<(), FilesError>;
    fn link_target(&self, number: InodeNumber) -> Result<Vec<u8>, FilesError>;
    fn change(&self, number: InodeNumber, changes: AttributeChanges) -> Result<Inode, FilesError>;
    fn attribute(&self, number: InodeNumber, name: &[u8]) -> Result<Vec<u8>, FilesError>;
    fn attributes(&self, number: InodeNumber) -> Result<Vec<Vec<u8>>, FilesError>;
    fn set_attribute(
        &self,
        number: InodeNumber,
        name: &[u8],
        value: &[u8],
        write: AttributeWrite,
    ) -> Result<(), FilesError>;
    fn remove_attribute(&self, number: InodeNumber, name: &[u8]) -> Result<(), FilesError>;
    fn retain(&self, number: InodeNumber) -> Result<(), FilesError>;
    fn release(&self, number: InodeNumber);
    fn read(
        &self,
        number: InodeNumber,
        bytes: &mut [u8],
        offset: ByteOffset,
    ) -> Result<usize, FilesError>;

    /// Reads from an open file whose inode was this when it was opened. Fails with ESTALE if the file is not the
    /// same any more, and nobody keeps it for this process.
    fn read_opened(
        &self,
        (number, _): (InodeNumber, &Inode),
        bytes: &mut [u8],
        offset: ByteOffset,
    ) -> Result<usize, FilesError> {
        self.read(number, bytes, offset)
    }
    fn write(
        &self,
        number: InodeNumber,
        bytes: &[u8],
        offset: ByteOffset,
    ) -> Result<(), FilesError>;
    fn append(&self, number: InodeNumber, bytes: &[u8]) -> Result<ByteOffset, FilesError>;
    fn allocate(
        &self,
        number: InodeNumber,
        offset: ByteOffset,
        len: ByteLen,
        allocation: Allocation,
    ) -> Result<(), FilesError>;
    fn sync(&self, number: InodeNumber, is_data_only: bool) -> Result<(), FilesError>;
    fn sync_all(&self) -> Result<(), FilesError>;

    /// Makes the names in a directory durable.
    fn sync_names(&self, directory: InodeNumber) -> Result<(), FilesError> {
        self.sync(directory, false)
    }
    fn usage(&self) -> Result<Usage, FilesError>;
    fn seal(&self, number: InodeNumber, rights: Rights) -> Result<SealedFile, FilesError>;
    fn seal_without_pages(
        &self,
        number: InodeNumber,
        rights: Rights,
    ) -> Result<SealedFile, FilesError>;
    fn durable_size(&self, number: InodeNumber) -> Result<ByteLen, FilesError>;
    fn keep_pages(&self, number: InodeNumber) -> Result<(), FilesError>;
    fn mark_written(&self, number: InodeNumber) -> Result<(), FilesError>;
    /// Tells an owner in another process of files that were written through seals. The mount calls this once a
    /// second.
    fn tell_owner(&self) {}

    /// Does what improves the place of files, and nobody waits for, if the files are owned by this process.
    fn tidy(&self) {}
    fn close(self: Box<Self>) -> Result<(), FilesError>;
}

/// Calls a macro with the signatures of the calls that are forwarded.
macro_rules! for_each_call {
    ($forward:ident) => {
        $forward! {
            fn volume(&self) -> &str;
            fn stat(&self, path: &Path) -> Result<(InodeNumber, Inode), FilesError>;
            fn lookup(&self, directory: InodeNumber, name: &Name) -> Result<(InodeNumber, Inode), FilesError>;
            fn inode(&self, number: InodeNumber) -> Result<Inode, FilesError>;
            fn list(&self, directory: InodeNumber, after: Option<&Name>, count_max: usize) -> Result<Vec<Entry>, FilesError>;
            fn create(&self, directory: InodeNumber, name: &Name, new: NewInode) -> Result<(InodeNumber, Inode), FilesError>;
            fn create_nameless(&self, directory: InodeNumber, permissions: Permissions) -> Result<InodeNumber, FilesError>;
            fn publish(&self, number: InodeNumber, place: (InodeNumber, &Name), replace: Replace) -> Result<Inode, FilesError>;
            fn link(&self, number: InodeNumber, directory: InodeNumber, name: &Name) -> Result<Inode, FilesError>;
            fn unlink(&self, directory: InodeNumber, name: &Name) -> Result<(), FilesError>;
            fn rmdir(&self, directory: InodeNumber, name: &Name) -> Result<(), FilesError>;
            fn rename(&self, from: (InodeNumber, &Name), to: (InodeNumber, &Name), renaming: Renaming) -> Result<(), FilesError>;
            fn link_target(&self, number: InodeNumber) -> Result<Vec<u8>, FilesError>;
            fn change(&self, number: InodeNumber, changes: AttributeChanges) -> Result<Inode, FilesError>;
            fn attribute(&self, number: InodeNumber, name: &[u8]) -> Result<Vec<u8>, FilesError>;
            fn attributes(&self, number: InodeNumber) -> Result<Vec<Vec<u8>>, FilesError>;
            fn set_attribute(&self, number: InodeNumber, name: &[u8], value: &[u8], write: AttributeWrite) -> Result<(), FilesError>;
            fn remove_attribute(&self, number: InodeNumber, name: &[u8]) -> Result<(), FilesError>;
            fn retain(&self, number: InodeNumber) -> Result<(), FilesError>;
            fn release(&self, number: InodeNumber);
            fn read(&self, number: InodeNumber, bytes: &mut [u8], offset: ByteOffset) -> Result<usize, FilesError>;
            fn write(&self, number: InodeNumber, bytes: &[u8], offset: ByteOffset) -> Result<(), FilesError>;
            fn append(&self, number: InodeNumber, bytes: &[u8]) -> Result<ByteOffset, FilesError>;
            fn allocate(&self, number: InodeNumber, offset: ByteOffset, len: ByteLen, allocation: Allocation) -> Result<(), FilesError>;
            fn sync(&self, number: InodeNumber, is_data_only: bool) -> Result<(), FilesError>;
            fn sync_all(&self) -> Result<(), FilesError>;
            fn usage(&self) -> Result<Usage, FilesError>;
            fn seal(&self, number: InodeNumber, rights: Rights) -> Result<SealedFile, FilesError>;
            fn seal_without_pages(&self, number: InodeNumber, rights: Rights) -> Result<SealedFile, FilesError>;
            fn durable_size(&self, number: InodeNumber) -> Result<ByteLen, FilesError>;
            fn keep_pages(&self, number: InodeNumber) -> Result<(), FilesError>;
            fn mark_written(&self, number: InodeNumber) -> Result<(), FilesError>;
            fn tidy(&self);
        }
    };
}

/// Methods that call the inherent one of the same name.
macro_rules! forward_to_self {
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        $(
            fn $name(&self $(, $argument: $type)*) $(-> $result)? {
                Self::$name(self $(, $argument)*)
            }
        )*
    };
}

pub(crate) use for_each_call;

impl FileCalls for FileSystem {
    for_each_call!(forward_to_self);

    /// Together with all other changes, of which some may have been refused because of others.
    fn sync_names(&self, _: InodeNumber) -> Result<(), FilesError> {
        self.sync_all()
    }

    fn close(self: Box<Self>) -> Result<(), FilesError> {
        Self::close(*self)
    }
}
