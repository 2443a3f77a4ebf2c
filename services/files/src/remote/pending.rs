//! Files whose bytes arrive in pieces, at another owner. Several can be written at the same time.
//!
//! Such a file has no name before it is complete, and the owner has it open for this client. It is
//! therefore removed when the client ends, however that happens.

use std::io::{self, Read};

use nearflash_files::{Inode, InodeNumber, Kind, Name, Path, Refusal, Replace};
use nearflash_files_calls::{Operation, Request};
use nearflash_units::{ByteLen, ByteOffset};
use rustix::io::Errno;
use uuid::Uuid;
use zerocopy::little_endian::U64;

use super::paths::{PIECE_LEN, named, new};
use super::{RemoteFiles, Repeat};
use crate::owner::FILE_MODE;
use crate::wire::{self, Linking};
use crate::{Allocation, AttributeChanges, FileCalls as _, FilesError, Upload};

/// The start of the name that a new file has until its creation has been answered.
const PART_PREFIX: &str = ".nearflash-";

/// A file that has no name yet, at another owner. [`Self::finish`] gives it one.
#[derive(Debug)]
pub struct RemotePending {
    path: Path,
    directory: InodeNumber,
    name: Name,
    number: InodeNumber,
    options: Upload,
    /// The bytes that the owner has.
    done: ByteLen,
    /// The bytes after them.
    piece: Vec<u8>,
}

impl RemotePending {
    /// Begins a file. Nobody finds it before [`Self::finish`].
    ///
    /// # Errors
    /// When the path is refused, or the volume is full or cannot be written.
    pub fn begin(files: &RemoteFiles, path: &Path, options: Upload) -> Result<Self, FilesError> {
        let (directory, name) = files.place(path)?;
        if let Err(refused) = refuse_early(files, directory, (path, &name), options.replace) {
            return files.settle(directory, path, Err(refused));
        }
        let number = nameless(files, directory).map_err(named(path))?;
        let (path, piece) = (path.clone(), Vec::new());
        let begun = Self { path, directory, name, number, options, done: ByteLen(0), piece };
        match options.size.filter(|size| size.0 > 0) {
            None => Ok(begun),
            Some(size) => match files.allocate(number, ByteOffset(0), size, Allocation::KeepSize) {
                Ok(()) => Ok(begun),
                Err(error) => {
                    begun.abandon(files);
                    Err(error)
                }
            },
        }
    }

    fn len(&self) -> ByteLen {
        ByteLen(self.done.0 + ByteLen::of(&self.piece).0)
    }

    /// Appends bytes. After an error, only [`Self::abandon`] makes sense.
    ///
    /// # Errors
    /// When the volume is full or cannot be written, or the file becomes longer than its size.
    pub fn write(&mut self, files: &RemoteFiles, bytes: &[u8]) -> Result<(), FilesError> {
        let end = ByteLen(self.len().0 + ByteLen::of(bytes).0);
        if let Some(expected) = self.options.size.filter(|size| end > *size) {
            return Err(FilesError::SourceLong { expected });
        }
        let whole = PIECE_LEN.to_usize();
        let mut rest = bytes;
        while self.piece.len() + rest.len() >= whole {
            let (part, others) = rest.split_at(whole - self.piece.len());
            rest = others;
            if self.piece.is_empty() {
                self.store(files, part)?;
                continue;
            }
            self.piece.extend_from_slice(part);
            self.store_piece(files)?;
        }
        self.piece.extend_from_slice(rest);
        Ok(())
    }

    fn store_piece(&mut self, files: &RemoteFiles) -> Result<(), FilesError> {
        let mut piece = std::mem::take(&mut self.piece);
        if !piece.is_empty() {
            self.store(files, &piece)?;
        }
        piece.clear();
        self.piece = piece;
        Ok(())
    }

    fn store(&mut self, files: &RemoteFiles, bytes: &[u8]) -> Result<(), FilesError> {
        files.write(self.number, bytes, ByteOffset(self.done.0))?;
        self.done = ByteLen(self.done.0 + ByteLen::of(bytes).0);
        Ok(())
    }

