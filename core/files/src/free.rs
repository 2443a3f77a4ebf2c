//! The free runs of a volume, by place and by length.
//!
//! Best fit keeps long runs free. A run of 1 MiB or more begins at a multiple of 1 MiB. Of two gaps
//! that fit equally, the first is taken, so that equal requests give equal layouts.
//!
//! Invariants: free runs neither overlap nor touch; both maps hold the same runs.

use std::collections::{BTreeMap, BTreeSet};

use nearflash_units::{Blocks, Lba};

use crate::Run;
use crate::run::ALIGNMENT;

/// The free runs of a volume.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FreeRuns {
    area: Run,
    /// The end of each free run, by its start.
    by_start: BTreeMap<u64, u64>,
    /// The length and the start of each.
    by_count: BTreeSet<(u64, u64)>,
    count: u64,
}

/// Error: blocks are taken already, or lie outside the area.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("blocks {} to {} are in use twice, or outside the volume", .0.start.0, .0.end().0)]
pub struct NotFreeError(pub Run);

impl FreeRuns {
    /// An area that is entirely free.
    pub fn new(area: Run) -> Self {
        let empty = Self { area, by_start: BTreeMap::new(), by_count: BTreeSet::new(), count: 0 };
        let mut free = empty;
        free.insert(area.start.0, area.end().0);
        free
    }

    /// The number of free blocks.
    pub fn count(&self) -> Blocks {
        Blocks(self.count)
    }

    /// The number of free runs.
    pub fn gaps(&self) -> usize {
        self.by_start.len()
    }

    /// The longest free run.
    pub fn longest(&self) -> Option<Run> {
        let (count, _) = *self.by_count.last()?;
        // Of several, the first.
        let (_, start) = *self.by_count.range((count, 0)..).next()?;
        Some(Run { start: Lba(start), count: Blocks(count) })
    }

    /// The free runs, by place.
    pub fn iter(&self) -> impl Iterator<Item = Run> {
        self.by_start.iter().map(|(start, end)| Run::between(*start, *end))
    }

    /// Takes the blocks of a known file.
    ///
    /// # Errors
    /// When one of them is not free.
    pub fn reserve(&mut self, run: Run) -> Result<(), NotFreeError> {
        let gap = self.by_start.range(..=run.start.0).next_back().map(|(s, e)| (*s, *e));
        let (start, end) = gap.filter(|(_, end)| run.end().0 <= *end).ok_or(NotFreeError(run))?;
        self.take((start, end), run);
        Ok(())
    }

    /// The area has grown to this one. The further blocks are free.
    pub fn extend(&mut self, area: Run) {
        assert_eq!(area.start, self.area.start, "an area grows at its end");
        let (former, end) = (self.area.end().0, area.end().0);
        if former < end {
            self.area = area;
            self.release(Run::between(former, end));
        }
    }

    /// Returns blocks.
    ///
    /// # Panics
    /// When one of them is free already or outside the area. Two files would get it.
    pub fn release(&mut self, run: Run) {
        assert!(self.area.contains(run), "{run:?} lies in {:?}", self.area);
        let (mut start, mut end) = (run.start.0, run.end().0);
        if let Some((before, before_end)) = self.by_start.range(..end).next_back() {
            assert!(*before_end <= start, "{run:?} is released once");
            if *before_end == start {
                start = *before;
                self.remove(start);
            }
        }
        if self.by_start.contains_key(&end) {
            end = self.remove(end);
        }
        self.insert(start, end);
    }

    /// Takes one run of `count` blocks from the smallest gap that holds it.
    pub fn allocate(&mut self, count: Blocks) -> Option<Run> {
        self.allocate_fitting(count, Fit::Aligned)
    }

    /// Takes one run of `count` blocks from the smallest gap that holds it.
    pub(crate) fn allocate_fitting(&mut self, count: Blocks, fit: Fit) -> Option<Run> {
        if count.0 == 0 {
            return None;
        }
        // At most the gaps shorter than the run and its alignment fail; a longer one holds it.
        let mut fitting = self.by_count.range((count.0, 0)..);
        let (gap, start) = fitting.find_map(|(gap_count, gap_start)| {
            let start = fit.first(*gap_start, count.0);
            let gap_end = gap_start + gap_count;
            let fits = start.checked_add(count.0).is_some_and(|end| end <= gap_end);
            fits.then_some(((*gap_start, gap_end), start))
        })?;
        let run = Run { start: Lba(start), count };
        self.take(gap, run);
        Some(run)
    }

    /// Takes as many whole MiB as possible, at most `count` blocks, from the longest gap.
    pub(crate) fn allocate_part(&mut self, count: Blocks, fit: Fit) -> Option<Run> {
        let gap = self.longest()?;
        let start = fit.first(gap.start.0, ALIGNMENT);
        let held = gap.end().0.saturating_sub(start).min(count.0) / ALIGNMENT * ALIGNMENT;
        let run = (held != 0).then_some(Run { start: Lba(start), count: Blocks(held) })?;
        self.take((gap.start.0, gap.end().0), run);
        Some(run)
    }

    /// Takes one run from the beginning of the longest gap, as long as possible, but at most `most`
    /// blocks. If that is less than `least`, takes these from the smallest gap that holds them.
    pub(crate) fn allocate_most(&mut self, least: Blocks, most: Blocks, fit: Fit) -> Option<Run> {
        let gap = self.longest()?;
        let start = fit.first(gap.start.0, gap.count.0.min(most.0));
        let held = gap.end().0.saturating_sub(start).min(most.0);
        let held = if held > ALIGNMENT { held / ALIGNMENT * ALIGNMENT } else { held };
        if held < least.0 || held == 0 {
            return self.allocate_fitting(least, fit);
        }
        let run = Run { start: Lba(start), count: Blocks(held) };
        self.take((gap.start.0, gap.end().0), run);
        Some(run)
    }

