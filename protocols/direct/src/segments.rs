//! Splits a range of a volume's bytes into segments, at every multiple of [`SEGMENT_LEN_MAX`].
//!
//! A segment that is widened to whole blocks does not exceed [`SEGMENT_LEN_MAX`] either, because
//! the size of a block divides it.

use crate::wire::SEGMENT_LEN_MAX;

/// A part of a request's range.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Segment {
    /// The offset of its first byte in the range.
    pub start: u32,
    /// Its length in bytes.
    pub len: u32,
}

const LEN_MAX: u64 = 1 << SEGMENT_LEN_MAX.trailing_zeros();

/// The number of segments of `len` bytes at `offset`.
#[inline]
pub fn count(offset: u64, len: u32) -> u32 {
    let into_first = offset % LEN_MAX;
    let all = (into_first + u64::from(len)).div_ceil(LEN_MAX);
    u32::try_from(all).expect("below 2^32 bytes are below 2^13 segments")
}

/// The segment with this number, which is below [`count`], of `len` bytes at `offset`.
#[inline]
pub fn segment(offset: u64, len: u32, number: u32) -> Segment {
    let into_first = offset % LEN_MAX;
    let end = u64::from(len).min(LEN_MAX * (u64::from(number) + 1) - into_first);
    let start = (LEN_MAX * u64::from(number)).saturating_sub(into_first);
    let narrow = |at: u64| u32::try_from(at).expect("within a range of below 2^32 bytes");
    Segment { start: narrow(start), len: narrow(end - start) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_lies_between_two_multiples_is_one_segment() {
        assert_eq!(count(0, SEGMENT_LEN_MAX), 1);
        assert_eq!(count(4096, SEGMENT_LEN_MAX - 4096), 1);
        assert_eq!(segment(4096, 8192, 0), Segment { start: 0, len: 8192 });
    }

    #[test]
    fn a_byte_past_a_multiple_is_a_segment_of_its_own() {
        assert_eq!(count(1, SEGMENT_LEN_MAX), 2);
        assert_eq!(segment(1, SEGMENT_LEN_MAX, 0), Segment { start: 0, len: SEGMENT_LEN_MAX - 1 });
        assert_eq!(segment(1, SEGMENT_LEN_MAX, 1), Segment { start: SEGMENT_LEN_MAX - 1, len: 1 });
    }

    proptest! {
        /// Segments follow each other and cover the range, and none crosses a multiple.
        #[test]
        fn segments_cover_the_range_and_cross_no_multiple(
            offset in 0u64..u64::MAX - u64::from(u32::MAX), len in 1u32..=u32::MAX
        ) {
            let mut next = 0;
            let count = count(offset, len);
            for number in (0..count.min(20)).chain(20.max(count - 1)..count) {
                let part = segment(offset, len, number);
                if number < 20 {
                    prop_assert_eq!(part.start, next);
                }
                next = part.start.wrapping_add(part.len);
                prop_assert!(part.len > 0 && part.len <= SEGMENT_LEN_MAX);
                let first = offset + u64::from(part.start);
                let last = first + u64::from(part.len) - 1;
                prop_assert_eq!(first / LEN_MAX, last / LEN_MAX);
            }
            prop_assert_eq!(next, len);
        }
    }
}
