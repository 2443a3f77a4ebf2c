//! Changing the files of a volume by paths.

use std::sync::Arc;

use nearflash::Client;
use nearflash_files::{
    Change, Error, Inode, InodeNumber, Path, Permissions, Refusal, Renaming, Replace, locate,
};
use nearflash_units::ByteLen;
use redb::StorageError;

use crate::file_system::{FileSystem, View};
use crate::files::Files;
use crate::{CheckReport, Disk, FilesError, Kind};

/// The permission bits of new files and directories.
pub(crate) const FILE_MODE: u32 = 0o644;
pub(crate) const DIRECTORY_MODE: u32 = 0o755;

/// The process that may change the files of a volume. Each change is durable when its call returns,
/// and so are the changes of other threads for which a call is refused. Threads may share it.
#[derive(Debug)]
pub struct Owner {
    system: FileSystem,
}

impl Owner {
    /// Takes a volume for this process, and opens its files for changes. The volume is released when the
    /// owner is dropped.
    ///
    /// # Errors
    /// When the volume is not formatted for files, not writable, damaged, or cannot be read, and when
    /// another process has it. `take_over`: such a process loses it.
    pub fn take(client: &Client, volume: &str, take_over: bool) -> Result<Self, FilesError> {
        Ok(Self { system: FileSystem::take(client, volume, take_over)?.fail_on_loss() })
    }

    /// Opens the files of a volume for changes. No other process may write the volume.
    ///
    /// # Errors
    /// When the volume is not formatted for files, not writable, damaged, or cannot be read.
    pub fn open(disk: Arc<dyn Disk>) -> Result<Self, FilesError> {
        Ok(Self { system: FileSystem::open(disk)?.fail_on_loss() })
    }

    /// The files as of the last commit, for reading.
    pub fn files(&self) -> &Files {
        self.system.files()
    }

    pub(crate) fn system(&self) -> &FileSystem {
        &self.system
    }

    /// [`Files::check`].
    ///
    /// # Errors
    /// As [`Files::check`], and when the volume cannot be written.
    pub fn check(&mut self) -> Result<CheckReport, FilesError> {
        self.system.check()
    }

    /// The length of the space that files can still use.
    ///
    /// # Errors
    /// When an earlier commit has failed.
    pub fn free_len(&self) -> Result<ByteLen, FilesError> {
        Ok(self.system.usage()?.free)
    }

    /// The inode of a path, also of one that another thread has changed and that is not durable yet.
    ///
    /// # Errors
    /// When the path does not exist, or the metadata cannot be read.
    pub fn stat(&self, path: &Path) -> Result<(InodeNumber, Inode), FilesError> {
        self.system.view(|tables| nearflash_files::stat(tables, path))
    }

    /// Creates an empty directory.
    ///
    /// # Errors
    /// When the path is refused, or the volume is full or cannot be written.
    pub fn mkdir(&self, path: &Path) -> Result<(), FilesError> {
        self.system.make_room()?;
        self.change(|change| {
            let inode = Inode::new(Kind::Directory, permissions(DIRECTORY_MODE), change.now());
            let place = locate(change.tables(), path)?;
            change.create(place, inode, Replace::Never).map(drop)
        })
    }

    /// Removes a file, or an empty directory.
    ///
    /// # Errors
    /// When the path is refused, or the volume cannot be written.
    pub fn remove(&self, path: &Path) -> Result<Kind, FilesError> {
        self.change(|change| {
            let place = locate(change.tables(), path)?;
            let (_, inode) = nearflash_files::lookup(change.tables(), place)?;
            match inode.kind {
                Kind::Directory => change.rmdir(place)?,
                _ => change.unlink(place)?,
            }
            Ok(inode.kind)
        })
    }

    /// Renames a file or a directory.
    ///
    /// # Errors
    /// When a path is refused, or the volume cannot be written.
    pub fn rename(&self, from: &Path, to: &Path, replace: Replace) -> Result<(), FilesError> {
        self.system.make_room()?;
        let renaming = match replace {
            Replace::Never => Renaming::NoReplace,
            Replace::Allowed => Renaming::Replace,
        };
        self.change(|change| {
            let (from, to) = (locate(change.tables(), from)?, locate(change.tables(), to)?);
            change.rename(from, to, renaming)
        })
    }

    /// Makes a change, durably.
    fn change<R>(
        &self,
        make: impl FnOnce(&mut Change<'_, View<'_>>) -> Result<R, Error<StorageError>>,
    ) -> Result<R, FilesError> {
        let result = self.system.apply(make).map_err(|error| self.settled(error))?;
        self.system.sync_all()?;
        Ok(result)
    }

    /// A refusal, once the changes for which it is one are durable: a caller that is told of a file
    /// then finds it, also through a [`crate::Reader`].
    pub(crate) fn settled(&self, error: FilesError) -> FilesError {
        match error {
            FilesError::Refused(_) => self.system.sync_all().err().unwrap_or(error),
            _ => error,
        }
    }

    /// Refuses a path to which no file can be put, before its bytes are copied.
    pub(crate) fn refuse_early(&self, path: &Path, replace: Replace) -> Result<(), FilesError> {
        match self.stat(path) {
            Ok(_) if path.is_root() => Err(Refusal::Root.into()),
            Ok((_, inode)) if inode.kind == Kind::Directory => {
                Err(Refusal::IsADirectory(path.clone()).into())
            }
            Ok(_) if replace == Replace::Never => Err(Refusal::Exists(path.clone()).into()),
            Err(FilesError::Refused(Refusal::NotFound(missing))) if missing == *path => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }
}

/// The permissions of an inode that this process creates.
pub(crate) fn permissions(mode: u32) -> Permissions {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Permissions { mode, uid, gid }
}
