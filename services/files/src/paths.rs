//! The files of a volume by paths, for commands and libraries.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use nearflash_files::{Entry, Inode, InodeNumber, Kind, Name, Path, Refusal, Renaming, Replace};
use nearflash_units::{ByteLen, ByteOffset, MIB};
use rustix::io::Errno;

use crate::calls::FileCalls;
use crate::format::{DIRECTORY_MODE, permissions};
use crate::{FilesError, NewInode};

/// The bytes of a file that are in memory at a time.
pub(crate) const PIECE_LEN: ByteLen = ByteLen(4 * MIB);

/// Files by paths. Each change is durable when its call returns, and so are the changes of other threads for
/// which a call is refused. Threads may share them.
#[derive(Debug)]
pub struct Paths<F> {
    files: F,
    /// The open files that are not used any more. The next call closes them: their users may not wait for an owner.
    unused: Mutex<Vec<InodeNumber>>,
}

/// A file that was opened for reading. It is closed some time after it was dropped. Threads may share it.
#[derive(Debug)]
pub struct Opened<F: FileCalls> {
    paths: Arc<Paths<F>>,
    path: Path,
    number: InodeNumber,
    inode: Inode,
}

impl<F: FileCalls> Paths<F> {
    /// Finds these files by paths.
    pub fn new(files: F) -> Self {
        Self { files, unused: Mutex::default() }
    }

    /// The files by number.
    pub fn files(&self) -> &F {
        let unused =
            std::mem::take(&mut *self.unused.lock().unwrap_or_else(PoisonError::into_inner));
        unused.into_iter().for_each(|number| self.files.release(number));
        &self.files
    }

    /// The files by number, for calls that have them alone.
    pub fn files_mut(&mut self) -> &mut F {
        self.files();
        &mut self.files
    }

