//! Long calls are cut into pieces. Blocks stay whole: a write is atomic for each of them.

use std::ops::Range;

/// A part of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// The start within the call's bytes.
    pub(super) start: usize,
    pub(super) len: usize,
}

impl Piece {
    /// The offset in the volume of a piece of a call at `offset`. An offset past the address space
    /// saturates: it is past the volume's end, too, and the node refuses it.
    pub(super) fn offset(self, offset: u64) -> u64 {
        behind(offset, self.start)
    }
}

/// The offset after `len` bytes at `offset`.
pub(super) fn behind(offset: u64, len: usize) -> u64 {
    offset.saturating_add(u64::try_from(len).expect("usize is at most 64 bits wide"))
}

/// The part of a call's `left` bytes from `at` up to the next multiple of `step`, a power of 2.
pub(super) fn part(at: u64, left: u64, step: u32) -> u64 {
    let step = u64::from(step);
    left.min(step - at % step)
}

/// The longest step that cuts no operation longer than `len_max`.
pub(super) fn step_of(len_max: u32) -> u32 {
    1 << len_max.max(1).ilog2()
}

/// The maximum number of bytes that one operation zeroes without sending them.
pub(super) const ZERO_LEN: u32 = 64 << 20;

/// The whole blocks within `len` bytes at `offset`, if there are any.
pub(super) fn whole_blocks(offset: u64, len: u64, block_size: u32) -> Option<Range<u64>> {
    let block_size = u64::from(block_size);
    let start = offset.checked_next_multiple_of(block_size)?;
    let end = offset.checked_add(len)? / block_size * block_size;
    (start < end).then_some(start..end)
}

/// Cuts a call into pieces, which end at multiples of `step`, a power of 2.
pub(super) struct Pieces {
    offset: u64,
    step: u32,
    start: usize,
    len: usize,
}

impl Pieces {
    pub(super) fn new(offset: u64, len: usize, step: u32) -> Self {
        Self { offset, step, start: 0, len }
    }
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let left = u64::try_from(self.len - self.start).expect("usize is at most 64 bits wide");
        let len = part(behind(self.offset, self.start), left, self.step);
        let len = usize::try_from(len).expect("at most what is left");
        let piece = Piece { start: self.start, len };
        self.start += piece.len;
        (piece.len > 0).then_some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Nothing that is left out is a whole block.
        #[test]
        fn whole_blocks_are_all_that_there_are(offset in 0u64..1 << 40, len in 0u64..1 << 20) {
            let end = offset + len;
            match whole_blocks(offset, len, 4096) {
                Some(blocks) => {
                    prop_assert!(blocks.start % 4096 == 0 && blocks.end % 4096 == 0);
                    prop_assert!(blocks.start - offset < 4096 && end - blocks.end < 4096);
                }
                None => prop_assert!(offset.next_multiple_of(4096) + 4096 > end),
            }
        }

        /// Pieces follow each other, cover the call, and never cross a multiple of the step.
        #[test]
        fn pieces_cover_the_call(offset in 0u64..1 << 40, len in 0usize..10 << 20, bits in 12..24) {
            let step = 1u32 << bits;
            let mut next = 0;
            for piece in Pieces::new(offset, len, step) {
                prop_assert_eq!(piece.start, next);
                next += piece.len;
                let first = piece.offset(offset);
                let last = first + u64::try_from(piece.len).unwrap() - 1;
                prop_assert_eq!(first / u64::from(step), last / u64::from(step));
            }
            prop_assert_eq!(next, len);
        }
    }
}
