//! The grants on one volume, compiled so that one lookup decides whether a request is allowed.
//!
//! Grants may overlap or touch, and have no order. The compiled form has, for each right, the
//! disjoint ranges that a grant covers, so a request is allowed exactly if it lies within one of
//! them. A table over equal parts of the volume finds the range; a search is needed only if many
//! ranges fall into one part.

use nearflash_units::index;
use std::ops::Range;
use std::sync::Arc;

use crate::wire::Rights;

/// The compiled grants on one volume.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Access {
    readable: Ranges,
    writable: Ranges,
    files: Arc<[FilesGrant]>,
}

/// Rights on the files of a directory, and below it. They are rights on no byte of the volume: only the
/// owner of the files gives them a meaning.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FilesGrant {
    /// The path of the directory, from the root on.
    pub path: Box<[u8]>,
    /// The rights.
    pub rights: Rights,
}

impl Access {
    /// Everything, everywhere.
    pub fn full() -> Self {
        Self::new([(0..u64::MAX, Rights::READ_WRITE)])
    }

    /// Compiles these rights on these bytes. Empty ranges grant nothing.
    pub fn new(grants: impl IntoIterator<Item = (Range<u64>, Rights)>) -> Self {
        let (mut readable, mut writable) = (Vec::new(), Vec::new());
        for (range, rights) in grants {
            if rights.has(Rights::READ) {
                readable.push(range.clone());
            }
            if rights.has(Rights::WRITE) {
                writable.push(range);
            }
        }
        let (readable, writable) = (Ranges::new(readable), Ranges::new(writable));
        Self { readable, writable, files: Arc::default() }
    }

    /// The rights on bytes, and these on files.
    #[must_use]
    pub fn with_files(self, files: impl IntoIterator<Item = FilesGrant>) -> Self {
        Self { files: files.into_iter().collect(), ..self }
    }

    /// The rights on files.
    pub fn files(&self) -> &Arc<[FilesGrant]> {
        &self.files
    }

    /// Whether these rights apply to all of `range`, which is not empty.
    #[inline]
    pub fn allows(&self, range: Range<u64>, rights: Rights) -> bool {
        (!rights.has(Rights::READ) || self.readable.contain(&range))
            && (!rights.has(Rights::WRITE) || self.writable.contain(&range))
    }

    /// Whether it grants nothing.
    pub fn is_empty(&self) -> bool {
        self.hull() == Rights::NONE && self.files.is_empty()
    }

    /// The rights that apply to at least one byte of the volume.
    pub fn hull(&self) -> Rights {
        let read = if self.readable.is_empty() { Rights::NONE } else { Rights::READ };
        let write = if self.writable.is_empty() { Rights::NONE } else { Rights::WRITE };
        read.or(write)
    }
}

/// Disjoint ranges that do not touch, in order.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Ranges {
    ranges: Box<[Range<u64>]>,
    /// For each part of `1 << part_shift` bytes, the number of ranges that begin before its end.
    parts: Box<[u32]>,
    part_shift: u32,
}

/// Parts of the table for each range. With more parts, fewer ranges share one.
const PARTS_PER_RANGE: u64 = 2;

impl Ranges {
    fn new(mut grants: Vec<Range<u64>>) -> Self {
        grants.retain(|range| !range.is_empty());
        grants.sort_unstable_by_key(|range| range.start);
        let mut ranges: Vec<Range<u64>> = Vec::with_capacity(grants.len());
        for grant in grants {
            match ranges.last_mut() {
                Some(last) if grant.start <= last.end => last.end = last.end.max(grant.end),
                _ => ranges.push(grant),
            }
        }
        let (parts, part_shift) = table_of(&ranges);
        Self { ranges: ranges.into_boxed_slice(), parts, part_shift }
    }

