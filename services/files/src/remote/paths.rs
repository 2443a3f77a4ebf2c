//! Calls by paths, for commands. Each change is durable when its call returns.

use std::io::Write;

use nearflash_files::{Entry, Inode, InodeNumber, Kind, Name, Path, Refusal, Renaming, Replace};
use nearflash_units::{ByteLen, ByteOffset, MIB};
use rustix::io::Errno;

use super::RemoteFiles;
use crate::owner::{DIRECTORY_MODE, permissions};
use crate::{FileCalls as _, FilesError, NewInode};

/// The bytes of a file that are in memory at a time.
pub(super) const PIECE_LEN: ByteLen = ByteLen(MIB);

impl RemoteFiles {
    /// The inode of a path.
    ///
    /// # Errors
    /// When the path does not exist, or the owner cannot be asked.
    pub fn stat(&self, path: &Path) -> Result<(InodeNumber, Inode), FilesError> {
        let root = InodeNumber::ROOT;
        let mut found = (root, self.inode(root)?);
        for name in path.names() {
            found = self.lookup(found.0, name).map_err(named(path))?;
        }
        Ok(found)
    }

    /// As [`Files::list`](crate::Files::list).
    ///
    /// # Errors
    /// When the path is not a directory, or the owner cannot be asked.
    pub fn list_path(
        &self,
        path: &Path,
        after: Option<&Name>,
        count_max: usize,
    ) -> Result<Vec<Entry>, FilesError> {
        let (number, _) = self.stat(path)?;
        self.list(number, after, count_max).map_err(named(path))
    }

    /// As [`Files::get`](crate::Files::get).
    ///
    /// # Errors
    /// When the path is not a file, the owner cannot be asked, or the sink not be written.
    pub fn get(
        &self,
        path: &Path,
        sink: &mut dyn Write,
        progress: &mut dyn FnMut(ByteLen),
    ) -> Result<Inode, FilesError> {
        let (number, inode) = self.stat(path)?;
        match inode.kind {
            Kind::File => {}
            Kind::Directory => return Err(Refusal::IsADirectory(path.clone()).into()),
            _ => return Err(Refusal::NotAFile(number).into()),
        }
        self.retain(number).map_err(named(path))?;
        let got = self.copy_out(number, sink, progress);
        self.release(number);
        got?;
        sink.flush().map_err(FilesError::Sink)?;
        Ok(inode)
    }

    fn copy_out(
        &self,
        number: InodeNumber,
        sink: &mut dyn Write,
        progress: &mut dyn FnMut(ByteLen),
    ) -> Result<(), FilesError> {
        let mut bytes = vec![0; PIECE_LEN.to_usize()];
        let mut done = 0;
        loop {
            let len = self.read(number, &mut bytes, ByteOffset(done))?;
            if len == 0 {
                return Ok(());
            }
            sink.write_all(&bytes[..len]).map_err(FilesError::Sink)?;
            done += ByteLen::of(&bytes[..len]).0;
            progress(ByteLen(done));
        }
    }

    /// Creates an empty directory.
    ///
    /// # Errors
    /// When the path is refused, or the volume is full or cannot be written.
    pub fn mkdir(&self, path: &Path) -> Result<(), FilesError> {
        let (directory, name) = self.place(path)?;
        let created = self.create(directory, &name, new(Kind::Directory, DIRECTORY_MODE));
        self.settle(directory, path, created).map(drop)
    }

    /// Removes a file, or an empty directory.
    ///
    /// # Errors
    /// When the path is refused, or the volume cannot be written.
    pub fn remove(&self, path: &Path) -> Result<Kind, FilesError> {
        let (directory, name) = self.place(path)?;
        let (_, inode) = self.lookup(directory, &name).map_err(named(path))?;
        let removed = match inode.kind {
            Kind::Directory => self.rmdir(directory, &name),
            _ => self.unlink(directory, &name),
        };
        self.settle(directory, path, removed)?;
        Ok(inode.kind)
    }

    /// Renames a file or a directory.
    ///
    /// # Errors
    /// When a path is refused, or the volume cannot be written.
    pub fn rename_path(&self, from: &Path, to: &Path, replace: Replace) -> Result<(), FilesError> {
        let (old, new) = (self.place(from)?, self.place(to)?);
        self.lookup(old.0, &old.1).map_err(named(from))?;
        let renamed = self.rename((old.0, &old.1), (new.0, &new.1), renaming(replace));
        self.settle(new.0, to, renamed)
    }

    /// Makes the effect of a change durable, and the changes of others for which it was refused: a
    /// caller that is told of a file then finds it, also through a [`crate::Reader`].
    pub(super) fn settle<R>(
        &self,
        directory: InodeNumber,
        path: &Path,
        result: Result<R, FilesError>,
    ) -> Result<R, FilesError> {
        let result = result.map_err(named(path));
        if matches!(result, Ok(_) | Err(FilesError::Refused(_))) {
            self.sync(directory, false)?;
        }
        result
    }

    /// The directory of a path, and the name in it.
    pub(super) fn place(&self, path: &Path) -> Result<(InodeNumber, Name), FilesError> {
        let Some((name, parents)) = path.names().split_last() else {
            return Err(Refusal::Root.into());
        };
        let directory = parents.iter().fold(Path::default(), |path, name| path.join(name));
        let (number, inode) = self.stat(&directory)?;
        if inode.kind != Kind::Directory {
            return Err(Refusal::NotADirectory(directory).into());
        }
        Ok((number, name.clone()))
    }
}

pub(super) fn new(kind: Kind, mode: u32) -> NewInode {
    NewInode { kind, permissions: permissions(mode), device: 0, target: Vec::new() }
}

fn renaming(replace: Replace) -> Renaming {
    match replace {
        Replace::Never => Renaming::NoReplace,
        Replace::Allowed => Renaming::Replace,
    }
}

/// The error of a call about a path, which the owner's message does not have.
pub(super) fn named(path: &Path) -> impl Fn(FilesError) -> FilesError {
    move |error| {
        let FilesError::Remote { errno, message } = error else { return error };
        let path = path.clone();
        let error = FilesError::Remote { errno, message: format!("{path}: {message}") };
        match error.errno() {
            Errno::NOENT => Refusal::NotFound(path).into(),
            Errno::EXIST => Refusal::Exists(path).into(),
            Errno::NOTDIR => Refusal::NotADirectory(path).into(),
            Errno::ISDIR => Refusal::IsADirectory(path).into(),
            Errno::NOTEMPTY => Refusal::NotEmpty(path).into(),
            _ => error,
        }
    }
}
