//! Copying the bytes of a new file into free blocks of a volume.

use std::io::{self, Read};

use nearflash_files::{BLOCK, Extended, NoSpaceError, Replace, Run, Spare, blocks_for, trim};
use nearflash_units::{ByteLen, ByteOffset};

use crate::files::PIECE_LEN;
use crate::metadata::{runs_len, write_runs};
use crate::{Disk, FilesError};

/// How a file is created.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Upload {
    /// The length of the source, if it is known: the file then gets exactly the space it needs.
    pub size: Option<ByteLen>,
    /// Whether an existing file is replaced.
    pub replace: Replace,
}

/// The free space of a volume.
pub(crate) trait Space {
    /// [`nearflash_files::extend`].
    fn extend(&self, runs: &[Run], needed: ByteLen, spare: Spare)
    -> Result<Extended, NoSpaceError>;

    /// Returns runs that were never part of a file.
    fn give_back(&self, runs: Vec<Run>);
}

/// The contents of a new file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Contents {
    pub(crate) size: ByteLen,
    pub(crate) runs: Vec<Run>,
}

/// The reason why the bytes could not be copied.
#[derive(Debug)]
pub(crate) enum CopyError {
    NoSpace(NoSpaceError),
    Short { expected: ByteLen, read: ByteLen },
    Source(io::Error),
    Disk(io::Error),
}

impl CopyError {
    pub(crate) fn in_volume(self, volume: &str) -> FilesError {
        match self {
            Self::NoSpace(error) => FilesError::NoSpace { volume: volume.to_owned(), error },
            Self::Short { expected, read } => FilesError::SourceShort { expected, read },
            Self::Source(error) => FilesError::Source(error),
            Self::Disk(error) => FilesError::disk(volume)(error),
        }
    }
}

/// Copies `source` into free blocks. If it fails, it returns them.
pub(crate) fn copy(
    disk: &dyn Disk,
    space: &dyn Space,
    source: &mut dyn Read,
    size: Option<ByteLen>,
    progress: &mut dyn FnMut(ByteLen),
) -> Result<Contents, CopyError> {
    let mut runs = Vec::new();
    let copied = match size {
        Some(size) => space
            .extend(&[], size, Spare::None)
            .map_err(CopyError::NoSpace)
            .map(|extended| runs = extended.runs)
            .and_then(|()| copy_known(disk, &runs, source, size, progress))
            .map(|()| size),
        None => copy_unknown((disk, space), &mut runs, source, progress),
    };
    let (kept, lost) = trim(&runs, *copied.as_ref().unwrap_or(&ByteLen(0)));
    space.give_back(lost);
    copied.map(|size| Contents { size, runs: kept })
}

fn copy_known(
    disk: &dyn Disk,
    runs: &[Run],
    source: &mut dyn Read,
    size: ByteLen,
    progress: &mut dyn FnMut(ByteLen),
) -> Result<(), CopyError> {
    let mut piece = Piece::new(blocks_for(size).0.saturating_mul(u64::from(BLOCK.bytes())));
    let mut source = source.take(size.0);
    let mut done = ByteLen(0);
    while done < size {
        let read = piece.fill(&mut source).map_err(CopyError::Source)?;
        if read.0 == 0 {
            return Err(CopyError::Short { expected: size, read: done });
        }
        piece.write(disk, runs, done).map_err(CopyError::Disk)?;
        done.0 += read.0;
        progress(done);
    }
    Ok(())
}

/// Only whole pieces precede the last one, so runs have whole MiB, and no end of one is moved.
fn copy_unknown(
    (disk, space): (&dyn Disk, &dyn Space),
    runs: &mut Vec<Run>,
    source: &mut dyn Read,
    progress: &mut dyn FnMut(ByteLen),
) -> Result<ByteLen, CopyError> {
    let mut piece = Piece::new(u64::MAX);
    let mut done = ByteLen(0);
    loop {
        let read = piece.fill(source).map_err(CopyError::Source)?;
        if read.0 == 0 {
            return Ok(done);
        }
        let needed = ByteLen(done.0 + read.0);
        if runs_len(runs) < needed {
            let extended = space.extend(runs, needed, Spare::Doubling);
            *runs = extended.map_err(CopyError::NoSpace)?.runs;
        }
        piece.write(disk, runs, done).map_err(CopyError::Disk)?;
        done.0 += read.0;
        progress(done);
    }
}

/// The bytes between the source and the volume. Only the last piece of a file is not full.
struct Piece {
    bytes: Vec<u8>,
    len: usize,
}

impl Piece {
    /// A piece for files of at most `len_max` bytes.
    fn new(len_max: u64) -> Self {
        let len = usize::try_from(len_max).map_or(PIECE_LEN, |len_max| len_max.min(PIECE_LEN));
        Self { bytes: vec![0; len], len: 0 }
    }

    /// Reads from the source until the piece is full or the source ends.
    fn fill(&mut self, source: &mut dyn Read) -> io::Result<ByteLen> {
        self.len = 0;
        while self.len < self.bytes.len() {
            match source.read(&mut self.bytes[self.len..]) {
                Ok(0) => break,
                Ok(read) => self.len += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(ByteLen::from_usize(self.len))
    }

    /// Writes the piece at `offset` of the runs, with zeroes to the end of its last block.
    fn write(&mut self, disk: &dyn Disk, runs: &[Run], offset: ByteLen) -> io::Result<()> {
        let block = nearflash_units::index(BLOCK.bytes());
        let end = self.len.next_multiple_of(block);
        self.bytes[self.len..end].fill(0);
        write_runs(disk, runs, &self.bytes[..end], ByteOffset(offset.0))
    }
}
