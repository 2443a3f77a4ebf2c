//! Copying the bytes of a new file into free blocks of a volume.

use std::io::{self, Read};

use nearflash_files::{
    BLOCK, Contents, FreeRuns, Growth, NoSpaceError, Replace, Run, allocate, blocks_for,
};
use nearflash_units::ByteLen;

use crate::files::PIECE_LEN;
use crate::metadata::places;
use crate::{Disk, FilesError};

/// How a file is created.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Upload {
    /// The length of the source, if it is known: the file then gets exactly the space it needs.
    pub size: Option<ByteLen>,
    /// Whether an existing file is replaced.
    pub replace: Replace,
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

/// Copies `source` into blocks that it takes from `free`. If it fails, it returns them.
pub(crate) fn copy(
    disk: &dyn Disk,
    free: &mut FreeRuns,
    source: &mut dyn Read,
    size: Option<ByteLen>,
    progress: &mut dyn FnMut(ByteLen),
) -> Result<Contents, CopyError> {
    match size {
        Some(size) => {
            let runs = allocate(free, size).map_err(CopyError::NoSpace)?;
            let copied = copy_known(disk, &runs, source, size, progress);
            match copied {
                Ok(()) => Ok(Contents { size, runs }),
                Err(error) => {
                    runs.into_iter().for_each(|run| free.release(run));
                    Err(error)
                }
            }
        }
        None => {
            let mut growth = Growth::default();
            match copy_unknown(disk, &mut growth, free, source, progress) {
                Ok(size) => Ok(Contents { size, runs: growth.finish(size, free) }),
                Err(error) => {
                    growth.abandon(free);
                    Err(error)
                }
            }
        }
    }
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

fn copy_unknown(
    disk: &dyn Disk,
    growth: &mut Growth,
    free: &mut FreeRuns,
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
        while growth.len().0 < done.0 + read.0 {
            growth.grow(free).map_err(CopyError::NoSpace)?;
        }
        piece.write(disk, growth.runs(), done).map_err(CopyError::Disk)?;
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
        let mut rest = &self.bytes[..end];
        for (place, len) in places(runs, offset.0, ByteLen::of(rest))? {
            let (part, others) = rest.split_at(len.to_usize());
            disk.write_at(part, place)?;
            rest = others;
        }
        Ok(())
    }
}
