//! The place of a file: one run when possible, otherwise few.
//!
//! If the size is known, a file gets exactly the blocks that hold it. If it is not, the space doubles
//! as the file grows, in place while the gap behind it lasts, and the end is released when the size
//! is known.

use nearflash_units::{Blocks, ByteLen};

use crate::run::ALIGNMENT;
use crate::{BLOCK, FreeRuns, Run, blocks_for};

/// The number of runs that a file gets. One of the record's runs is left for moving the file.
pub const FILE_RUNS_MAX: usize = 7;

/// The most that a growing file gets at a time, in blocks: 1 GiB.
const STEP_MAX: u64 = 1024 * ALIGNMENT;

/// Error: the free space does not hold a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{wanted} needed, {free} free (gaps: {gaps}, the longest: {longest})")]
#[allow(missing_docs, reason = "the message says what the fields are")]
pub struct NoSpaceError {
    pub wanted: ByteLen,
    pub free: ByteLen,
    pub gaps: usize,
    pub longest: ByteLen,
}

impl NoSpaceError {
    fn new(free: &FreeRuns, wanted: Blocks) -> Self {
        let bytes = |count| BLOCK.len(count).unwrap_or(ByteLen(u64::MAX));
        Self {
            wanted: bytes(wanted),
            free: bytes(free.count()),
            gaps: free.gaps(),
            longest: free.longest().map_or(ByteLen(0), Run::len),
        }
    }
}

/// Takes space for a file of `size` bytes: one run, or up to [`FILE_RUNS_MAX`] if no gap holds it.
///
/// # Errors
/// When the free space does not hold the file in that number of runs. Then nothing is taken.
pub fn allocate(free: &mut FreeRuns, size: ByteLen) -> Result<Vec<Run>, NoSpaceError> {
    let wanted = blocks_for(size);
    let error = NoSpaceError::new(free, wanted);
    let mut missing = wanted;
    let mut runs = Vec::new();
    while missing.0 != 0 {
        if let Some(run) = free.allocate(missing) {
            runs.push(run);
            break;
        }
        let has_room = runs.len() + 1 < FILE_RUNS_MAX;
        let Some(run) = has_room.then(|| free.allocate_part(missing)).flatten() else {
            runs.into_iter().for_each(|run| free.release(run));
            return Err(error);
        };
        missing.0 -= run.count.0;
        runs.push(run);
    }
    Ok(runs)
}

/// The space of a file that grows to an unknown size.
#[derive(Clone, Debug, Default)]
pub struct Growth {
    runs: Vec<Run>,
}

impl Growth {
    /// The runs taken so far, in their order.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The length of the runs taken so far.
    pub fn len(&self) -> ByteLen {
        ByteLen(self.runs.iter().map(|run| run.len().0).sum())
    }

    /// Takes more space: 1 MiB at first, and then as much again as the file has, 1 GiB at most. Takes
    /// less when the gaps are shorter.
    ///
    /// # Errors
    /// When there is no whole MiB left, or no further run is possible.
    pub fn grow(&mut self, free: &mut FreeRuns) -> Result<(), NoSpaceError> {
        let has: u64 = self.runs.iter().map(|run| run.count.0).sum();
        let step = Blocks(has.clamp(ALIGNMENT, STEP_MAX));
        if let Some(last) = self.runs.last_mut()
            && let Some(more) = free.extend(last.end(), step)
        {
            last.count.0 += more.count.0;
            return Ok(());
        }
        let error = NoSpaceError::new(free, step);
        if self.runs.len() == FILE_RUNS_MAX {
            return Err(error);
        }
        let fresh = free.allocate_apart(step).or_else(|| free.allocate_part(step));
        self.runs.push(fresh.ok_or(error)?);
        Ok(())
    }

    /// Releases the blocks behind `size`, and returns the runs of the file.
    pub fn finish(self, size: ByteLen, free: &mut FreeRuns) -> Vec<Run> {
        let mut kept = blocks_for(size).0;
        let mut runs = self.runs;
        runs.retain_mut(|run| {
            let keep = kept.min(run.count.0);
            kept -= keep;
            if keep < run.count.0 {
                free.release(Run::between(run.start.0 + keep, run.end().0));
            }
            run.count = Blocks(keep);
            keep != 0
        });
        runs
    }

