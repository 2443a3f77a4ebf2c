//! Opening the files of a volume: the one place that decides who carries out the calls.

use std::sync::Arc;

use nearflash::Client;
use nearflash::direct::Rights;
use nearflash_files::{
    AttributeWrite, Entry, Inode, InodeNumber, Name, Path, Permissions, Renaming, Replace,
};
use nearflash_units::{ByteLen, ByteOffset};

use crate::calls::{FileCalls, for_each_call};
use crate::paths::Paths;
use crate::{
    Allocation, AttributeChanges, FileSystem, Files, FilesError, NewInode, RemoteFiles, SealedFile,
    Taker, Usage, VolumeDisk,
};

/// The files of a volume, wherever their owner is.
#[derive(Debug)]
pub enum AnyFiles {
    /// This process has taken the volume.
    Owned(FileSystem),
    /// The node owns the files.
    Remote(RemoteFiles),
    /// This process only reads the volume, which another one may change.
    Snapshot(Files),
}

/// Opens the files of a volume. If the node owns them, it carries out the calls, and the bytes pass it by where a
/// grant and a seal allow that. Otherwise, `taker` takes the volume; without one, the volume is only read.
///
/// # Errors
/// When the volume is not formatted for files, damaged, or cannot be read; with a `taker`, also when it cannot be
/// written, or when another process has it.
pub fn open(client: &Client, volume: &str, taker: Option<&Taker>) -> Result<AnyFiles, FilesError> {
    if let Some(files) = RemoteFiles::open(client, volume)? {
        return Ok(AnyFiles::Remote(files));
    }
    Ok(match taker {
        Some(taker) => AnyFiles::Owned(FileSystem::take(client, volume, taker)?),
        None => AnyFiles::Snapshot(Files::open(Arc::new(VolumeDisk::new(client.open(volume)?)))?),
    })
}

impl Paths<AnyFiles> {
    /// [`open`], by paths.
    ///
    /// # Errors
    /// As [`open`], and when there is a `taker` and the client may change none of the node's files.
    pub fn open(
        client: &Client,
        volume: &str,
        taker: Option<&Taker>,
    ) -> Result<Arc<Self>, FilesError> {
        let files = open(client, volume, taker)?;
        match &files {
            AnyFiles::Remote(remote) if taker.is_some() && !remote.is_writable() => {
                Err(FilesError::NotWritable { volume: volume.to_owned() })
            }
            _ => Ok(Arc::new(Self::new(files))),
        }
    }
}

impl AnyFiles {
    fn calls(&self) -> &dyn FileCalls {
        match self {
            Self::Owned(files) => files,
            Self::Remote(files) => files,
            Self::Snapshot(files) => files,
        }
    }
}

/// Methods that call the one of the files.
macro_rules! forward_to_files {
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        $(
            fn $name(&self $(, $argument: $type)*) $(-> $result)? {
                self.calls().$name($($argument),*)
            }
        )*
    };
}

impl FileCalls for AnyFiles {
    for_each_call!(forward_to_files);

    forward_to_files! {
        fn entries(&self, directory: InodeNumber, after: Option<&Name>, count_max: usize) -> Result<Vec<(Entry, Inode)>, FilesError>;
        fn read_opened(&self, opened: (InodeNumber, &Inode), bytes: &mut [u8], offset: ByteOffset) -> Result<usize, FilesError>;
        fn sync_names(&self, directory: InodeNumber) -> Result<(), FilesError>;
        fn tell_owner(&self);
    }

    fn close(self: Box<Self>) -> Result<(), FilesError> {
        match *self {
            Self::Owned(files) => files.close(),
            Self::Remote(files) => FileCalls::close(Box::new(files)),
            Self::Snapshot(files) => FileCalls::close(Box::new(files)),
        }
    }
}