    /// The number of free blocks from `start` on.
    pub(crate) fn gap_at(&self, start: Lba) -> Blocks {
        Blocks(self.by_start.get(&start.0).map_or(0, |end| end - start.0))
    }

    /// The number of free blocks up to `end`.
    pub(crate) fn gap_before(&self, end: Lba) -> Blocks {
        let gap = self.by_start.range(..end.0).next_back();
        Blocks(gap.filter(|(_, gap_end)| **gap_end == end.0).map_or(0, |(start, _)| end.0 - start))
    }

    /// Takes `run` out of the gap that holds it.
    fn take(&mut self, (gap_start, gap_end): (u64, u64), run: Run) {
        self.remove(gap_start);
        self.insert(gap_start, run.start.0);
        self.insert(run.end().0, gap_end);
    }

    fn insert(&mut self, start: u64, end: u64) {
        if start < end {
            self.by_start.insert(start, end);
            self.by_count.insert((end - start, start));
            self.count += end - start;
        }
    }

    fn remove(&mut self, start: u64) -> u64 {
        let end = self.by_start.remove(&start).expect("the caller found the run");
        self.by_count.remove(&(end - start, start));
        self.count -= end - start;
        end
    }
}

/// The places where runs may begin.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fit {
    /// Those of 1 MiB or more at a multiple of 1 MiB.
    Aligned,
    /// At any block, when space is short.
    Anywhere,
}

impl Fit {
    /// The first block from `start` on where a run of `count` blocks may begin.
    fn first(self, start: u64, count: u64) -> u64 {
        let is_aligned = self == Self::Aligned && count >= ALIGNMENT;
        if is_aligned { start.next_multiple_of(ALIGNMENT) } else { start }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(start: u64, count: u64) -> Run {
        Run { start: Lba(start), count: Blocks(count) }
    }

    fn free(gaps: &[(u64, u64)]) -> FreeRuns {
        let mut free = FreeRuns::new(run(0, 1 << 20));
        free.reserve(run(0, 1 << 20)).unwrap();
        gaps.iter().for_each(|(start, count)| free.release(run(*start, *count)));
        free
    }

    #[test]
    fn the_smallest_gap_that_fits_is_taken_and_the_first_of_equal_ones() {
        let mut free = free(&[(100, 50), (300, 20), (400, 20)]);
        assert_eq!(free.allocate(Blocks(15)), Some(run(300, 15)));
        assert_eq!(free.allocate(Blocks(20)), Some(run(400, 20)));
        assert_eq!(free.allocate(Blocks(51)), None);
        assert_eq!(free.allocate(Blocks(0)), None);
        assert_eq!(free.allocate(Blocks(u64::MAX)), None);
        assert_eq!(free.count(), Blocks(55));
    }

    #[test]
    fn a_run_of_a_mebibyte_begins_at_a_multiple_of_one() {
        let mut free = free(&[(1, 400), (1000, 600)]);
        assert_eq!(
            free.allocate(Blocks(256)),
            Some(run(1024, 256)),
            "a shorter gap is not aligned"
        );
        assert_eq!(free.allocate(Blocks(255)), Some(run(1280, 255)));
    }

    #[test]
    fn blocks_are_taken_once_and_released_once() {
        let mut free = free(&[(100, 50)]);
        for taken in [run(99, 1), run(99, 2), run(149, 2), run(1 << 20, 1)] {
            assert_eq!(free.reserve(taken), Err(NotFreeError(taken)));
        }
        free.reserve(run(120, 10)).unwrap();
        assert_eq!(free.gaps(), 2);
        free.release(run(120, 10));
        assert_eq!(free.longest(), Some(run(100, 50)));
        let twice = std::panic::catch_unwind(move || free.release(run(149, 2)));
        assert!(twice.is_err());
    }

    proptest! {
        /// Every block is either free or in exactly one run that was taken, and both maps agree.
        #[test]
        fn blocks_are_never_lost_or_in_two_runs(
            steps in prop::collection::vec((0_u8..4, 1_u64..700, any::<prop::sample::Index>()), 1..60)
        ) {
            let area = run(256, 4096);
            let mut free = FreeRuns::new(area);
            let mut taken: Vec<Run> = Vec::new();
            for (what, count, which) in steps {
                let count = Blocks(count);
                let fresh = match what {
                    0 if !taken.is_empty() => {
                        free.release(taken.swap_remove(which.index(taken.len())));
                        None
                    }
                    1 => free.allocate_part(count, Fit::Aligned),
                    2 => free.allocate_most(Blocks(count.0 / 2), count, Fit::Aligned),
                    _ => free.allocate(count),
                };
                if let Some(run) = fresh {
                    let is_aligned = run.start.0.is_multiple_of(ALIGNMENT);
                    prop_assert!(is_aligned || run.count.0 < ALIGNMENT);
                    taken.push(run);
                }
                let mut all: Vec<Run> = taken.iter().copied().chain(free.iter()).collect();
                all.sort_unstable();
                prop_assert_eq!(all.first().map(|run| run.start), Some(area.start));
                prop_assert_eq!(all.last().map(|run| run.end()), Some(area.end()));
                prop_assert!(all.windows(2).all(|pair| pair[0].end() == pair[1].start));
                let by_count: u64 = free.by_count.iter().map(|(count, _)| count).sum();
                prop_assert_eq!(by_count, free.count);
                prop_assert_eq!(free.by_count.len(), free.by_start.len());
            }
        }
    }
}
