//! Reading the files of a volume, through its node if the node owns them, and otherwise from its blocks.

use std::io::Write;
use std::sync::Arc;

use nearflash::Client;
use nearflash_files_service::{
    Entry, Files, FilesError, Inode, InodeNumber, Name, Path, RemoteFiles, VolumeDisk,
};
use nearflash_units::ByteLen;

use super::FilesFailure;

/// A function that is told the length copied so far.
type Progress<'a> = &'a mut dyn FnMut(ByteLen);

/// Files that can be read.
pub(super) enum Reading {
    Own(Box<Files>),
    OfNode(Box<RemoteFiles>),
}

impl Reading {
    pub(super) fn open(client: &Client) -> Result<Self, FilesFailure> {
        let volume = client.open_named()?;
        Ok(match RemoteFiles::open(client, volume.name())? {
            Some(files) => Self::OfNode(Box::new(files)),
            None => Self::Own(Box::new(Files::open(Arc::new(VolumeDisk::new(volume)))?)),
        })
    }

    pub(super) fn stat(&self, path: &Path) -> Result<(InodeNumber, Inode), FilesError> {
        match self {
            Self::Own(files) => files.stat(path),
            Self::OfNode(files) => files.stat(path),
        }
    }

    pub(super) fn list(
        &self,
        path: &Path,
        after: Option<&Name>,
        count_max: usize,
    ) -> Result<Vec<Entry>, FilesError> {
        match self {
            Self::Own(files) => files.list(path, after, count_max),
            Self::OfNode(files) => files.list_path(path, after, count_max),
        }
    }

    pub(super) fn get(
        &self,
        path: &Path,
        sink: &mut dyn Write,
        progress: Progress<'_>,
    ) -> Result<Inode, FilesError> {
        match self {
            Self::Own(files) => files.get(path, sink, progress),
            Self::OfNode(files) => files.get(path, sink, progress),
        }
    }
}
