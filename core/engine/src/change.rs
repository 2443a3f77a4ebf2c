//! Changes to partial blocks: the blocks of a range that must be read first, and their new bytes.

use nearflash_request::{BlockRange, Operation};
use nearflash_units::{BlockSize, Blocks, ByteLen, Lba};

/// The new bytes of a range; the other bytes of its first and last block are kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Part {
    /// The offset of the new bytes in the range; less than a block.
    pub(crate) skip: u32,
    /// The number of new bytes; they end in the last block.
    pub(crate) len: u32,
}

/// The blocks that are partly kept, in order: none, one or two.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Kept {
    pub(crate) first: Option<BlockRange>,
    pub(crate) last: Option<BlockRange>,
}

impl Part {
    /// Whether it is a valid part: begins in the first block, ends in the last, and is not empty.
    pub(crate) fn fits(self, block_size: BlockSize, range_len: ByteLen) -> bool {
        let (block, end) = (u64::from(block_size.bytes()), self.end());
        self.len > 0
            && u64::from(self.skip) < block
            && end <= range_len.0
            && end + block > range_len.0
    }

    fn end(self) -> u64 {
        u64::from(self.skip) + u64::from(self.len)
    }

    /// The blocks of the range to read. One that is both the first and the last is the first.
    pub(crate) fn kept(self, block_size: BlockSize, range: BlockRange) -> Kept {
        let block = |lba| BlockRange { start: Lba(lba), count: Blocks(1) };
        let is_one = range.count == Blocks(1);
        let ends_within = !self.end().is_multiple_of(u64::from(block_size.bytes()));
        let first = self.skip > 0 || (is_one && ends_within);
        let last = ends_within && !is_one;
        Kept {
            first: first.then(|| block(range.start.0)),
            last: last.then(|| block(range.start.0 + range.count.0 - 1)),
        }
    }

    /// Puts the kept bytes around the new ones. `payload` holds the range, and `found` the kept
    /// blocks.
    pub(crate) fn fill(self, block_size: BlockSize, payload: &mut [u8], found: &[u8]) {
        let block = ByteLen(u64::from(block_size.bytes())).to_usize();
        let (skip, end) = (ByteLen(self.skip.into()).to_usize(), ByteLen(self.end()).to_usize());
        payload[..skip].copy_from_slice(&found[..skip]);
        let tail = payload.len() - end;
        if tail > 0 {
            let is_in_first = skip == 0 || payload.len() == block;
            let from = if is_in_first { block } else { 2 * block };
            payload[end..].copy_from_slice(&found[from - tail..from]);
        }
    }
}

impl Kept {
    pub(crate) fn iter(self) -> impl Iterator<Item = BlockRange> {
        self.first.into_iter().chain(self.last)
    }
}

/// The new value of a word after an atomic operation; `None` if the word stays unchanged.
pub(crate) fn new_word(operation: &Operation, word: u64) -> Option<u64> {
    match *operation {
        Operation::CompareAndSwap { expected, new, .. } => (word == expected).then_some(new),
        Operation::FetchAdd { addend, .. } => Some(word.wrapping_add(addend)),
        _ => unreachable!("other operations change no word"),
    }
}

/// The offset of the first difference between two slices of the same length.
pub(crate) fn first_difference(a: &[u8], b: &[u8]) -> Option<u64> {
    // Equality is compared by whole words.
    if a == b {
        return None;
    }
    let at = a.iter().zip(b).position(|(a, b)| a != b)?;
    Some(ByteLen::from_usize(at).0)
}

/// The word at `offset`.
pub(crate) fn word_mut(block: &mut [u8], offset: u32) -> &mut [u8; 8] {
    let start = ByteLen(offset.into()).to_usize();
    let bytes = block[start..].first_chunk_mut();
    bytes.expect("a word that does not lie in its block was refused")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCK: usize = 512;

    #[test]
    fn a_word_changes_as_asked_and_sums_wrap() {
        let (word, force_unit_access) = (0, false);
        let swap = Operation::CompareAndSwap { word, expected: 1, new: 7, force_unit_access };
        assert_eq!((new_word(&swap, 1), new_word(&swap, 2)), (Some(7), None));
        let add = Operation::FetchAdd { word, addend: 2, force_unit_access };
        assert_eq!(new_word(&add, u64::MAX), Some(1));
    }

    proptest! {
        /// For every part, the range ends up as the old bytes overwritten by the new ones, and only
        /// blocks with kept bytes are read.
        #[test]
        fn what_is_not_new_is_kept(skip in 0u32..512, len in 1u32..2000) {
            let part = Part { skip, len };
            let (start, end) = (ByteLen(skip.into()).to_usize(), ByteLen(part.end()).to_usize());
            let count = end.div_ceil(BLOCK);
            let old: Vec<u8> = (0..count * BLOCK).map(|i| u8::try_from(i % 251).unwrap()).collect();
            let range = BlockRange { start: Lba(10), count: Blocks(count as u64) };
            prop_assert!(part.fits(BlockSize::B512, ByteLen::of(&old)));
            let kept = part.kept(BlockSize::B512, range);
            let mut found = Vec::new();
            for block in kept.iter() {
                let at = usize::try_from(block.start.0 - 10).unwrap() * BLOCK;
                found.extend_from_slice(&old[at..at + BLOCK]);
            }
            let aligned = usize::from(start > 0) + usize::from(end % BLOCK > 0);
            prop_assert_eq!(kept.iter().count(), aligned.min(count));
            let mut payload = vec![0xA5; old.len()];
            payload[start..end].fill(0xEE);
            part.fill(BlockSize::B512, &mut payload, &found);
            let mut expected = old;
            expected[start..end].fill(0xEE);
            prop_assert_eq!(payload, expected);
        }
    }
}
