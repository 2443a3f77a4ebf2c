//! Calls by paths, for commands. Each change is durable when its call returns.

use std::io::{Read, Write};

use nearflash_files::{Entry, Inode, InodeNumber, Kind, Name, Path, Refusal, Renaming, Replace};
use nearflash_units::{ByteLen, ByteOffset, MIB};
use rustix::io::Errno;
use uuid::Uuid;

use super::RemoteFiles;
use crate::owner::{DIRECTORY_MODE, FILE_MODE, permissions};
use crate::{Allocation, FileCalls as _, FilesError, NewInode, Upload};

/// The bytes of a file that are in memory at a time.
const PIECE_LEN: ByteLen = ByteLen(MIB);

/// The start of the name of a file that is being put. It gets its own name when it is complete.
const PART_PREFIX: &str = ".nearflash-";

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
        created.map_err(named(path))?;
        self.sync(directory, false)
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
        removed.map_err(named(path))?;
        self.sync(directory, false)?;
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
        renamed.map_err(named(to))?;
        self.sync(new.0, false)
    }

    /// Copies `source` to a file, and reports the length copied so far to `progress`. The file gets its
    /// name when it is complete.
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
        let (directory, name) = self.place(path)?;
        self.refuse_early(directory, (path, &name), options.replace)?;
        let part = format!("{PART_PREFIX}{}", Uuid::new_v4().simple());
        let part = Name::new(part.as_bytes()).expect("a short word is a name");
        let (number, _) = self.create(directory, &part, new(Kind::File, FILE_MODE))?;
        let copied = self.retain(number).and_then(|()| {
            let copied = self.copy_in(number, source, options.size, progress);
            let synced = copied.and_then(|()| self.sync(number, false));
            self.release(number);
            synced
        });
        let renamed = copied.and_then(|()| {
            self.rename((directory, &part), (directory, &name), renaming(options.replace))
        });
        if let Err(error) = renamed {
            // The first failure is the one to report.
            let _ = self.unlink(directory, &part);
            return Err(named(path)(error));
        }
        self.sync(directory, false)?;
        Ok((number, self.inode(number)?))
    }

    fn copy_in(
        &self,
        number: InodeNumber,
        source: &mut dyn Read,
        size: Option<ByteLen>,
        progress: &mut dyn FnMut(ByteLen),
    ) -> Result<(), FilesError> {
        if let Some(size) = size.filter(|size| size.0 > 0) {
            self.allocate(number, ByteOffset(0), size, Allocation::KeepSize)?;
        }
        let mut bytes = vec![0; PIECE_LEN.to_usize()];
        let mut done = 0;
        loop {
            let len = source.read(&mut bytes).map_err(FilesError::Source)?;
            let end = done + ByteLen::of(&bytes[..len]).0;
            if let Some(expected) = size.filter(|size| end > size.0) {
                return Err(FilesError::SourceLong { expected });
            }
            if len == 0 {
                break;
            }
            self.write(number, &bytes[..len], ByteOffset(done))?;
            done = end;
            progress(ByteLen(done));
        }
        match size {
            Some(expected) if done < expected.0 => {
                Err(FilesError::SourceShort { expected, read: ByteLen(done) })
            }
            _ => Ok(()),
        }
    }

    /// Refuses a path to which no file can be put, before its bytes are copied.
    fn refuse_early(
        &self,
        directory: InodeNumber,
        (path, name): (&Path, &Name),
        replace: Replace,
    ) -> Result<(), FilesError> {
        match self.lookup(directory, name) {
            Ok((_, inode)) if inode.kind == Kind::Directory => {
                Err(Refusal::IsADirectory(path.clone()).into())
            }
            Ok(_) if replace == Replace::Never => Err(Refusal::Exists(path.clone()).into()),
            Err(error) if error.errno() != Errno::NOENT => Err(named(path)(error)),
            _ => Ok(()),
        }
    }

    /// The directory of a path, and the name in it.
    fn place(&self, path: &Path) -> Result<(InodeNumber, Name), FilesError> {
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

fn new(kind: Kind, mode: u32) -> NewInode {
    NewInode { kind, permissions: permissions(mode), device: 0, target: Vec::new() }
}

fn renaming(replace: Replace) -> Renaming {
    match replace {
        Replace::Never => Renaming::NoReplace,
        Replace::Allowed => Renaming::Replace,
    }
}

/// The error of a call about a path, which the owner's message does not have.
fn named(path: &Path) -> impl Fn(FilesError) -> FilesError {
    move |error| {
        if !matches!(error, FilesError::Remote { .. }) {
            return error;
        }
        let path = path.clone();
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
