//! Changing the files of a volume by paths. Their owner is the node, or else this process.

use std::io::Read;

use nearflash::Client;
use nearflash_files::{Inode, InodeNumber, Kind, Path, Replace};
use nearflash_units::ByteLen;

use crate::{FileCalls as _, FilesError, Owner, Pending, RemoteFiles, RemotePending, Upload};

/// Files that can be changed by paths. Each change is durable when its call returns. Threads may share it.
#[derive(Debug)]
pub enum Writer {
    /// This process has the volume.
    Own(Box<Owner>),
    /// The node owns the files, and makes the changes.
    OfNode(Box<RemoteFiles>),
}

/// A file that is not part of the volume yet. It belongs to the [`Writer`] that has begun it.
#[derive(Debug)]
pub enum Draft {
    /// Of [`Writer::Own`].
    Own(Pending),
    /// Of [`Writer::OfNode`].
    OfNode(RemotePending),
}

impl Writer {
    /// Asks the node, and takes the volume for this process if the node does not own its files.
    ///
    /// # Errors
    /// When the volume is not formatted for files, not writable, damaged, or cannot be read, and when
    /// another process has it. `take_over`: such a process loses it.
    pub fn open(client: &Client, volume: &str, take_over: bool) -> Result<Self, FilesError> {
        Ok(match RemoteFiles::open(client, volume)? {
            Some(files) if !files.is_writable() => {
                return Err(FilesError::NotWritable { volume: volume.to_owned() });
            }
            Some(files) => Self::OfNode(Box::new(files)),
            None => Self::Own(Box::new(Owner::take(client, volume, take_over)?)),
        })
    }

    /// The inode of a path.
    ///
    /// # Errors
    /// When the path does not exist, or the metadata cannot be read.
    pub fn stat(&self, path: &Path) -> Result<(InodeNumber, Inode), FilesError> {
        match self {
            Self::Own(owner) => owner.stat(path),
            Self::OfNode(files) => files.stat(path),
        }
    }

    /// The length of the space that files can still use.
    ///
    /// # Errors
    /// When an earlier commit has failed, or the owner cannot be asked.
    pub fn free_len(&self) -> Result<ByteLen, FilesError> {
        match self {
            Self::Own(owner) => owner.free_len(),
            Self::OfNode(files) => Ok(files.usage()?.free),
        }
    }

    /// Creates an empty directory.
    ///
    /// # Errors
    /// When the path is refused, or the volume is full or cannot be written.
    pub fn mkdir(&self, path: &Path) -> Result<(), FilesError> {
        match self {
            Self::Own(owner) => owner.mkdir(path),
            Self::OfNode(files) => files.mkdir(path),
        }
    }

    /// Removes a file, or an empty directory.
    ///
    /// # Errors
    /// When the path is refused, or the volume cannot be written.
    pub fn remove(&self, path: &Path) -> Result<Kind, FilesError> {
        match self {
            Self::Own(owner) => owner.remove(path),
            Self::OfNode(files) => files.remove(path),
        }
    }

    /// Renames a file or a directory.
    ///
    /// # Errors
    /// When a path is refused, or the volume cannot be written.
    pub fn rename(&self, from: &Path, to: &Path, replace: Replace) -> Result<(), FilesError> {
        match self {
            Self::Own(owner) => owner.rename(from, to, replace),
            Self::OfNode(files) => files.rename_path(from, to, replace),
        }
    }

    /// Creates a file with the bytes of `source`, and reports the length copied so far to `progress`. The
    /// file appears when it is complete.
    ///
    /// # Errors
    /// When the path is refused, the source cannot be read, or the volume is full or cannot be written.
    pub fn put(
        &self,
        path: &Path,
        source: &mut dyn Read,
        options: Upload,
        progress: &mut dyn FnMut(ByteLen),
    ) -> Result<(InodeNumber, Inode), FilesError> {
        match self {
            Self::Own(owner) => owner.put(path, source, options, progress),
            Self::OfNode(files) => files.put(path, source, options, progress),
        }
    }

    /// Begins a file. Nobody finds it before [`Draft::finish`].
    ///
    /// # Errors
    /// When the path is refused, or the volume is full or cannot be written.
    pub fn begin(&self, path: &Path, options: Upload) -> Result<Draft, FilesError> {
        Ok(match self {
            Self::Own(owner) => Draft::Own(Pending::begin(owner, path, options)?),
            Self::OfNode(files) => Draft::OfNode(RemotePending::begin(files, path, options)?),
        })
    }
}

impl Draft {
    /// Appends bytes. After an error, only [`Self::abandon`] makes sense.
    ///
    /// # Errors
    /// When the volume is full or cannot be written, or the file becomes longer than its size.
    ///
    /// # Panics
    /// When another kind of writer has begun the file, as do the other methods.
    pub fn write(&mut self, writer: &Writer, bytes: &[u8]) -> Result<(), FilesError> {
        match (self, writer) {
            (Self::Own(pending), Writer::Own(owner)) => pending.write(owner, bytes),
            (Self::OfNode(pending), Writer::OfNode(files)) => pending.write(files, bytes),
            _ => other_writer(),
        }
    }

    /// Makes the file part of the volume, durably. A file that it replaces is there, whole, until then.
    ///
    /// # Errors
    /// When the path is refused, or the volume is full or cannot be written.
    pub fn finish(self, writer: &Writer) -> Result<(InodeNumber, Inode), FilesError> {
        match (self, writer) {
            (Self::Own(pending), Writer::Own(owner)) => pending.finish(owner),
            (Self::OfNode(pending), Writer::OfNode(files)) => pending.finish(files),
            _ => other_writer(),
        }
    }

    /// Gives the space back.
    pub fn abandon(self, writer: &Writer) {
        match (self, writer) {
            (Self::Own(pending), Writer::Own(owner)) => pending.abandon(owner),
            (Self::OfNode(pending), Writer::OfNode(files)) => pending.abandon(files),
            _ => other_writer(),
        }
    }
}

fn other_writer() -> ! {
    panic!("a draft is used with the writer that has begun it")
}