    const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether one of them contains all of `wanted`, which is not empty.
    #[inline]
    fn contain(&self, wanted: &Range<u64>) -> bool {
        // No range begins past the table, so the last range applies.
        let part = usize::try_from(wanted.start >> self.part_shift).unwrap_or(usize::MAX);
        let end = self.parts.get(part).map_or(self.ranges.len(), |end| index(*end));
        let first = part.checked_sub(1).and_then(|before| self.parts.get(before));
        let first = first.map_or(if part == 0 { 0 } else { end }, |first| index(*first));
        let before =
            first + self.ranges[first..end].partition_point(|range| range.start <= wanted.start);
        before.checked_sub(1).is_some_and(|at| wanted.end <= self.ranges[at].end)
    }
}

/// The table over the parts up to the start of the last range, and the length of a part.
fn table_of(ranges: &[Range<u64>]) -> (Box<[u32]>, u32) {
    let Some(last) = ranges.last() else { return (Box::default(), 0) };
    let count = u64::try_from(ranges.len()).expect("usize is at most 64 bits wide");
    let mut shift = 0;
    while last.start >> shift >= count * PARTS_PER_RANGE {
        shift += 1;
    }
    let parts = (0..=last.start >> shift).map(|part| {
        let begun = ranges.partition_point(|range| range.start >> shift <= part);
        u32::try_from(begun).expect("grants are fewer than 2^32")
    });
    (parts.collect(), shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn half_a_volume_ends_at_its_byte() {
        let access = Access::new([(0..4096, Rights::READ_WRITE)]);
        assert!(access.allows(0..4096, Rights::WRITE));
        assert!(access.allows(4095..4096, Rights::READ));
        assert!(!access.allows(4095..4097, Rights::READ));
        assert!(!access.allows(4096..4097, Rights::READ));
    }

    #[test]
    fn grants_that_touch_are_one() {
        let access = Access::new([(4096..8192, Rights::READ), (0..4096, Rights::READ_WRITE)]);
        assert!(access.allows(0..8192, Rights::READ));
        assert!(!access.allows(0..8192, Rights::WRITE));
        assert!(access.allows(0..4096, Rights::WRITE));
        assert_eq!(access.hull(), Rights::READ_WRITE);
    }

    #[test]
    fn without_grants_nothing_is_allowed() {
        let access = Access::new([(7..7, Rights::READ_WRITE), (0..10, Rights::NONE)]);
        assert_eq!(access.hull(), Rights::NONE);
        assert!(!access.allows(0..1, Rights::READ));
        assert!(!access.allows(u64::MAX - 1..u64::MAX, Rights::READ));
    }

    #[test]
    fn full_access_is_to_every_byte() {
        assert!(Access::full().allows(0..u64::MAX, Rights::WRITE));
        assert!(Access::full().allows(u64::MAX - 1..u64::MAX, Rights::READ));
    }

    proptest! {
        /// A model in which every byte has its own list of rights.
        #[test]
        fn a_range_is_allowed_exactly_when_each_of_its_bytes_is(
            grants in prop::collection::vec((0u64..200, 0u64..40, 0u8..4), 0..60),
            spread in 0u32..50,
            start in 0u64..250, len in 1u64..40,
        ) {
            let mut rights = [0u8; 300];
            for (start, len, right) in &grants {
                for byte in *start..start + len {
                    rights[usize::try_from(byte).unwrap()] |= right;
                }
            }
            let spread_out = |at: u64| at << spread;
            let access = Access::new(grants.iter().map(|(start, len, right)| {
                (spread_out(*start)..spread_out(start + len), Rights(*right))
            }));
            for (right, bit) in [(Rights::READ, 1), (Rights::WRITE, 2)] {
                let each = (start..start + len)
                    .all(|byte| rights[usize::try_from(byte).unwrap()] & bit != 0);
                let range = spread_out(start)..spread_out(start + len);
                prop_assert_eq!(access.allows(range.clone(), right), each);
                // One byte at each end, and one past it.
                prop_assert_eq!(
                    access.allows(range.start..range.start + 1, right),
                    rights[usize::try_from(start).unwrap()] & bit != 0
                );
                prop_assert_eq!(
                    access.allows(range.end..range.end + 1, right),
                    rights[usize::try_from(start + len).unwrap()] & bit != 0
                );
            }
        }
    }
}
