//! Files whose bytes arrive in pieces. Several can be written at the same time, by several threads:
//! the owner is locked only while space is taken and while a file is committed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearflash_files::{
    BLOCK, Contents, Growth, Inode, InodeNumber, Path, Replace, Run, allocate, blocks_for,
};
use nearflash_units::ByteLen;

use super::Owner;
use crate::files::PIECE_LEN;
use crate::metadata::places;
use crate::{FilesError, Upload};

/// A file that is not part of the volume yet. Its space is taken until [`Self::finish`] or
/// [`Self::abandon`], at most until the owner ends.
#[derive(Debug)]
pub struct Pending {
    path: Path,
    replace: Replace,
    space: Space,
    /// The bytes that were written to the volume: a multiple of the block until the end.
    done: ByteLen,
    /// The bytes after them.
    piece: Vec<u8>,
}

#[derive(Debug)]
enum Space {
    Known { size: ByteLen, runs: Vec<Run> },
    Growing(Growth),
}

impl Space {
    fn runs(&self) -> &[Run] {
        match self {
            Self::Known { runs, .. } => runs,
            Self::Growing(growth) => growth.runs(),
        }
    }
}

fn lock(owner: &Mutex<Owner>) -> MutexGuard<'_, Owner> {
    // An owner that has panicked in a commit refuses the next one by itself.
    owner.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pending {
    /// Begins a file. Nothing of it is visible before [`Self::finish`].
    ///
    /// # Errors
    /// When the path is refused, or the volume is full.
    pub fn begin(owner: &Mutex<Owner>, path: &Path, options: Upload) -> Result<Self, FilesError> {
        let mut owner = lock(owner);
        owner.refuse_early(path, options.replace)?;
        owner.ensure_room_for_metadata()?;
        let space = match options.size {
            None => Space::Growing(Growth::default()),
            Some(size) => {
                let volume = owner.files.volume().to_owned();
                let runs = allocate(&mut owner.free, size);
                let runs = runs.map_err(|error| FilesError::NoSpace { volume, error })?;
                Space::Known { size, runs }
            }
        };
        let (path, replace) = (path.clone(), options.replace);
        Ok(Self { path, replace, space, done: ByteLen(0), piece: Vec::new() })
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
    pub fn write(&mut self, owner: &Mutex<Owner>, bytes: &[u8]) -> Result<(), FilesError> {
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
    fn store(&mut self, owner: &Mutex<Owner>, bytes: &[u8]) -> Result<(), FilesError> {
        let end = ByteLen(self.done.0 + ByteLen::of(bytes).0);
        let disk = {
            let mut owner = lock(owner);
            let owner = &mut *owner;
            if let Space::Growing(growth) = &mut self.space {
                while growth.len() < end {
                    let volume = || owner.files.volume().to_owned();
                    let grown = growth.grow(&mut owner.free);
                    grown.map_err(|error| FilesError::NoSpace { volume: volume(), error })?;
                }
            }
            Arc::clone(owner.files.metadata().disk())
        };
        let volume = disk.properties().name;
        let failed = FilesError::disk(&volume);
        let mut rest = bytes;
        let parts = places(self.space.runs(), self.done.0, ByteLen::of(rest));
        for (place, len) in parts.map_err(&failed)? {
            let (part, others) = rest.split_at(len.to_usize());
            disk.write_at(part, place).map_err(&failed)?;
            rest = others;
        }
        self.done = end;
        Ok(())
    }

    /// Makes the file part of the volume, durably. A file that it replaces is there, whole, until
    /// then.
    ///
    /// # Errors
    /// When the path is refused, or the volume is full or cannot be written. Then no file has been
    /// created or replaced, unless the commit failed.
    pub fn finish(mut self, owner: &Mutex<Owner>) -> Result<(InodeNumber, Inode), FilesError> {
        let stored = self.store_last(owner);
        match stored {
            Ok(size) => lock(owner).create(self, size),
            Err(error) => {
                self.abandon(owner);
                Err(error)
            }
        }
    }

    /// Writes the rest, with zeroes to the end of the last block, and flushes. Returns the size.
    fn store_last(&mut self, owner: &Mutex<Owner>) -> Result<ByteLen, FilesError> {
        let size = self.len();
        let mut piece = std::mem::take(&mut self.piece);
        match &mut self.space {
            Space::Known { size: expected, .. } if *expected != size => {
                return Err(FilesError::SourceShort { expected: *expected, read: size });
            }
            // A short file takes exactly the space that it needs.
            space @ Space::Growing(_) if self.done.0 == 0 => {
                let mut owner = lock(owner);
                let runs = allocate(&mut owner.free, size);
                let volume = || owner.files.volume().to_owned();
                let runs = runs.map_err(|error| FilesError::NoSpace { volume: volume(), error })?;
                *space = Space::Known { size, runs };
            }
            _ => {}
        }
        let padded = piece.len().next_multiple_of(nearflash_units::index(BLOCK.bytes()));
        piece.resize(padded, 0);
        self.store(owner, &piece)?;
        let disk = Arc::clone(lock(owner).files.metadata().disk());
        disk.flush().map_err(FilesError::disk(&disk.properties().name))?;
        Ok(size)
    }

    /// Gives the space back.
    pub fn abandon(self, owner: &Mutex<Owner>) {
        let mut owner = lock(owner);
        match self.space {
            Space::Known { runs, .. } => runs.into_iter().for_each(|run| owner.free.release(run)),
            Space::Growing(growth) => growth.abandon(&mut owner.free),
        }
    }
}

impl Owner {
    /// Commits a file whose bytes are durable.
    fn create(
        &mut self,
        pending: Pending,
        size: ByteLen,
    ) -> Result<(InodeNumber, Inode), FilesError> {
        let Pending { path, replace, space, .. } = pending;
        let runs = match space {
            Space::Known { runs, .. } => runs,
            Space::Growing(growth) => growth.finish(size, &mut self.free),
        };
        debug_assert!(runs.iter().map(|run| run.count.0).sum::<u64>() >= blocks_for(size).0);
        let contents = Contents { size, runs: runs.clone() };
        let created = self.ensure_room_for_metadata().and_then(|()| {
            self.commit(|batch, now| nearflash_files::create(batch, &path, contents, replace, now))
        });
        // After a commit of unknown effect, the blocks may belong to the file.
        if created.is_err() && !self.is_uncertain {
            runs.into_iter().for_each(|run| self.free.release(run));
        }
        created?;
        self.files.stat(&path)
    }
}
