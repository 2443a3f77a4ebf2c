//! A run: consecutive blocks of a volume.

use nearflash_units::{BlockSize, Blocks, ByteLen, ByteOffset, Lba, MIB};

/// The block of a volume of files: the unit in which space is allocated.
pub const BLOCK: BlockSize = BlockSize::B4096;

/// The number of blocks in 1 MiB. Runs of this length or more begin at a multiple of it, unless space is
/// short. The length of every run of a file except for its last is a multiple of it.
pub(crate) const ALIGNMENT: u64 = MIB >> BLOCK.shift();

/// The first block whose offset in bytes exceeds 64 bits. No run reaches it.
pub(crate) const BLOCK_END: u64 = 1 << (64 - BLOCK.shift());

/// Consecutive blocks of a volume.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Run {
    /// The first block.
    pub start: Lba,
    /// The number of blocks.
    pub count: Blocks,
}

impl Run {
    /// The run from `start` to `end`, which is not before `start`.
    pub(crate) fn between(start: u64, end: u64) -> Self {
        Self { start: Lba(start), count: Blocks(end - start) }
    }

    /// The run, if it has blocks and the offset of its end fits 64 bits.
    pub(crate) fn checked(start: u64, count: u64) -> Option<Self> {
        let end = start.checked_add(count)?;
        (count != 0 && end < BLOCK_END).then_some(Self { start: Lba(start), count: Blocks(count) })
    }

    /// The block behind the run.
    pub fn end(self) -> Lba {
        self.start.checked_add(self.count).expect("a run's end fits 64 bits")
    }

    /// The offset of the first byte in the volume.
    pub fn offset(self) -> ByteOffset {
        BLOCK.offset(self.start).expect("a run's offsets fit 64 bits")
    }

    /// The length in bytes.
    pub fn len(self) -> ByteLen {
        BLOCK.len(self.count).expect("a run's offsets fit 64 bits")
    }

    /// The first `count` blocks, which it has.
    pub(crate) fn first(self, count: u64) -> Self {
        Self { count: Blocks(count), ..self }
    }

    /// The blocks behind the first `count`, which it has.
    pub(crate) fn behind(self, count: u64) -> Self {
        Self::between(self.start.0 + count, self.end().0)
    }

    /// Whether the two runs share a block.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.start < other.end() && other.start < self.end()
    }

    /// Whether `other` lies in this run.
    pub(crate) fn contains(self, other: Self) -> bool {
        self.start <= other.start && other.end() <= self.end()
    }
}

/// The blocks of `runs` that are not among those of `others`, in the order of `runs`.
pub fn without(runs: &[Run], others: &[Run]) -> Vec<Run> {
    let mut left = runs.to_vec();
    for other in others {
        let cut = |run: Run| {
            let before = (run.start.0, run.end().0.min(other.start.0));
            let behind = (run.start.0.max(other.end().0), run.end().0);
            [before, behind].into_iter().filter(|(start, end)| start < end)
        };
        left =
            left.into_iter().flat_map(cut).map(|(start, end)| Run::between(start, end)).collect();
    }
    left
}

/// The number of blocks that hold `len` bytes.
pub fn blocks_for(len: ByteLen) -> Blocks {
    Blocks(len.0.div_ceil(u64::from(BLOCK.bytes())))
}
