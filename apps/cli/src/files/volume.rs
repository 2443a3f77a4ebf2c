//! The files of a volume, through its node if the node owns them, and otherwise by this process.

use std::io::{Read, Write};
use std::sync::Arc;

use nearflash::Client;
use nearflash_files_owner::{
    Entry, Files, FilesError, Inode, InodeNumber, Kind, Name, Owner, Path, RemoteFiles, Replace,
    Upload, VolumeDisk,
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

/// Files that can be changed.
pub(super) enum Changing {
    Own(Box<Owner>),
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

impl Changing {
    pub(super) fn open(client: &Client, take_over: bool) -> Result<Self, FilesFailure> {
        // As the volume is known to the node.
        let volume = client.open_named()?.name().to_owned();
        Ok(match RemoteFiles::open(client, &volume)? {
            Some(files) => Self::OfNode(Box::new(files)),
            None => Self::Own(Box::new(Owner::take(client, &volume, take_over)?)),
        })
    }

    pub(super) fn stat(&self, path: &Path) -> Result<(InodeNumber, Inode), FilesError> {
        match self {
            Self::Own(owner) => owner.files().stat(path),
            Self::OfNode(files) => files.stat(path),
        }
    }

    pub(super) fn mkdir(&self, path: &Path) -> Result<(), FilesError> {
        match self {
            Self::Own(owner) => owner.mkdir(path),
            Self::OfNode(files) => files.mkdir(path),
        }
    }

    pub(super) fn remove(&self, path: &Path) -> Result<Kind, FilesError> {
        match self {
            Self::Own(owner) => owner.remove(path),
            Self::OfNode(files) => files.remove(path),
        }
    }

    pub(super) fn rename(
        &self,
        from: &Path,
        to: &Path,
        replace: Replace,
    ) -> Result<(), FilesError> {
        match self {
            Self::Own(owner) => owner.rename(from, to, replace),
            Self::OfNode(files) => files.rename_path(from, to, replace),
        }
    }

    pub(super) fn put(
        &self,
        path: &Path,
        source: &mut dyn Read,
        options: Upload,
        progress: Progress<'_>,
    ) -> Result<(InodeNumber, Inode), FilesError> {
        match self {
            Self::Own(owner) => owner.put(path, source, options, progress),
            Self::OfNode(files) => files.put(path, source, options, progress),
        }
    }
}
