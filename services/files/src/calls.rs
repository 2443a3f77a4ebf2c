//! The calls on the files of a volume, of a volume that this process owns or of another owner's.

use std::fmt;

use nearflash::direct::Rights;
use nearflash_files::{AttributeWrite, Entry, Inode, InodeNumber, Name, Renaming};
use nearflash_units::{ByteLen, ByteOffset};

use crate::{Allocation, AttributeChanges, FileSystem, FilesError, NewInode, SealedFile, Usage};

/// The calls that a kernel makes. [`FileSystem`] has them for a volume that this process owns, and
/// [`RemoteFiles`](crate::RemoteFiles) for one whose owner is its node. The methods of [`FileSystem`] have
/// their meaning.
#[allow(missing_docs, reason = "the methods of FileSystem with the same names say what they do")]
#[allow(clippy::missing_errors_doc, reason = "the methods of FileSystem say when they fail")]
pub trait FileCalls: fmt::Debug + Send + Sync {
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
    fn create(
        &self,
        directory: InodeNumber,
        name: &Name,
        new: NewInode,
    ) -> Result<(InodeNumber, Inode), FilesError>;
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

/// Methods that call the same one of [`FileSystem`].
macro_rules! forward {
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        $(
            fn $name(&self $(, $argument: $type)*) $(-> $result)? {
                Self::$name(self $(, $argument)*)
            }
        )*
    };
}

impl FileCalls for FileSystem {
    forward! {
        fn lookup(&self, directory: InodeNumber, name: &Name) -> Result<(InodeNumber, Inode), FilesError>;
        fn inode(&self, number: InodeNumber) -> Result<Inode, FilesError>;
        fn list(&self, directory: InodeNumber, after: Option<&Name>, count_max: usize) -> Result<Vec<Entry>, FilesError>;
        fn create(&self, directory: InodeNumber, name: &Name, new: NewInode) -> Result<(InodeNumber, Inode), FilesError>;
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
    }

    fn tidy(&self) {
        Self::tidy(self);
    }

    fn close(self: Box<Self>) -> Result<(), FilesError> {
        Self::close(*self)
    }
}
