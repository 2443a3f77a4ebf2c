//! The parts of a mirror that may differ between its replicas, because they were written.
//!
//! Each core notes the parts that it writes, or accepts writes of, from the start of the process. A primary
//! sends every write to the other replica, and writes its own replica only after that one has accepted the
//! bytes. So whichever replica stays, its node has noted every write that the other one may lack, may have done
//! alone, or may lose with its power. A replica that returns is compared in these parts only, if the two were
//! equal and flushed once while this process has run ([`crate::membership`]).
//!
//! Parts are noted in memory. After a restart of the node that stays, all is compared.

use std::collections::BTreeMap;
use std::ops::Range;

use nearflash_units::{ByteLen, ByteOffset};

/// The length of a part.
const PART_LEN: u64 = if cfg!(test) { 4096 } else { 64 * 1024 };

/// The parts of a chunk: those of 256 MiB.
const CHUNK_PARTS: u64 = 4096;

/// The words of a chunk.
const WORDS: usize = 64;

/// Parts of a mirror.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Written {
    chunks: BTreeMap<u64, Box<[u64; WORDS]>>,
}

impl Written {
    /// Adds the parts of a range.
    pub(crate) fn add(&mut self, offset: ByteOffset, len: ByteLen) {
        if len.0 == 0 {
            return;
        }
        for part in offset.0 / PART_LEN..=(offset.0 + len.0 - 1) / PART_LEN {
            let chunk = self.chunks.entry(part / CHUNK_PARTS);
            chunk.or_insert_with(|| Box::new([0; WORDS]))[word(part)] |= 1 << (part % 64);
        }
    }

    /// Adds all parts of another set.
    pub fn unite(&mut self, other: &Self) {
        for (number, more) in &other.chunks {
            let words = self.chunks.entry(*number).or_insert_with(|| Box::new([0; WORDS]));
            words.iter_mut().zip(more.iter()).for_each(|(word, more)| *word |= more);
        }
    }

    /// The first bytes from this place on that are in the set, and not more than `max` of them.
    pub(crate) fn next(&self, from: u64, max: ByteLen) -> Option<Range<u64>> {
        let first = from / PART_LEN;
        let start = (self.chunks.range(first / CHUNK_PARTS..))
            .find_map(|(number, words)| next_part(words, number * CHUNK_PARTS, first))?;
        let most = start + (max.0 / PART_LEN).max(1);
        let end = (start + 1..most).find(|part| !self.has(*part)).unwrap_or(most);
        Some((start * PART_LEN).max(from)..end * PART_LEN)
    }

    fn has(&self, part: u64) -> bool {
        let words = self.chunks.get(&(part / CHUNK_PARTS));
        words.is_some_and(|words| words[word(part)] >> (part % 64) & 1 == 1)
    }
}

/// The word of a part in its chunk.
fn word(part: u64) -> usize {
    usize::try_from(part % CHUNK_PARTS / 64).expect("a chunk has few words")
}

/// The first part from `first` on of a chunk that begins with the part `base`.
fn next_part(words: &[u64; WORDS], base: u64, first: u64) -> Option<u64> {
    let first = first.max(base);
    (base..).step_by(64).zip(words).find_map(|(start, word)| {
        let skipped = first.saturating_sub(start).min(64);
        let left = word & u64::MAX.checked_shl(u32::try_from(skipped).ok()?).unwrap_or(0);
        (left != 0).then(|| start + u64::from(left.trailing_zeros()))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const FAR: u64 = 3 * CHUNK_PARTS;

    proptest! {
        #[test]
        fn the_runs_are_the_parts_that_were_added(
            ranges in prop::collection::vec((0..FAR * PART_LEN, 0..40 * PART_LEN), 0..12),
            max in 1..8u64,
        ) {
            let (mut one, mut other) = (Written::default(), Written::default());
            let mut parts = BTreeSet::new();
            for (number, (offset, len)) in ranges.iter().enumerate() {
                let set = if number % 2 == 0 { &mut one } else { &mut other };
                set.add(ByteOffset(*offset), ByteLen(*len));
                if *len > 0 {
                    parts.extend(offset / PART_LEN..=(offset + len - 1) / PART_LEN);
                }
            }
            one.unite(&other);
            let (mut found, mut at) = (BTreeSet::new(), 0);
            while let Some(run) = one.next(at, ByteLen(max * PART_LEN)) {
                prop_assert!(run.start >= at && run.end - run.start <= max * PART_LEN);
                found.extend(run.start / PART_LEN..run.end / PART_LEN);
                at = run.end;
            }
            prop_assert_eq!(found, parts);
        }
    }
}
