//! The blocks of the range that a job has written, whose contents reads can be verified against.

use nearflash_units::{ByteLen, ByteOffset};

use crate::workload::{Direction, Op};

/// One bit per operation of the range.
pub(super) struct Written {
    words: Vec<u64>,
    offset: ByteOffset,
    op_len: ByteLen,
}

impl Written {
    pub(super) fn new(offset: ByteOffset, range_len: ByteLen, op_len: ByteLen) -> Self {
        let words = range_len.0.div_ceil(op_len.0).div_ceil(64);
        Self { words: vec![0; ByteLen(words).to_usize()], offset, op_len }
    }

    pub(super) fn set(&mut self, at: ByteOffset) {
        let (word, bit) = self.place(at);
        self.words[word] |= bit;
    }

    pub(super) fn contains(&self, at: ByteOffset) -> bool {
        let (word, bit) = self.place(at);
        self.words[word] & bit != 0
    }

    /// Reads of all written blocks, in ascending order.
    pub(super) fn reads(&self) -> impl Iterator<Item = Op> + '_ {
        let ends = (0u64..).zip(&self.words);
        ends.filter(|(_, word)| **word != 0).flat_map(move |(index, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| Op {
                direction: Direction::Read,
                offset: ByteOffset(self.offset.0 + (index * 64 + bit) * self.op_len.0),
                len: self.op_len,
            })
        })
    }

    fn place(&self, at: ByteOffset) -> (usize, u64) {
        let index = (at.0 - self.offset.0) / self.op_len.0;
        (ByteLen(index / 64).to_usize(), 1 << (index % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_written_blocks_are_read_back() {
        let mut written = Written::new(ByteOffset(512), ByteLen(512 * 200), ByteLen(512));
        let offsets = [512, 512 * 64, 512 * 65, 512 * 200];
        for offset in offsets {
            assert!(!written.contains(ByteOffset(offset)));
            written.set(ByteOffset(offset));
            assert!(written.contains(ByteOffset(offset)));
        }
        let read: Vec<u64> = written.reads().map(|op| op.offset.0).collect();
        assert_eq!(read, offsets);
    }
}