    /// Gives the file its name, durably. A file that it replaces is there, whole, until then.
    ///
    /// # Errors
    /// When the path is refused, or the volume is full or cannot be written. Then no file has been
    /// created or replaced, unless the connection was lost.
    pub fn finish(mut self, files: &RemoteFiles) -> Result<(InodeNumber, Inode), FilesError> {
        let stored = self.store_last(files);
        let linked = stored.and_then(|()| self.link(files));
        files.release(self.number);
        files.settle(self.directory, &self.path, linked)?;
        Ok((self.number, files.inode(self.number)?))
    }

    /// Makes all bytes durable.
    fn store_last(&mut self, files: &RemoteFiles) -> Result<(), FilesError> {
        let read = self.len();
        if let Some(expected) = self.options.size.filter(|expected| *expected != read) {
            return Err(FilesError::SourceShort { expected, read });
        }
        self.store_piece(files)?;
        files.sync(self.number, false)
    }

    fn link(&self, files: &RemoteFiles) -> Result<(), FilesError> {
        let mut request = Request::new(Operation::LINK, self.directory.0);
        request.name = self.name.as_bytes();
        request.head.other = U64::new(self.number.0);
        request.head.variant = wire::linking_number(Linking::Open(self.options.replace));
        let answered = files.call(&request, Repeat::No)?;
        let mut state = files.state();
        for number in [self.directory, self.number] {
            state.unsynced.changed(number, answered.life);
        }
        Ok(())
    }

    /// Gives the space back.
    pub fn abandon(self, files: &RemoteFiles) {
        files.release(self.number);
    }

    /// Appends the bytes of a source, to its end. It may have changed since its length was found.
    fn copy(
        &mut self,
        files: &RemoteFiles,
        source: &mut dyn Read,
        progress: &mut dyn FnMut(ByteLen),
    ) -> Result<(), FilesError> {
        let expected = self.options.size.take();
        let mut bytes = vec![0; PIECE_LEN.to_usize()];
        loop {
            let len = match source.read(&mut bytes) {
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(FilesError::Source(error)),
            };
            if len == 0 {
                break;
            }
            self.write(files, &bytes[..len])?;
            progress(self.len());
        }
        if expected.is_some_and(|size| size > self.len()) {
            self.store_piece(files)?;
            // The owner frees the space behind the end.
            let size = Some(self.done);
            files.change(self.number, AttributeChanges { size, ..AttributeChanges::default() })?;
        }
        Ok(())
    }
}

impl RemoteFiles {
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
        let mut pending = RemotePending::begin(self, path, options)?;
        match pending.copy(self, source, progress) {
            Ok(()) => pending.finish(self),
            Err(error) => {
                pending.abandon(self);
                Err(error)
            }
        }
    }
}

/// Creates a file without a name, which is open.
fn nameless(files: &RemoteFiles, directory: InodeNumber) -> Result<InodeNumber, FilesError> {
    let part = format!("{PART_PREFIX}{}", Uuid::new_v4().simple());
    let part = Name::new(part.as_bytes()).expect("a short word is a name");
    let (number, _) = files.create(directory, &part, new(Kind::File, FILE_MODE))?;
    let retained = files.retain(number);
    let unlinked = files.unlink(directory, &part);
    retained?;
    if let Err(error) = unlinked {
        files.release(number);
        return Err(error);
    }
    Ok(number)
}

/// Refuses a path to which no file can be put, before its bytes are copied.
fn refuse_early(
    files: &RemoteFiles,
    directory: InodeNumber,
    (path, name): (&Path, &Name),
    replace: Replace,
) -> Result<(), FilesError> {
    match files.lookup(directory, name) {
        Ok((_, inode)) if inode.kind == Kind::Directory => {
            Err(Refusal::IsADirectory(path.clone()).into())
        }
        Ok(_) if replace == Replace::Never => Err(Refusal::Exists(path.clone()).into()),
        Err(error) if error.errno() != Errno::NOENT => Err(error),
        _ => Ok(()),
    }
}
