//! Files whose bytes arrive in pieces. Several can be written at the same time, by several threads.
//!
//! Such a file has no name before it is complete. If the process ends before that, its space is free again: at
//! once if the node owns the files, and otherwise when the next owner opens them.

use std::io::{self, Read};
use std::sync::{Arc, Weak};

use nearflash_files::{Inode, InodeNumber, Kind, Name, Path, Refusal, Replace};
use nearflash_units::{ByteLen, ByteOffset};
use rustix::io::Errno;

use crate::calls::FileCalls;
use crate::format::permissions;
use crate::paths::{PIECE_LEN, Paths};
use crate::{Allocation, AttributeChanges, FilesError};

/// The permission bits of new files.
const FILE_MODE: u32 = 0o644;

/// How a file is created.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UploadOptions {
    /// The length of the file, if it is known: it then gets exactly the space that it needs. A source that
    /// is read to its end, as by [`Paths::put`], may turn out longer or shorter.
    pub size: Option<ByteLen>,
    /// Whether an existing file is replaced.
    pub replace: Replace,
}

/// A file that has no name yet. [`Self::finish`] gives it one. It is given up when it is dropped, and when its
/// [`Paths`] are, which it does not keep.
#[derive(Debug)]
pub struct Upload<F: FileCalls> {
    paths: Weak<Paths<F>>,
    volume: String,
    path: Path,
    directory: InodeNumber,
    number: InodeNumber,
    is_open: bool,
    options: UploadOptions,
    /// The bytes that were written.
    done: ByteLen,
    /// The bytes after them.
    piece: Vec<u8>,
}

impl<F: FileCalls> Paths<F> {
    /// Begins a file. Nobody finds it before [`Upload::finish`].
    ///
    /// # Errors
    /// When the path is refused, or the volume is full or cannot be written.
    pub fn upload(
        self: &Arc<Self>,
        path: &Path,
        options: UploadOptions,
    ) -> Result<Upload<F>, FilesError> {
        let (directory, name) = self.place(path)?;
        if let Err(refused) = self.refuse_early(directory, (path, name), options.replace) {
            return self.settle(directory, Err(refused));
        }
        let files = self.files();
        let begun = files.create_nameless(directory, permissions(FILE_MODE));
        let number = begun.map_err(|error| error.at(path))?;
        let (paths, volume) = (Arc::downgrade(self), files.volume().to_owned());
        let (path, piece, done) = (path.clone(), Vec::new(), ByteLen(0));
        let begun =
            Upload { paths, volume, path, directory, number, is_open: true, options, done, piece };
        if let Some(size) = options.size.filter(|size| size.0 > 0) {
            files.allocate(number, ByteOffset(0), size, Allocation::KeepSize)?;
        }
        Ok(begun)
    }

    /// Refuses a path to which no file can be put, before its bytes are copied.
    fn refuse_early(
        &self,
        directory: InodeNumber,
        (path, name): (&Path, &Name),
        replace: Replace,
    ) -> Result<(), FilesError> {
        match self.files().lookup(directory, name) {
            Ok((_, inode)) if inode.kind == Kind::Directory => {
                Err(Refusal::IsADirectory(path.clone()).into())
            }
            Ok(_) if replace == Replace::Never => Err(Refusal::Exists(path.clone()).into()),
            Err(error) if error.errno() != Errno::NOENT => Err(error.at(path)),
            _ => Ok(()),
        }
    }

    /// Creates a file with the bytes of `source`, and reports the length copied so far to
    /// `progress`. A file that it replaces is there, whole, until the new one is.
    ///
    /// # Errors
    /// When the path is refused, the source cannot be read, or the volume is full or cannot be
    /// written. Then no file has been created or replaced, unless the commit failed or the connection was lost.
    pub fn put(
        self: &Arc<Self>,
        path: &Path,
        source: &mut dyn Read,
        options: UploadOptions,
        progress: &mut dyn FnMut(ByteLen),
    ) -> Result<(InodeNumber, Inode), FilesError> {
        let mut upload = self.upload(path, options)?;
        match upload.copy(source, progress) {
            Ok(()) => upload.finish(),
            Err(error) => {
                upload.abandon();
                Err(error)
            }
        }
    }
}

