//! Self-describing blocks: a torn, misplaced or foreign block is recognized by its contents.

/// The contents of a block: its address, and the number of the write.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Stamp {
    /// The address of the block.
    pub lba: u64,
    /// Grows with each write of the block; 0 is never written.
    pub sequence: u64,
}

impl Stamp {
    /// Fills one block, or several in a row.
    pub fn fill(self, bytes: &mut [u8]) {
        for (index, word) in (0..).zip(bytes.chunks_exact_mut(8)) {
            word.copy_from_slice(&self.word(index).to_le_bytes());
        }
    }

    /// A block filled with the stamp.
    pub fn block(self, len: usize) -> Vec<u8> {
        let mut block = vec![0; len];
        self.fill(&mut block);
        block
    }

    /// The stamp of a valid block; `None` for any other, including a block of zeroes.
    pub fn of(block: &[u8]) -> Option<Self> {
        let word = |index: usize| {
            let bytes = block.get(index * 8..index * 8 + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let stamp = Self { lba: word(0)?, sequence: word(1)? };
        let is_whole = (0..)
            .zip(block.chunks_exact(8))
            .all(|(index, bytes)| bytes == stamp.word(index).to_le_bytes());
        (is_whole && stamp.sequence > 0).then_some(stamp)
    }

    fn word(self, index: u64) -> u64 {
        match index {
            0 => self.lba,
            1 => self.sequence,
            _ => (self.lba ^ self.sequence.rotate_left(32))
                .wrapping_mul(0x9E37_79B9_7F4A_7C15 + 2 * index),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_two_writes_is_no_block() {
        let old = Stamp { lba: 7, sequence: 1 };
        let new = Stamp { lba: 7, sequence: 2 };
        assert_eq!(Stamp::of(&old.block(4096)), Some(old));
        let mut torn = new.block(4096);
        torn[3584..].copy_from_slice(&old.block(4096)[3584..]);
        assert_eq!(Stamp::of(&torn), None);
        assert_eq!(Stamp::of(&[0; 4096]), None);
    }
}
