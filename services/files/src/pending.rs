//! Files whose bytes arrive in pieces. Several can be written at the same time, by several threads.

use std::io::{self, Read};

use nearflash_files::{
    BLOCK, Grower, Inode, InodeNumber, Kind, Path, Replace, Run, Spare, locate, trim,
};
use nearflash_units::{ByteLen, ByteOffset};

use crate::file_system::Grown;
use crate::files::PIECE_LEN;
use crate::metadata::{runs_len, write_runs};
use crate::owner::{FILE_MODE, permissions};
use crate::{FilesError, Owner};

/// How a file is created.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Upload {
    /// The length of the file, if it is known: it then gets exactly the space that it needs. A source that
    /// is read to its end, as by [`Owner::put`], may turn out longer or shorter.
    pub size: Option<ByteLen>,
    /// Whether an existing file is replaced.
    pub replace: Replace,
}

/// A file that is not part of the volume yet. Its space is taken until [`Self::finish`] or
/// [`Self::abandon`], at most until the owner ends.
#[derive(Debug)]
pub struct Pending {
    path: Path,
    options: Upload,
    grower: Grower,
    runs: Vec<Run>,
    /// The bytes that were written to the volume: whole pieces until the end.
    done: ByteLen,
    /// The bytes after them.
    piece: Vec<u8>,
    /// [`crate::Disk::losses`] before the first write.
    losses: u64,
}

impl Pending {
    /// Begins a file. Nothing of it is visible before [`Self::finish`].
    ///
    /// # Errors
    /// When the path is refused, or the volume is full.
    pub fn begin(owner: &Owner, path: &Path, options: Upload) -> Result<Self, FilesError> {
        owner.refuse_early(path, options.replace).map_err(|error| owner.settled(error))?;
        owner.system().heal()?;
        owner.system().make_room()?;
        let (path, piece) = (path.clone(), Vec::new());
        let losses = owner.system().disk().losses();
        let (grower, runs) = (owner.system().grower(), Vec::new());
        let mut begun = Self { path, options, grower, runs, done: ByteLen(0), piece, losses };
        if let Some(size) = options.size {
            begun.take_space(owner, size, Spare::None)?;
        }
        Ok(begun)
    }

    fn take_space(
        &mut self,
        owner: &Owner,
        needed: ByteLen,
        spare: Spare,
    ) -> Result<(), FilesError> {
        let grown = owner.system().grow(self.grower, &self.runs, needed, spare)?;
        self.move_to(owner, grown)
    }

    /// Copies the bytes to the new places among these runs.
    fn move_to(&mut self, owner: &Owner, grown: Grown<'_>) -> Result<(), FilesError> {
        let system = owner.system();
        self.runs = grown.runs;
        let copied = system.copy(&grown.copies, &|| true);
        let former = grown.copies.into_iter().map(|(from, _)| from).collect();
        system.give_back_former(former, grown.returning);
        copied
    }

    /// The number of bytes so far.
    pub fn len(&self) -> ByteLen {
        ByteLen(self.done.0 + ByteLen::of(&self.piece).0)
    }

    /// Whether there are no bytes so far.
    pub fn is_empty(&self) -> bool {
        self.len() == ByteLen(0)
    }

    /// Appends bytes. After an error, only [`Self::abandon`] makes sense.
    ///
    /// # Errors
    /// When the volume is full or cannot be written, or the file becomes longer than its size.
    pub fn write(&mut self, owner: &Owner, bytes: &[u8]) -> Result<(), FilesError> {
        let end = ByteLen(self.len().0 + ByteLen::of(bytes).0);
        if let Some(expected) = self.options.size.filter(|size| end > *size) {
            return Err(FilesError::SourceLong { expected });
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.piece.is_empty() && rest.len() >= PIECE_LEN {
                let (whole, others) = rest.split_at(PIECE_LEN);
                self.store(owner, whole)?;
                rest = others;
                continue;
            }
            let (part, others) = rest.split_at(rest.len().min(PIECE_LEN - self.piece.len()));
            self.piece.extend_from_slice(part);
            rest = others;
            if self.piece.len() == PIECE_LEN {
                let piece = std::mem::take(&mut self.piece);
                self.store(owner, &piece)?;
                self.piece = piece;
                self.piece.clear();
            }
        }
        Ok(())
    }

