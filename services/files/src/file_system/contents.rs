//! The bytes of open files: reading, writing, growing and cutting.

use std::sync::{Arc, RwLockWriteGuard};

use nearflash_files::{FILE_LEN_MAX, InodeNumber, Refusal, Run, Spare, inode, trim, without};
use nearflash_units::{ByteLen, ByteOffset};

use super::FileSystem;
use super::growth::{Grown, Returning};
use super::open_files::{Contents, OpenFile};
use crate::FilesError;
use crate::metadata::{read_runs, runs_len, write_runs, zero_runs};

/// The effect of fallocate(2) on a range.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Allocation {
    /// Space is taken, and the file is extended.
    Extend,
    /// `FALLOC_FL_KEEP_SIZE`: space is taken.
    KeepSize,
    /// `FALLOC_FL_PUNCH_HOLE`, or `FALLOC_FL_ZERO_RANGE` with `FALLOC_FL_KEEP_SIZE`: the range reads as
    /// zeroes. The file keeps its space.
    Zero,
    /// `FALLOC_FL_ZERO_RANGE`: the range reads as zeroes, and the file is extended.
    ZeroAndExtend,
}

impl FileSystem {
    /// Reads from an open file, and returns the number of bytes: fewer at the end of the file.
    ///
    /// # Errors
    /// When the inode is not an open file, the first byte was lost with a connection, or the volume cannot
    /// be read.
    pub fn read(
        &self,
        number: InodeNumber,
        bytes: &mut [u8],
        offset: ByteOffset,
    ) -> Result<usize, FilesError> {
        let file = self.open_regular(number)?;
        // Held until the bytes are read: its blocks do not become another file's meanwhile.
        let contents = file.contents();
        let left = ByteLen(contents.size.0.saturating_sub(offset.0));
        let asked = offset.0..offset.0.saturating_add(ByteLen::of(bytes).0);
        let readable = file.lost.readable(&asked).ok_or_else(|| self.lost())?;
        let len = left.min(ByteLen(readable)).to_usize();
        let read = read_runs(&**self.disk(), &contents.runs, &mut bytes[..len], offset);
        read.map_err(FilesError::disk(self.volume()))?;
        Ok(len)
    }

    /// Writes to an open file, which grows if the bytes end behind its end.
    ///
    /// # Errors
    /// When the inode is not an open file, the volume is full or cannot be written.
    pub fn write(
        &self,
        number: InodeNumber,
        bytes: &[u8],
        offset: ByteOffset,
    ) -> Result<(), FilesError> {
        let file = self.open_regular(number)?;
        let end = end_of(offset, ByteLen::of(bytes))?;
        {
            let contents = file.contents();
            let is_lost = file.lost.meets(&(offset.0..end));
            if end <= contents.size.0 && end <= runs_len(&contents.runs).0 && !is_lost {
                let losses = self.disk().losses();
                let written = write_runs(&**self.disk(), &contents.runs, bytes, offset);
                file.mark_written(losses, &written);
                return written.map_err(FilesError::disk(self.volume()));
            }
        }
        self.extending(&file)?.write(bytes, offset)
    }