    /// Releases everything.
    pub fn abandon(self, free: &mut FreeRuns) {
        self.runs.into_iter().for_each(|run| free.release(run));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_units::{Lba, MIB};
    use proptest::prelude::*;

    fn run(start: u64, count: u64) -> Run {
        Run { start: Lba(start), count: Blocks(count) }
    }

    fn free(gaps: &[(u64, u64)]) -> FreeRuns {
        let mut free = FreeRuns::new(run(0, 1 << 16));
        free.reserve(run(0, 1 << 16)).unwrap();
        gaps.iter().for_each(|(start, count)| free.release(run(*start, *count)));
        free
    }

    #[test]
    fn a_file_gets_one_run_of_exactly_its_blocks() {
        let mut free = free(&[(0, 4096)]);
        assert_eq!(allocate(&mut free, ByteLen(4 * MIB + 1)), Ok(vec![run(0, 1025)]));
        assert_eq!(allocate(&mut free, ByteLen(1)), Ok(vec![run(1025, 1)]));
        assert_eq!(allocate(&mut free, ByteLen(0)), Ok(vec![]));
    }

    #[test]
    fn a_file_is_split_at_mebibytes_when_no_gap_holds_it() {
        let mut free = free(&[(0, 600), (1024, 700), (2048, 100)]);
        let runs = allocate(&mut free, ByteLen(4 * MIB + 4096 * 50)).unwrap();
        assert_eq!(runs, [run(1024, 512), run(0, 562)]);
    }

    #[test]
    fn nothing_is_taken_when_a_file_does_not_fit() {
        let mut free = free(&[(0, 512), (1024, 256), (2048, 100)]);
        let before = free.clone();
        let error = allocate(&mut free, ByteLen(4 * MIB)).unwrap_err();
        assert_eq!(free, before);
        assert_eq!((error.gaps, error.longest), (3, ByteLen(2 * MIB)));
        assert!(allocate(&mut free, ByteLen(u64::MAX)).is_err());
        // Eight gaps of 1 MiB are too many for 8 MiB.
        let gaps: Vec<(u64, u64)> = (0..8).map(|at| (at * 512, 256)).collect();
        let mut free = self::free(&gaps);
        assert!(allocate(&mut free, ByteLen(8 * MIB)).is_err());
        assert_eq!(allocate(&mut free, ByteLen(7 * MIB)).map(|runs| runs.len()), Ok(7));
    }

    #[test]
    fn a_growing_file_stays_in_one_run_while_the_gap_behind_it_lasts() {
        let mut free = free(&[(0, 16 * 256)]);
        let mut growth = Growth::default();
        let lens: Vec<u64> = (0..4)
            .map(|_| {
                growth.grow(&mut free).unwrap();
                growth.len().0 / MIB
            })
            .collect();
        assert_eq!(lens, [1, 2, 4, 8]);
        assert_eq!(growth.runs().len(), 1);
        growth.grow(&mut free).unwrap();
        assert_eq!(growth.runs().len(), 2, "the first half of the gap is the second run");
        assert_eq!(growth.runs()[0], run(8 * 256, 8 * 256));
        let runs = growth.finish(ByteLen(8 * MIB + 1), &mut free);
        assert_eq!(runs.iter().map(|run| run.count.0).collect::<Vec<_>>(), [8 * 256, 1]);
        assert_eq!(free.count(), Blocks(8 * 256 - 1));
    }

    proptest! {
        /// Files, however they grow, have runs that an inode may have, and return what they took.
        #[test]
        fn runs_of_a_file_hold_it_and_are_multiples_of_a_mebibyte(
            gaps in prop::collection::vec((1_u64..900, 1_u64..600), 1..12), size in 0_u64..24 << 20, grows: bool
        ) {
            let mut at = 0;
            let gaps: Vec<(u64, u64)> = gaps.into_iter().map(|(count, used)| {
                at += count + used;
                (at - count - used, count)
            }).collect();
            let mut free = free(&gaps);
            let before = free.clone();
            let size = ByteLen(size);
            let runs = if grows {
                let mut growth = Growth::default();
                let mut grown = Ok(());
                while growth.len() < size && grown.is_ok() {
                    grown = growth.grow(&mut free);
                }
                let enough = size.min(growth.len());
                if grown.is_err() { growth.abandon(&mut free); Vec::new() } else { growth.finish(enough, &mut free) }
            } else {
                allocate(&mut free, size).unwrap_or_default()
            };
            if let Some((_, rest)) = runs.split_last() {
                prop_assert!(rest.iter().all(|run| run.count.0.is_multiple_of(ALIGNMENT)));
                let held: u64 = runs.iter().map(|run| run.count.0).sum();
                prop_assert_eq!(Blocks(held), blocks_for(size));
                prop_assert!(runs.len() <= FILE_RUNS_MAX);
            }
            runs.into_iter().for_each(|run| free.release(run));
            prop_assert_eq!(free, before);
        }
    }
}