    /// Writes whole blocks behind those that were written.
    fn store(&mut self, owner: &Owner, bytes: &[u8]) -> Result<(), FilesError> {
        let end = ByteLen(self.done.0 + ByteLen::of(bytes).0);
        if runs_len(&self.runs) < end {
            self.take_space(owner, end, Spare::Doubling)?;
        }
        let system = owner.system();
        let written = write_runs(&**system.disk(), &self.runs, bytes, ByteOffset(self.done.0));
        written.map_err(FilesError::disk(system.volume()))?;
        self.done = end;
        Ok(())
    }

    /// Makes the file part of the volume, durably. A file that it replaces is there, whole, until
    /// then.
    ///
    /// # Errors
    /// When the path is refused, or the volume is full or cannot be written. Then no file has been
    /// created or replaced, unless the commit failed.
    pub fn finish(mut self, owner: &Owner) -> Result<(InodeNumber, Inode), FilesError> {
        let created = self.store_last(owner).and_then(|size| self.create(owner, size));
        match created {
            Ok(created) => owner.system().sync_all().map(|()| created),
            Err(error) => {
                self.abandon(owner);
                Err(owner.settled(error))
            }
        }
    }

    /// Writes the rest, with zeroes to the end of the last block. Returns the size.
    fn store_last(&mut self, owner: &Owner) -> Result<ByteLen, FilesError> {
        let size = self.len();
        if let Some(expected) = self.options.size.filter(|expected| *expected != size) {
            return Err(FilesError::SourceShort { expected, read: size });
        }
        if self.runs.is_empty() {
            // A short file takes exactly the space that it needs.
            self.take_space(owner, size, Spare::None)?;
        }
        let mut piece = std::mem::take(&mut self.piece);
        let padded = piece.len().next_multiple_of(nearflash_units::index(BLOCK.bytes()));
        piece.resize(padded, 0);
        self.store(owner, &piece)?;
        // Its length is known now.
        let system = owner.system();
        match system.space_to_join(self.grower, &self.runs, system.joined_max()) {
            Some(grown) => self.move_to(owner, grown).map(|()| size),
            None => Ok(size),
        }
    }

    /// Gives the file its name. The commit that makes the name durable makes the bytes durable first.
    fn create(&mut self, owner: &Owner, size: ByteLen) -> Result<(InodeNumber, Inode), FilesError> {
        let system = owner.system();
        system.make_room()?;
        let created = system.apply_fresh(self.losses, |change| {
            let inode = Inode::new(Kind::File, permissions(FILE_MODE), change.now());
            let inode = Inode { size, runs: self.runs.clone(), ..inode };
            let place = locate(change.tables(), &self.path)?;
            change.create(place, inode, self.options.replace)
        })?;
        system.give_back(self.grower, Vec::new());
        Ok(created)
    }

    /// Gives the space back.
    pub fn abandon(self, owner: &Owner) {
        owner.system().give_back(self.grower, self.runs);
    }

    /// Appends the bytes of a source, to its end. It may have changed since its length was found.
    fn copy(
        &mut self,
        owner: &Owner,
        source: &mut dyn Read,
        progress: &mut dyn FnMut(ByteLen),
    ) -> Result<(), FilesError> {
        let expected = self.options.size.take();
        let mut piece = vec![0; PIECE_LEN];
        loop {
            let len = fill(source, &mut piece).map_err(FilesError::Source)?;
            if len == 0 {
                break;
            }
            self.write(owner, &piece[..len])?;
            progress(self.len());
        }
        if expected.is_some_and(|size| size > self.len()) {
            let (kept, lost) = trim(&self.runs, self.len());
            self.runs = kept;
            owner.system().give_back_former(lost, None);
        }
        Ok(())
    }
}

impl Owner {
    /// Creates a file with the bytes of `source`, and reports the length copied so far to
    /// `progress`. A file that it replaces is there, whole, until the new one is.
    ///
    /// # Errors
    /// When the path is refused, the source cannot be read, or the volume is full or cannot be
    /// written. Then no file has been created or replaced, unless the commit failed.
    pub fn put(
        &self,
        path: &Path,
        source: &mut dyn Read,
        options: Upload,
        progress: &mut dyn FnMut(ByteLen),
    ) -> Result<(InodeNumber, Inode), FilesError> {
        let mut pending = Pending::begin(self, path, options)?;
        match pending.copy(self, source, progress) {
            Ok(()) => pending.finish(self),
            Err(error) => {
                pending.abandon(self);
                Err(error)
            }
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
