//! Where in the volume the bytes of a handle lie.
//!
//! A volume's own bytes lie at their own offsets. Those of a sealed object lie in runs, each of which
//! but the last is a multiple of [`SEGMENT_LEN_MAX`] long. So no segment of a READ or WRITE lies in two
//! runs, and the offset in the volume is one addition away.

use std::sync::Arc;

use crate::wire::Run;
#[cfg(doc)]
use crate::wire::SEGMENT_LEN_MAX;

/// The runs of a handle, or of one request.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    /// How far from their own offset the bytes lie, modulo 2^64, if they lie in one run.
    base: u64,
    /// The runs, if they are several, in the order of the object's bytes. The first begins at 0.
    several: Option<Arc<[Placed]>>,
}

/// A run by the offset of its first byte in the object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    from: u64,
    base: u64,
}

impl Runs {
    /// A volume's own bytes.
    pub(super) const WHOLE: Self = Self { base: 0, several: None };

    /// The runs of a seal: at least one.
    pub(super) fn of(runs: &[Run]) -> Self {
        if let [run] = runs {
            return Self { base: run.start, several: None };
        }
        let mut from = 0_u64;
        let placed = runs.iter().map(|run| {
            let placed = Placed { from, base: run.start.wrapping_sub(from) };
            from += run.len;
            placed
        });
        Self { base: 0, several: Some(placed.collect()) }
    }

    /// The runs that a request's bytes need: one in most cases.
    #[inline]
    pub(super) fn of_range(&self, offset: u64, len: u32) -> Self {
        match &self.several {
            None => Self { base: self.base, several: None },
            Some(runs) => needed(runs, offset, len),
        }
    }

    /// The offset in the volume of a byte of the object.
    #[inline]
    pub(super) fn place(&self, offset: u64) -> u64 {
        let base = match &self.several {
            None => self.base,
            Some(runs) => base_at(runs, offset),
        };
        offset.wrapping_add(base)
    }

    /// The number of runs in which a range lies.
    #[cold]
    pub(super) fn count(&self, offset: u64, len: u32) -> u32 {
        u32::try_from(self.parts(offset, len).count()).expect("a seal has few runs")
    }

    /// The parts of a range in the volume, one for each run, and their lengths.
    pub(super) fn parts(&self, offset: u64, len: u32) -> impl Iterator<Item = (u64, u64)> {
        let runs = self.several.as_deref().unwrap_or_default();
        let end = offset + u64::from(len);
        let mut at = offset;
        std::iter::from_fn(move || {
            let next = runs.iter().map(|run| run.from).find(|from| *from > at);
            let until = next.map_or(end, |next| next.min(end));
            let part = (self.place(at), until.saturating_sub(at));
            at = until;
            (part.1 > 0).then_some(part)
        })
    }
}

/// The runs among several ones that a request's bytes need.
#[inline(never)]
fn needed(runs: &Arc<[Placed]>, offset: u64, len: u32) -> Runs {
    let last = offset.saturating_add(u64::from(len).saturating_sub(1));
    let (first, last) = (run_at(runs, offset), run_at(runs, last));
    if first == last {
        return Runs { base: runs[first].base, several: None };
    }
    Runs { base: 0, several: Some(Arc::clone(runs)) }
}

/// How far from its own offset a byte of an object of several runs lies.
#[inline(never)]
fn base_at(runs: &[Placed], offset: u64) -> u64 {
    runs[run_at(runs, offset)].base
}

/// The run of an object's byte. A byte past the end belongs to the last one.
#[inline]
fn run_at(runs: &[Placed], offset: u64) -> usize {
    runs.partition_point(|run| run.from <= offset).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::segments;
    use crate::wire::SEGMENT_LEN_MAX;

    const MIB: u64 = SEGMENT_LEN_MAX as u64;

    /// The offset in the volume of a byte, by looking at each run.
    fn slow(runs: &[Run], offset: u64) -> u64 {
        let mut left = offset;
        for run in runs {
            if left < run.len {
                return run.start + left;
            }
            left -= run.len;
        }
        panic!("past the end")
    }

    prop_compose! {
        fn runs()(
            whole in prop::collection::vec((0u64..1 << 20, 1u64..4), 0..8),
            last in (0u64..1 << 20, 1u64..6000),
        ) -> Vec<Run> {
            let whole = whole.iter().map(|(start, len)| Run { start: start * 512, len: len * MIB });
            whole.chain([Run { start: last.0 * 512, len: last.1 * 512 }]).collect()
        }
    }

    proptest! {
        /// Each byte of each segment lies where its first byte says.
        #[test]
        fn no_segment_lies_in_two_runs(
            runs in runs(), offset: u64, len in 1u32..=8 << 20
        ) {
            let reach: u64 = runs.iter().map(|run| run.len).sum();
            let offset = offset % reach;
            let len = u32::try_from((reach - offset).min(len.into())).unwrap();
            let own = Runs::of(&runs).of_range(offset, len);
            for number in 0..segments::count(offset, len) {
                let part = segments::segment(offset, len, number);
                let start = offset + u64::from(part.start);
                let last = u64::from(part.len) - 1;
                prop_assert_eq!(own.place(start), slow(&runs, start));
                prop_assert_eq!(own.place(start) + last, slow(&runs, start + last));
            }
        }

        #[test]
        fn the_parts_of_a_range_are_its_bytes_in_order(
            runs in runs(), offset: u64, len in 1u32..=u32::MAX
        ) {
            let reach: u64 = runs.iter().map(|run| run.len).sum();
            let offset = offset % reach;
            let len = u32::try_from((reach - offset).min(len.into())).unwrap();
            let own = Runs::of(&runs).of_range(offset, len);
            let mut at = offset;
            for (start, part_len) in own.parts(offset, len) {
                prop_assert!(part_len > 0);
                prop_assert_eq!(start, slow(&runs, at));
                prop_assert_eq!(start + part_len - 1, slow(&runs, at + part_len - 1));
                at += part_len;
            }
            prop_assert_eq!(at, offset + u64::from(len));
        }
    }

    #[test]
    fn a_request_within_a_run_takes_no_list_with_it() {
        let runs = Runs::of(&[Run { start: 8 * MIB, len: MIB }, Run { start: 0, len: MIB }]);
        assert_eq!(runs.of_range(0, 1 << 20).base, 8 * MIB);
        assert!(runs.of_range(0, 1 << 20).several.is_none());
        assert!(runs.of_range(MIB, 1).several.is_none());
        assert!(runs.of_range(MIB - 1, 2).several.is_some());
    }
}
