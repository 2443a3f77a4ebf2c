//! The place of each block: two blocks with the copies of the header, and then groups of a block of checksums
//! and the blocks that they are of.
//!
//! `redb` sees the store without the checksums. Its first block, of number 0, is the header.

/// The length of a block, which is that of the smallest page of `redb`.
pub const BLOCK_LEN: usize = 4096;

/// [`BLOCK_LEN`] as a distance.
pub(crate) const BLOCK: u64 = 4096;

/// The blocks before the first group.
const HEADER_BLOCKS: u64 = 2;

/// The blocks of a group, and the checksums in its first block.
pub(crate) const SUMS: u64 = 512;

/// The place of a block that is not the header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Place {
    pub(crate) group: u64,
    /// The number of the block in its group.
    pub(crate) index: usize,
    /// The offset of its bytes below.
    pub(crate) offset: u64,
}

/// The place of a block from 1 on.
pub(crate) fn place(block: u64) -> Place {
    let (group, index) = ((block - 1) / SUMS, (block - 1) % SUMS);
    let offset = sums_offset(group) + (1 + index) * BLOCK;
    Place { group, index: usize::try_from(index).expect("less than 512"), offset }
}

/// The offset below of the checksums of a group.
pub(crate) fn sums_offset(group: u64) -> u64 {
    (HEADER_BLOCKS + group * (1 + SUMS)) * BLOCK
}

/// The length below of a store of this length; `None` if no store has it.
pub(crate) fn below_len(len: u64) -> Option<u64> {
    if len == 0 {
        return Some(0);
    }
    let blocks = (len / BLOCK).checked_sub(1).filter(|_| len.is_multiple_of(BLOCK))?;
    (HEADER_BLOCKS + blocks + blocks.div_ceil(SUMS)).checked_mul(BLOCK)
}

/// The length of the store that has this length below; `None` if none has.
pub(crate) fn len_above(below: u64) -> Option<u64> {
    if below == 0 {
        return Some(0);
    }
    let blocks = (below / BLOCK).checked_sub(HEADER_BLOCKS)?;
    let (groups, rest) = (blocks / (1 + SUMS), blocks % (1 + SUMS));
    let len = (1 + groups * SUMS + rest.saturating_sub(1)) * BLOCK;
    (below_len(len) == Some(below)).then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_has_one_length_below_and_the_reverse() {
        for blocks in (0..1500).chain([1 << 30]) {
            let below = below_len(blocks * BLOCK).unwrap();
            assert_eq!(len_above(below), Some(blocks * BLOCK));
            if blocks > 1 {
                assert_eq!(place(blocks - 1).offset + BLOCK, below, "the last block ends there");
            }
        }
        assert_eq!(below_len(BLOCK + 1), None);
        // A part of a block, a half of the header, and checksums without a block.
        for below in [1, BLOCK, 2 * BLOCK + 1, 3 * BLOCK, (2 + 513 + 1) * BLOCK] {
            assert_eq!(len_above(below), None, "{below}");
        }
    }

    #[test]
    fn blocks_and_checksums_lie_beside_each_other() {
        assert_eq!(place(1), Place { group: 0, index: 0, offset: 3 * BLOCK });
        assert_eq!(place(512), Place { group: 0, index: 511, offset: 514 * BLOCK });
        assert_eq!(sums_offset(1), 515 * BLOCK);
        assert_eq!(place(513), Place { group: 1, index: 0, offset: 516 * BLOCK });
    }
}