    /// The next call closes an open file.
    pub(crate) fn close_later(&self, number: InodeNumber) {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner).push(number);
    }

    /// The inode of a path.
    ///
    /// # Errors
    /// When the path does not exist, no grant covers it, or the metadata cannot be read.
    pub fn stat(&self, path: &Path) -> Result<(InodeNumber, Inode), FilesError> {
        self.files().stat(path)
    }

    /// At most `count_max` entries of a directory with their inodes, in the order of their names' bytes, from
    /// the first behind `after` on.
    ///
    /// # Errors
    /// When the path is not a directory, no grant covers it, or the metadata cannot be read.
    pub fn list(
        &self,
        path: &Path,
        after: Option<&Name>,
        count_max: usize,
    ) -> Result<Vec<(Entry, Inode)>, FilesError> {
        let (directory, _) = self.stat(path)?;
        self.files.entries(directory, after, count_max).map_err(|error| error.at(path))
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// When the path is not a file, no grant covers it, or the metadata cannot be read.
    pub fn open_file(self: &Arc<Self>, path: &Path) -> Result<Opened<F>, FilesError> {
        let (number, inode) = self.stat(path)?;
        match inode.kind {
            Kind::File => {}
            Kind::Directory => return Err(Refusal::IsADirectory(path.clone()).into()),
            _ => return Err(Refusal::NotAFile(number).into()),
        }
        self.files.retain(number).map_err(|error| self.stale(path, error))?;
        Ok(Opened { paths: Arc::clone(self), path: path.clone(), number, inode })
    }

    /// Copies a file to `sink`, and reports the length copied so far to `progress`.
    ///
    /// # Errors
    /// When the path is not a file, it cannot be read or is changed meanwhile, or the sink cannot be written.
    pub fn get(
        self: &Arc<Self>,
        path: &Path,
        sink: &mut dyn Write,
        progress: &mut dyn FnMut(ByteLen),
    ) -> Result<Inode, FilesError> {
        let opened = self.open_file(path)?;
        let size = opened.inode.size.0;
        let mut bytes = vec![0; ByteLen(size.min(PIECE_LEN.0)).to_usize()];
        let mut done = 0;
        while done < size {
            let len = ByteLen((size - done).min(PIECE_LEN.0));
            let part = &mut bytes[..len.to_usize()];
            opened.read_at(part, ByteOffset(done))?;
            sink.write_all(part).map_err(FilesError::Sink)?;
            done += len.0;
            progress(ByteLen(done));
        }
        sink.flush().map_err(FilesError::Sink)?;
        Ok(opened.inode.clone())
    }

    /// Creates an empty directory.
    ///
    /// # Errors
    /// When the path is refused, or the volume is full or cannot be written.
    pub fn mkdir(&self, path: &Path) -> Result<(), FilesError> {
        let (directory, name) = self.place(path)?;
        let permissions = permissions(DIRECTORY_MODE);
        let new = NewInode { kind: Kind::Directory, permissions, device: 0, target: Vec::new() };
        let created = self.files.create(directory, name, new);
        self.settle(directory, created.map_err(|error| error.at(path))).map(drop)
    }

    /// Removes a file, or an empty directory.
    ///
    /// # Errors
    /// When the path is refused, or the volume cannot be written.
    pub fn remove(&self, path: &Path) -> Result<Kind, FilesError> {
        let (directory, name) = self.place(path)?;
        let removed = self.files.lookup(directory, name).and_then(|(_, inode)| {
            match inode.kind {
                Kind::Directory => self.files.rmdir(directory, name)?,
                _ => self.files.unlink(directory, name)?,
            }
            Ok(inode.kind)
        });
        self.settle(directory, removed.map_err(|error| error.at(path)))
    }

    /// Renames a file or a directory.
    ///
    /// # Errors
    /// When a path is refused, or the volume cannot be written.
    pub fn rename(&self, from: &Path, to: &Path, replace: Replace) -> Result<(), FilesError> {
        let renaming = match replace {
            Replace::Never => Renaming::NoReplace,
            Replace::Allowed => Renaming::Replace,
        };
        let (old, new) = (self.place(from)?, self.place(to)?);
        self.files.lookup(old.0, old.1).map_err(|error| error.at(from))?;
        let renamed = self.files.rename(old, new, renaming).map_err(|error| match error {
            FilesError::Refused(Refusal::IntoItself(_)) => Refusal::IntoItself(from.clone()).into(),
            error => error.at(to),
        });
        self.settle(new.0, renamed)
    }

    /// Makes the effect of a change durable, and the changes of others for which it was refused: a
    /// caller that is told of a file then finds it, also as a reader in another process.
    pub(crate) fn settle<R>(
        &self,
        directory: InodeNumber,
        result: Result<R, FilesError>,
    ) -> Result<R, FilesError> {
        if matches!(result, Ok(_) | Err(FilesError::Refused(_))) {
            self.files.sync_names(directory)?;
        }
        result
    }

    /// The directory of a path, and the name in it.
    pub(crate) fn place<'p>(&self, path: &'p Path) -> Result<(InodeNumber, &'p Name), FilesError> {
        let Some((name, parents)) = path.names().split_last() else {
            return Err(Refusal::Root.into());
        };
        let directory = parents.iter().fold(Path::default(), |path, name| path.join(name));
        let (number, inode) = self.stat(&directory)?;
        match inode.kind {
            Kind::Directory => Ok((number, name)),
            _ => Err(Refusal::NotADirectory(directory).into()),
        }
    }

    /// The error of a call on a file that was found under this path.
    fn stale(&self, path: &Path, error: FilesError) -> FilesError {
        match error.errno() {
            Errno::STALE => {
                FilesError::Stale { volume: self.files.volume().to_owned(), path: path.clone() }
            }
            _ => error.at(path),
        }
    }
}

impl<F: FileCalls> Drop for Opened<F> {
    fn drop(&mut self) {
        self.paths.close_later(self.number);
    }
}

impl<F: FileCalls> Opened<F> {
    /// The path under which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its number.
    pub fn number(&self) -> InodeNumber {
        self.number
    }

    /// Its inode when it was opened.
    pub fn inode(&self) -> &Inode {
        &self.inode
    }

    /// Fills `bytes` from `offset` of the file.
    ///
    /// # Errors
    /// When the range is not within the file, it cannot be read, no grant covers it any more, or it was cut. If no
    /// owner keeps it for this process: also when it was removed, replaced or changed. The contents of `bytes`
    /// are then not those of the file.
    pub fn read_at(&self, bytes: &mut [u8], offset: ByteOffset) -> Result<(), FilesError> {
        let files = self.paths.files();
        let end = offset.checked_add(ByteLen::of(bytes));
        if end.is_none_or(|end| end.0 > self.inode.size.0) {
            let failed = FilesError::disk(files.volume());
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
        let read = files.read_opened((self.number, &self.inode), bytes, offset);
        match read.map_err(|error| self.paths.stale(&self.path, error))? {
            len if len == bytes.len() => Ok(()),
            _ => Err(FilesError::Stale {
                volume: files.volume().to_owned(),
                path: self.path.clone(),
            }),
        }
    }
}
