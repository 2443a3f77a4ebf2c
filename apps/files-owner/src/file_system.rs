//! The files of a volume by inode number, for many threads: the calls that a kernel makes.

use std::sync::Arc;

use nearflash_files::{Entry, Inode, InodeNumber, Kind, Name};
use nearflash_units::{ByteLen, ByteOffset, Nanos};

use crate::{Disk, FilesError};

/// A new inode.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NewInode {
    /// Its kind.
    pub kind: Kind,
    /// Its permission bits, at most 0o7777.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// The number of a device, for device nodes.
    pub device: u32,
    /// The target of a symbolic link; empty for every other kind.
    pub target: Vec<u8>,
}

/// How a rename treats an entry that has the new name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Renaming {
    /// It is replaced.
    Replace,
    /// `RENAME_NOREPLACE`: the rename is refused.
    NoReplace,
    /// `RENAME_EXCHANGE`: the two exchange their names.
    Exchange,
}

/// Changes of attributes; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AttributeChanges {
    /// Permission bits, at most 0o7777.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The length of a file.
    pub size: Option<ByteLen>,
    /// Time of the last access, since the start of 1970.
    pub accessed_at: Option<Nanos>,
    /// Time of the last change of the contents, since the start of 1970.
    pub modified_at: Option<Nanos>,
}

/// What fallocate(2) does with a range.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Allocation {
    /// Space is taken, and the file is extended.
    Extend,
    /// `FALLOC_FL_KEEP_SIZE`: space is taken.
    KeepSize,
    /// `FALLOC_FL_PUNCH_HOLE` or `FALLOC_FL_ZERO_RANGE`, both with `FALLOC_FL_KEEP_SIZE`: the range
    /// reads as zeroes. The space stays.
    Zero,
    /// `FALLOC_FL_ZERO_RANGE`: the range reads as zeroes, and the file is extended.
    ZeroAndExtend,
}

/// How setxattr(2) treats an existing attribute.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AttributeWrite {
    /// It is created or replaced.
    Any,
    /// `XATTR_CREATE`: it must not exist.
    Create,
    /// `XATTR_REPLACE`: it must exist.
    Replace,
}

/// The space of a volume of files.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Usage {
    /// The space for files.
    pub total: ByteLen,
    /// The space that is free.
    pub free: ByteLen,
    /// The number of inodes.
    pub inodes: u64,
}

/// The files of a volume that this process owns. All calls may come from any thread.
///
/// Changes of names and attributes are durable after [`Self::sync`] of one of their inodes or
/// directories, after [`Self::sync_all`], or 5 seconds later. They become durable in their order.
#[derive(Debug)]
pub struct FileSystem {}

#[allow(missing_docs, clippy::missing_errors_doc, clippy::todo, unused_variables)]
impl FileSystem {
    pub fn open(disk: Arc<dyn Disk>) -> Result<Self, FilesError> { todo!() }
    pub fn volume(&self) -> &str { todo!() }
    /// ENOENT if the name does not exist.
    pub fn lookup(&self, directory: InodeNumber, name: &Name) -> Result<(InodeNumber, Inode), FilesError> { todo!() }
    pub fn inode(&self, number: InodeNumber) -> Result<Inode, FilesError> { todo!() }
    /// Entries in byte order of their names, without `.` and `..`.
    pub fn list(&self, directory: InodeNumber, after: Option<&Name>, count_max: usize) -> Result<Vec<Entry>, FilesError> { todo!() }
    /// Creates a file, directory, symbolic link, FIFO, socket or device node.
    pub fn create(&self, directory: InodeNumber, name: &Name, new: NewInode) -> Result<(InodeNumber, Inode), FilesError> { todo!() }
    /// link(2). EPERM for a directory.
    pub fn link(&self, number: InodeNumber, directory: InodeNumber, name: &Name) -> Result<Inode, FilesError> { todo!() }
    /// Anything but a directory. The inode stays while it is retained.
    pub fn unlink(&self, directory: InodeNumber, name: &Name) -> Result<(), FilesError> { todo!() }
    pub fn rmdir(&self, directory: InodeNumber, name: &Name) -> Result<(), FilesError> { todo!() }
    pub fn rename(&self, from: (InodeNumber, &Name), to: (InodeNumber, &Name), renaming: Renaming) -> Result<(), FilesError> { todo!() }
    pub fn link_target(&self, number: InodeNumber) -> Result<Vec<u8>, FilesError> { todo!() }
    pub fn change(&self, number: InodeNumber, changes: AttributeChanges) -> Result<Inode, FilesError> { todo!() }
    /// ENODATA if there is none.
    pub fn attribute(&self, number: InodeNumber, name: &[u8]) -> Result<Vec<u8>, FilesError> { todo!() }
    pub fn attributes(&self, number: InodeNumber) -> Result<Vec<Vec<u8>>, FilesError> { todo!() }
    pub fn set_attribute(&self, number: InodeNumber, name: &[u8], value: &[u8], write: AttributeWrite) -> Result<(), FilesError> { todo!() }
    pub fn remove_attribute(&self, number: InodeNumber, name: &[u8]) -> Result<(), FilesError> { todo!() }
    /// An open descriptor (open, create, opendir). Pair with [`Self::release`]. An inode without links lives until
    /// the last release. `read` to `sync` need a retained inode.
    pub fn retain(&self, number: InodeNumber) -> Result<(), FilesError> { todo!() }
    pub fn release(&self, number: InodeNumber) { todo!() }
    /// Returns the number of bytes read: fewer at the end of the file.
    pub fn read(&self, number: InodeNumber, bytes: &mut [u8], offset: ByteOffset) -> Result<usize, FilesError> { todo!() }
    pub fn write(&self, number: InodeNumber, bytes: &[u8], offset: ByteOffset) -> Result<(), FilesError> { todo!() }
    /// Returns the offset at which the bytes are.
    pub fn append(&self, number: InodeNumber, bytes: &[u8]) -> Result<ByteOffset, FilesError> { todo!() }
    pub fn allocate(&self, number: InodeNumber, offset: ByteOffset, len: ByteLen, allocation: Allocation) -> Result<(), FilesError> { todo!() }
    /// fsync(2), and fdatasync(2) with `is_data_only`. Also of directories.
    pub fn sync(&self, number: InodeNumber, is_data_only: bool) -> Result<(), FilesError> { todo!() }
    pub fn sync_all(&self) -> Result<(), FilesError> { todo!() }
    pub fn usage(&self) -> Usage { todo!() }
    /// Makes everything durable and closes the volume; reports what could not be written.
    pub fn close(self) -> Result<(), FilesError> { todo!() }
}