    /// Writes at the end of an open file, and returns the offset of the bytes.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn append(&self, number: InodeNumber, bytes: &[u8]) -> Result<ByteOffset, FilesError> {
        let file = self.open_regular(number)?;
        let mut extending = self.extending(&file)?;
        let offset = ByteOffset(extending.end());
        end_of(offset, ByteLen::of(bytes))?;
        extending.write(bytes, offset)?;
        Ok(offset)
    }

    /// Extends an open file by `len` zeroes, and returns their offset: the place for bytes that come in
    /// several writes.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn append_space(
        &self,
        number: InodeNumber,
        len: ByteLen,
    ) -> Result<ByteOffset, FilesError> {
        let file = self.open_regular(number)?;
        let mut extending = self.extending(&file)?;
        let offset = ByteOffset(extending.end());
        extending.make_space(end_of(offset, len)?)?;
        Ok(offset)
    }

    /// Takes space for a range of an open file, or zeroes the range.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn allocate(
        &self,
        number: InodeNumber,
        offset: ByteOffset,
        len: ByteLen,
        allocation: Allocation,
    ) -> Result<(), FilesError> {
        let file = self.open_regular(number)?;
        let end = end_of(offset, len)?;
        let mut extending = self.extending(&file)?;
        match allocation {
            Allocation::KeepSize => extending.reserve(end),
            Allocation::Extend => extending.reserve(end).and_then(|()| extending.extend(end)),
            Allocation::Zero => extending.zero(offset.0, end),
            Allocation::ZeroAndExtend => {
                extending.reserve(end)?;
                extending.zero(offset.0, end)?;
                extending.extend(end)
            }
        }
    }

    /// Sets the length of a file: truncate(2). Space that was reserved behind the end is free then, also if the
    /// length stays the same.
    pub(super) fn truncate(&self, file: &Arc<OpenFile>, size: ByteLen) -> Result<(), FilesError> {
        end_of(ByteOffset(0), size)?;
        let mut extending = self.extending(file)?;
        let contents = &extending.contents;
        let is_reserved = size == contents.size && !trim(&contents.runs, size).1.is_empty();
        match size < contents.size || is_reserved {
            true => extending.cut(size),
            false => extending.extend(size.0),
        }?;
        file.lost.cut(size.0);
        Ok(())
    }

    /// Moves an open file of several runs to one, if a gap holds it, no more bytes are copied than these, and
    /// nobody else opens it meanwhile. Returns the number of bytes that were copied, if it has one run now.
    pub(super) fn join(
        &self,
        file: &OpenFile,
        copied_max: ByteLen,
    ) -> Result<Option<ByteLen>, FilesError> {
        let mut extending = self.extending(file)?;
        extending.is_for_user = false;
        let runs = &extending.contents.runs;
        let Some(grown) = self.space_to_join(file.grower, runs, copied_max) else {
            return Ok(None);
        };
        let copied = grown.copies.iter().map(|(from, _)| from.len().0).sum();
        let next = extending.moved(grown)?;
        extending.finish(next, Ok(()))?;
        Ok(Some(ByteLen(copied)))
    }

    /// A known loss is dealt with first: the files that go back are those that grew before it.
    fn extending<'f>(&'f self, file: &'f OpenFile) -> Result<Extending<'f>, FilesError> {
        let is_whole = self.is_whole(&*self.state()?);
        if !is_whole {
            self.heal()?;
        }
        let contents = file.contents_mut();
        let losses = self.disk().losses();
        Ok(Extending { files: self, file, contents, losses, is_for_user: true })
    }
}

/// The end of a range of a file.
fn end_of(offset: ByteOffset, len: ByteLen) -> Result<u64, FilesError> {
    let end = offset.0.checked_add(len.0).filter(|end| *end <= FILE_LEN_MAX.0);
    end.ok_or_else(|| Refusal::TooLong(FILE_LEN_MAX).into())
}

/// A file whose size or runs may change.
struct Extending<'f> {
    files: &'f FileSystem,
    file: &'f OpenFile,
    contents: RwLockWriteGuard<'f, Contents>,
    /// [`crate::Disk::losses`] before the bytes are written.
    losses: u64,
    /// Whether a user of the file waits for the change.
    is_for_user: bool,
}

impl<'f> Extending<'f> {
    fn write(&mut self, bytes: &[u8], offset: ByteOffset) -> Result<(), FilesError> {
        let (start, end) = (offset.0, offset.0 + ByteLen::of(bytes).0);
        let mut next = self.grown(end, Spare::Doubling)?;
        let disk = &**self.files.disk();
        // Bytes that the file has not had so far, before and behind those that are written.
        let valid = self.valid_end();
        let size = self.contents.size.0;
        let done = zero_runs(disk, &next.runs, valid, start)
            .and_then(|()| write_runs(disk, &next.runs, bytes, offset))
            .and_then(|()| zero_runs(disk, &next.runs, end.max(valid), size));
        self.file.mark_written(self.losses, &done);
        next.size = size.max(end);
        self.finish(next, done)?;
        self.file.lost.fill(&(start..end));
        Ok(())
    }

    /// The end of the file for programs that have it open.
    fn end(&self) -> u64 {
        self.contents.size.0.max(self.file.lost.end())
    }

    /// Takes space up to `end`, and keeps it when the file is closed.
    fn reserve(&mut self, end: u64) -> Result<(), FilesError> {
        let mut next = self.grown(end, Spare::None)?;
        let (valid, size) = (self.valid_end(), self.contents.size.0);
        let done = zero_runs(&**self.files.disk(), &next.runs, valid, size);
        self.file.mark_written(self.losses, &done);
        next.keeps_space = Some(true);
        self.finish(next, done)
    }

    /// Extends the file with space.
    fn make_space(&mut self, end: u64) -> Result<(), FilesError> {
        let mut next = self.grown(end, Spare::Doubling)?;
        next.size = next.size.max(end);
        let done = zero_runs(&**self.files.disk(), &next.runs, self.valid_end(), next.size);
        self.file.mark_modified();
        self.finish(next, done)
    }

    /// Extends the file, if it is shorter.
    fn extend(&mut self, size: u64) -> Result<(), FilesError> {
        let mut next = self.unchanged();
        next.size = next.size.max(size);
        let valid = self.valid_end();
        let done = zero_runs(&**self.files.disk(), &next.runs, valid, next.size);
        self.file.mark_written(self.losses, &done);
        self.finish(next, done)
    }

