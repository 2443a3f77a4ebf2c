//! Reading the files of a volume by paths, as far as the client's grants go.
//!
//! A client with a grant for the whole volume reads the blocks itself, also if the node owns the files: a read
//! is one of the volume, and waits for no owner. A client with grants on directories may read no block, and asks
//! the owner for everything. Its reads cost a message for each 64 KiB.

use std::sync::Arc;

use nearflash::Client;
use nearflash_files::{Entry, Inode, InodeNumber, Name, Path};
use nearflash_units::ByteOffset;
use rustix::io::Errno;

use crate::remote::{RemoteOpenedFile, RemoteReader};
use crate::taking::refuse_seal;
use crate::{FilesError, OpenedFile, Reader, VolumeDisk};

/// Files that can be read by paths. Threads may share them.
#[derive(Clone, Debug)]
pub enum Reading {
    /// From the blocks of the volume.
    Blocks(Arc<Reader>),
    /// Through the node, which owns the files.
    OfNode(Arc<RemoteReader>),
}

/// A file that was opened for reading. Threads may share it.
#[derive(Debug)]
pub enum FileReading {
    /// Of [`Reading::Blocks`].
    Blocks(Arc<Reader>, OpenedFile),
    /// Of [`Reading::OfNode`].
    OfNode(RemoteOpenedFile),
}

impl Reading {
    /// Opens the files of a volume. A client that may not read its blocks asks the node.
    ///
    /// # Errors
    /// When the volume is not formatted for files, or cannot be read, or the client may read none of its files.
    pub fn open(client: &Client, volume: &str) -> Result<Self, FilesError> {
        refuse_seal(client, volume)?;
        let disk = VolumeDisk::new(client.open(volume)?);
        let refused = match Reader::open(Arc::new(disk)) {
            Ok(reader) => return Ok(Self::Blocks(Arc::new(reader))),
            Err(error) if error.errno() == Errno::ACCESS => error,
            Err(error) => return Err(error),
        };
        let reader = RemoteReader::open(client, volume)?.ok_or(refused)?;
        Ok(Self::OfNode(Arc::new(reader)))
    }

    /// The inode of a path.
    ///
    /// # Errors
    /// When the path does not exist, the metadata cannot be read, or no grant covers it.
    pub fn stat(&self, path: &Path) -> Result<(InodeNumber, Inode), FilesError> {
        match self {
            Self::Blocks(reader) => reader.stat(path),
            Self::OfNode(reader) => reader.stat(path),
        }
    }

    /// At most `count_max` entries of a directory with their inodes, in the order of their names' bytes, from
    /// the first behind `after` on.
    ///
    /// # Errors
    /// When the path is not a directory, the metadata cannot be read, or no grant covers it.
    pub fn list(
        &self,
        path: &Path,
        after: Option<&Name>,
        count_max: usize,
    ) -> Result<Vec<(Entry, Inode)>, FilesError> {
        match self {
            Self::Blocks(reader) => reader.list(path, after, count_max),
            Self::OfNode(reader) => reader.list(path, after, count_max),
        }
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// When the path is not a file, the metadata cannot be read, or no grant covers it.
    pub fn open_file(&self, path: &Path) -> Result<FileReading, FilesError> {
        Ok(match self {
            Self::Blocks(reader) => {
                FileReading::Blocks(Arc::clone(reader), reader.open_file(path)?)
            }
            Self::OfNode(reader) => FileReading::OfNode(reader.open_file(path)?),
        })
    }
}

impl FileReading {
    /// The path under which it was opened.
    pub fn path(&self) -> &Path {
        match self {
            Self::Blocks(_, file) => file.path(),
            Self::OfNode(file) => file.path(),
        }
    }

    /// Its number.
    pub fn number(&self) -> InodeNumber {
        match self {
            Self::Blocks(_, file) => file.number(),
            Self::OfNode(file) => file.number(),
        }
    }

    /// Its inode when it was opened.
    pub fn inode(&self) -> &Inode {
        match self {
            Self::Blocks(_, file) => file.inode(),
            Self::OfNode(file) => file.inode(),
        }
    }

    /// Fills `bytes` from `offset` of the file.
    ///
    /// # Errors
    /// When the range is not within the file, it cannot be read, or the file was changed: the methods of the
    /// same name say how. The contents of `bytes` are then not those of the file.
    pub fn read_at(&self, bytes: &mut [u8], offset: ByteOffset) -> Result<(), FilesError> {
        match self {
            Self::Blocks(reader, file) => reader.read_at(file, bytes, offset),
            Self::OfNode(file) => file.read_at(bytes, offset),
        }
    }
}