impl<F: FileCalls> Upload<F> {
    /// The number of bytes so far.
    pub fn len(&self) -> ByteLen {
        ByteLen(self.done.0 + ByteLen::of(&self.piece).0)
    }

    /// Whether there are no bytes so far.
    pub fn is_empty(&self) -> bool {
        self.len() == ByteLen(0)
    }

    fn paths(&self) -> Result<Arc<Paths<F>>, FilesError> {
        self.paths.upgrade().ok_or_else(|| FilesError::Released { volume: self.volume.clone() })
    }

    /// Appends bytes. After an error, only [`Self::abandon`] makes sense.
    ///
    /// # Errors
    /// When the volume is full or cannot be written, or the file becomes longer than its size.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), FilesError> {
        let paths = self.paths()?;
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
                self.store(paths.files(), part)?;
                continue;
            }
            self.piece.extend_from_slice(part);
            self.store_piece(paths.files())?;
        }
        self.piece.extend_from_slice(rest);
        Ok(())
    }

    fn store_piece(&mut self, files: &F) -> Result<(), FilesError> {
        let mut piece = std::mem::take(&mut self.piece);
        if !piece.is_empty() {
            self.store(files, &piece)?;
        }
        piece.clear();
        self.piece = piece;
        Ok(())
    }

    fn store(&mut self, files: &F, bytes: &[u8]) -> Result<(), FilesError> {
        files.write(self.number, bytes, ByteOffset(self.done.0))?;
        self.done = ByteLen(self.done.0 + ByteLen::of(bytes).0);
        Ok(())
    }

    /// Gives the file its name, durably. A file that it replaces is there, whole, until then.
    ///
    /// # Errors
    /// When the path is refused, or the volume is full or cannot be written. Then no file has been
    /// created or replaced, unless the commit failed or the connection was lost.
    pub fn finish(mut self) -> Result<(InodeNumber, Inode), FilesError> {
        let paths = self.paths()?;
        let files = paths.files();
        let named = self.store_last(files).and_then(|()| {
            let name = self.path.names().last().expect("the root is refused");
            let named = files.publish(self.number, (self.directory, name), self.options.replace);
            named.map_err(|error| error.at(&self.path))
        });
        self.close(files);
        paths.settle(self.directory, named.map(|inode| (self.number, inode)))
    }

    /// Writes the rest.
    fn store_last(&mut self, files: &F) -> Result<(), FilesError> {
        let read = self.len();
        if let Some(expected) = self.options.size.filter(|expected| *expected != read) {
            return Err(FilesError::SourceShort { expected, read });
        }
        self.store_piece(files)
    }

    /// Gives the space back.
    pub fn abandon(mut self) {
        if let Some(paths) = self.paths.upgrade() {
            self.close(paths.files());
        }
    }

    fn close(&mut self, files: &F) {
        files.release(self.number);
        self.is_open = false;
    }

    /// Appends the bytes of a source, to its end. It may have changed since its length was found.
    fn copy(
        &mut self,
        source: &mut dyn Read,
        progress: &mut dyn FnMut(ByteLen),
    ) -> Result<(), FilesError> {
        let expected = self.options.size.take();
        let mut piece = vec![0; PIECE_LEN.to_usize()];
        loop {
            let len = fill(source, &mut piece).map_err(FilesError::Source)?;
            if len == 0 {
                break;
            }
            self.write(&piece[..len])?;
            progress(self.len());
        }
        if expected.is_some_and(|size| size > self.len()) {
            let paths = self.paths()?;
            self.store_piece(paths.files())?;
            // The space behind the end is free afterwards.
            let size = Some(self.done);
            let cut = AttributeChanges { size, ..AttributeChanges::default() };
            paths.files().change(self.number, cut)?;
        }
        Ok(())
    }
}

impl<F: FileCalls> Drop for Upload<F> {
    fn drop(&mut self) {
        if let Some(paths) = self.paths.upgrade().filter(|_| self.is_open) {
            paths.close_later(self.number);
        }
    }
}

/// Reads until the piece is full or the source ends.
fn fill(source: &mut dyn Read, piece: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < piece.len() {
        match source.read(&mut piece[len..]) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}