    fn zero(&mut self, start: u64, end: u64) -> Result<(), FilesError> {
        let end = end.min(self.contents.size.0);
        let zeroed = zero_runs(&**self.files.disk(), &self.contents.runs, start, end);
        self.file.mark_written(self.losses, &zeroed);
        zeroed.map_err(FilesError::disk(self.files.volume()))
    }

    fn cut(&mut self, size: ByteLen) -> Result<(), FilesError> {
        self.files.unseal(self.file.number)?;
        self.files.give_back(self.file.grower, Vec::new());
        let (runs, lost) = trim(&self.contents.runs, size);
        let mut next = self.unchanged();
        (next.size, next.runs, next.lost, next.keeps_space) = (size.0, runs, lost, Some(false));
        self.file.mark_modified();
        self.finish(next, Ok(()))
    }

    /// The end of the bytes that are those of the file. Its blocks behind it hold anything.
    fn valid_end(&self) -> u64 {
        self.contents.size.0.min(runs_len(&self.contents.runs).0)
    }

    fn unchanged(&self) -> Next<'f> {
        let (size, runs) = (self.contents.size.0, self.contents.runs.clone());
        Next { size, runs, lost: Vec::new(), keeps_space: None, returning: None }
    }

    /// The file with space up to `end`.
    fn grown(&self, end: u64, spare: Spare) -> Result<Next<'f>, FilesError> {
        let runs = &self.contents.runs;
        if runs_len(runs).0 >= end {
            return Ok(self.unchanged());
        }
        self.moved(self.files.grow(self.file.grower, runs, ByteLen(end), spare)?)
    }

    /// The file with these runs, to which its blocks are copied.
    fn moved(&self, grown: Grown<'f>) -> Result<Next<'f>, FilesError> {
        let mut next = self.unchanged();
        (next.runs, next.returning) = (grown.runs, grown.returning);
        if !grown.copies.is_empty() {
            // Bytes that are written through a seal from now on would not be copied.
            let unsealed = self.files.unseal(self.file.number);
            let is_wanted = || self.is_for_user || !self.file.is_shared();
            let copied = unsealed.and_then(|()| self.files.copy(&grown.copies, &is_wanted));
            if let Err(error) = copied {
                self.give_up(&next.runs);
                return Err(error);
            }
            next.lost.extend(grown.copies.into_iter().map(|(from, _)| from));
        }
        Ok(next)
    }

    /// Gives back the blocks of runs that do not become those of the file.
    fn give_up(&self, runs: &[Run]) {
        self.files.give_back(self.file.grower, without(runs, &self.contents.runs));
    }

    /// Gives the file its new size and runs, unless the bytes could not be written.
    fn finish(&mut self, next: Next<'f>, done: std::io::Result<()>) -> Result<(), FilesError> {
        // The file moves until its former place is among the freed blocks.
        let Next { size, runs, lost, keeps_space, returning: _returning } = next;
        let size = ByteLen(size);
        let done = done.map_err(FilesError::disk(self.files.volume()));
        let is_same = size == self.contents.size && runs == self.contents.runs;
        if done.is_ok() && is_same && keeps_space.is_none() {
            return Ok(());
        }
        let changed = done.and_then(|()| self.store(size, &runs, lost, keeps_space));
        match changed {
            Ok(group) => {
                *self.contents = Contents { size, runs, group };
                self.file.mark_size(size);
                Ok(())
            }
            Err(error) => {
                self.give_up(&runs);
                Err(error)
            }
        }
    }

    /// Stores the size and the runs. Returns the group of the change.
    fn store(
        &self,
        size: ByteLen,
        runs: &[Run],
        lost: Vec<Run>,
        keeps_space: Option<bool>,
    ) -> Result<u64, FilesError> {
        let number = self.file.number;
        self.files.make_room()?;
        let mut state = self.files.state()?;
        if self.files.disk().losses() != self.losses {
            // The bytes may be lost, and their blocks hold those of a removed file.
            return Err(self.files.lost());
        }
        state.losses.mark_fresh(number, size.min(self.contents.size));
        let has_only_moved = size == self.contents.size
            && runs_len(runs) == runs_len(&self.contents.runs)
            && keeps_space.is_none();
        self.files.apply_to(&mut state, |change| {
            let mut inode = inode(change.tables(), number)?;
            if inode.runs != runs {
                inode.version = inode.version.checked_add(1).unwrap_or(1);
            }
            (inode.size, inode.runs) = (size, runs.to_vec());
            inode.keeps_space = keeps_space.unwrap_or(inode.keeps_space);
            if !has_only_moved {
                inode.touch(change.now());
            }
            change.free(lost);
            change.put(number, &inode)
        })?;
        Ok(state.group)
    }
}

/// The size and the place of a file after a change.
struct Next<'f> {
    size: u64,
    runs: Vec<Run>,
    /// The blocks that it loses.
    lost: Vec<Run>,
    keeps_space: Option<bool>,
    /// Whether it moves.
    returning: Option<Returning<'f>>,
}
