//! The place of a file: one run when possible, otherwise few.
//!
//! If the size is known, a file gets exactly the blocks that hold it. If it is not, the space doubles
//! as the file grows, in place while the gap behind it lasts, and the end is released when the size
//! is known.
//!
//! Every run but the last has whole MiB. A last run that cannot grow in place therefore loses its end,
//! of less than 1 MiB, to the next run, and these bytes are copied. So small files lie close together
//! until they grow.

use nearflash_units::{Blocks, ByteLen};

use crate::run::ALIGNMENT;
use crate::{BLOCK, FreeRuns, Run, blocks_for};

/// The number of runs that a file gets. One of the record's runs is left for moving the file.
pub const FILE_RUNS_MAX: usize = 7;

/// The least that a growing file gets at a time, in blocks: 64 KiB.
const STEP_MIN: u64 = 16;

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
    extend(&[], size, Spare::None, free).map(|extended| extended.runs)
}

/// The space of a file after it has grown.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Extended {
    /// The runs of the file.
    pub runs: Vec<Run>,
    /// Blocks whose contents must be copied first, and the place of the copy. The file no longer has
    /// the former.
    pub copy: Option<(Run, Run)>,
    /// The blocks that were taken.
    pub taken: Vec<Run>,
}

/// The space that a file gets in addition to the needed one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Spare {
    /// None: the size is known.
    None,
    /// As much again as the file has, 1 GiB at most, or less when the gaps are shorter.
    Doubling,
}

/// Takes space, so that a file with these runs has at least `needed` bytes.
///
/// # Errors
/// When the space is not free, or needs more runs than a file may have. Then nothing is taken.
pub fn extend(
    runs: &[Run],
    needed: ByteLen,
    spare: Spare,
    free: &mut FreeRuns,
) -> Result<Extended, NoSpaceError> {
    let mut growing = Growing::new(runs, needed, spare);
    let error = NoSpaceError::new(free, Blocks(growing.missing()));
    if growing.missing() == 0 || growing.in_place(free) || growing.in_further_runs(free) {
        return Ok(growing.done);
    }
    growing.done.taken.into_iter().for_each(|run| free.release(run));
    Err(error)
}

/// A file that is given more space.
struct Growing {
    done: Extended,
    /// The blocks that it must have.
    needed: u64,
    /// The blocks that it should have.
    wanted: u64,
    spare: Spare,
}

impl Growing {
    fn new(runs: &[Run], needed: ByteLen, spare: Spare) -> Self {
        let has = block_count(runs);
        let needed = blocks_for(needed).0;
        let doubled = needed.max(has + has.clamp(STEP_MIN, STEP_MAX));
        let unit = if doubled < ALIGNMENT { STEP_MIN } else { ALIGNMENT };
        let wanted = match spare {
            Spare::None => needed,
            Spare::Doubling => doubled.next_multiple_of(unit),
        };
        let done = Extended { runs: runs.to_vec(), copy: None, taken: Vec::new() };
        Self { done, needed, wanted, spare }
    }

    fn has(&self) -> u64 {
        block_count(&self.done.runs)
    }

    /// The blocks that are still needed.
    fn missing(&self) -> u64 {
        self.needed.saturating_sub(self.has())
    }

    /// Takes blocks behind the last run. Returns whether they suffice.
    fn in_place(&mut self, free: &mut FreeRuns) -> bool {
        let (missing, has, wanted) = (self.missing(), self.has(), self.wanted);
        let Some(last) = self.done.runs.last_mut() else { return false };
        let gap = free.gap_at(last.end()).0;
        let mut more = gap.min(wanted - has);
        if more < missing {
            // Another run follows, so this one ends at a multiple.
            more = ((last.count.0 + more) / ALIGNMENT * ALIGNMENT).saturating_sub(last.count.0);
        }
        if more != 0 {
            let run = Run::between(last.end().0, last.end().0 + more);
            free.reserve(run).expect("the gap was looked up");
            self.done.taken.push(run);
            last.count.0 += more;
        }
        more >= missing
    }

    /// Takes further runs, and moves the end of the last one into them. Returns whether they suffice.
    fn in_further_runs(&mut self, free: &mut FreeRuns) -> bool {
        let end = self.cut_end();
        while self.missing() != 0 {
            let (missing, wished) = (Blocks(self.missing()), Blocks(self.wanted - self.has()));
            let has_room = self.done.runs.len() + 1 < FILE_RUNS_MAX;
            let whole = self.place_for(wished, missing, free);
            let run = whole.or_else(|| has_room.then(|| free.allocate_part(missing)).flatten());
            let Some(run) = run.filter(|_| self.done.runs.len() < FILE_RUNS_MAX) else {
                run.into_iter().for_each(|run| free.release(run));
                return false;
            };
            self.done.taken.push(run);
            if let Some(end) = end.filter(|_| self.done.copy.is_none()) {
                let copy = Run::between(run.start.0, run.start.0 + end.count.0);
                self.done.copy = Some((end, copy));
            }
            self.done.runs.push(run);
        }
        true
    }

    /// Cuts the end behind the last whole MiB off the last run.
    fn cut_end(&mut self) -> Option<Run> {
        let last = self.done.runs.last_mut()?;
        let kept = last.count.0 / ALIGNMENT * ALIGNMENT;
        let end = Run::between(last.start.0 + kept, last.end().0);
        last.count = Blocks(kept);
        if kept == 0 {
            self.done.runs.pop();
        }
        (end.count.0 != 0).then_some(end)
    }

    /// A run of the wished blocks, or of those that are needed. A long one that may grow has room for
    /// itself and its neighbours.
    fn place_for(&self, wished: Blocks, needed: Blocks, free: &mut FreeRuns) -> Option<Run> {
        let may_grow = self.spare == Spare::Doubling && wished.0 >= ALIGNMENT;
        let run = if may_grow { free.allocate_apart(wished) } else { free.allocate(wished) };
        run.or_else(|| free.allocate(needed))
    }
}

fn block_count(runs: &[Run]) -> u64 {
    runs.iter().map(|run| run.count.0).sum()
}

/// The runs of a file that keeps `size` bytes, and the runs that it loses.
pub fn trim(runs: &[Run], size: ByteLen) -> (Vec<Run>, Vec<Run>) {
    let mut left = blocks_for(size).0;
    let (mut kept, mut lost) = (Vec::new(), Vec::new());
    for run in runs {
        let keep = left.min(run.count.0);
        left -= keep;
        let parts = [(0, keep, &mut kept), (keep, run.count.0, &mut lost)];
        for (from, to, list) in parts.into_iter().filter(|(from, to, _)| from < to) {
            list.push(Run::between(run.start.0 + from, run.start.0 + to));
        }
    }
    (kept, lost)
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

    /// The runs after growing to each of the lengths in turn.
    fn grown(free: &mut FreeRuns, lens: &[u64]) -> Extended {
        let mut extended = Extended { runs: vec![], copy: None, taken: vec![] };
        for len in lens {
            extended = extend(&extended.runs, ByteLen(*len), Spare::Doubling, free).unwrap();
            if let Some((from, _)) = extended.copy {
                free.release(from);
            }
        }
        extended
    }

    #[test]
    fn a_growing_file_stays_in_one_run_while_the_gap_behind_it_lasts() {
        let mut free = free(&[(0, 16 * 256)]);
        let extended = grown(&mut free, &[MIB, 2 * MIB, 4 * MIB, 8 * MIB]);
        assert_eq!(extended.runs, [run(8 * 256, 8 * 256)]);
        let longer = ByteLen(9 * MIB);
        let extended = extend(&extended.runs, longer, Spare::Doubling, &mut free).unwrap();
        assert_eq!(extended.runs[0], run(8 * 256, 8 * 256));
        assert_eq!(extended.runs.len(), 2, "the first half of the gap is the second run");
        let (kept, lost) = trim(&extended.runs, ByteLen(8 * MIB + 1));
        lost.into_iter().for_each(|run| free.release(run));
        assert_eq!(kept.iter().map(|run| run.count.0).collect::<Vec<_>>(), [8 * 256, 1]);
        assert_eq!(free.count(), Blocks(8 * 256 - 1));
    }

    #[test]
    fn small_files_lie_close_together_and_move_when_they_grow() {
        let mut free = free(&[(0, 16 * 256)]);
        let first = grown(&mut free, &[1]);
        assert_eq!((&first.runs, first.copy), (&vec![run(0, 16)], None));
        assert_eq!(grown(&mut free, &[1]).runs, [run(16, 16)]);
        let longer = ByteLen(100_000);
        let moved = extend(&first.runs, longer, Spare::Doubling, &mut free).unwrap();
        assert_eq!(moved.runs, [run(32, 32)]);
        assert_eq!(moved.copy, Some((run(0, 16), run(32, 16))));
    }

    #[test]
    fn only_the_end_behind_the_last_whole_mebibyte_moves() {
        let mut free = free(&[(0, 600), (1024, 1024)]);
        free.reserve(run(0, 600)).unwrap();
        let (had, longer) = (run(0, 600), ByteLen(600 * 4096 + 1));
        let extended = extend(&[had], longer, Spare::Doubling, &mut free).unwrap();
        assert_eq!(extended.runs[0], run(0, 512));
        let (from, to) = extended.copy.unwrap();
        assert_eq!((from, to.count), (run(512, 88), Blocks(88)));
        assert_eq!(extended.runs[1].start, to.start);
    }

    #[test]
    fn a_file_that_cannot_grow_takes_nothing() {
        let mut free = free(&[(512, 300)]);
        let before = free.clone();
        assert!(extend(&[run(0, 512)], ByteLen(4 * MIB), Spare::None, &mut free).is_err());
        assert_eq!(free, before);
        let same = extend(&[run(0, 512)], ByteLen(2 * MIB), Spare::Doubling, &mut free).unwrap();
        assert_eq!((same.runs, same.copy), (vec![run(0, 512)], None));
    }

    proptest! {
        /// Files, however they grow, have runs that an inode may have, and return what they took.
        #[test]
        fn runs_of_a_file_hold_it_and_are_multiples_of_a_mebibyte(
            gaps in prop::collection::vec((1_u64..900, 1_u64..600), 1..12),
            sizes in prop::collection::vec((0_u64..24 << 20, any::<bool>()), 1..8), is_known: bool
        ) {
            let mut at = 0;
            let gaps: Vec<(u64, u64)> = gaps.into_iter().map(|(count, used)| {
                at += count + used;
                (at - count - used, count)
            }).collect();
            let mut free = free(&gaps);
            let before = free.clone();
            let mut runs = if is_known { allocate(&mut free, ByteLen(sizes[0].0)).unwrap_or_default() } else { Vec::new() };
            for (size, is_exact) in sizes {
                let (size, spare) = (ByteLen(size), if is_exact { Spare::None } else { Spare::Doubling });
                let (free_before, runs_before) = (free.clone(), runs.clone());
                let Ok(extended) = extend(&runs, size, spare, &mut free) else {
                    prop_assert_eq!(&free, &free_before);
                    continue;
                };
                let old_len: u64 = runs.iter().map(|run| run.count.0).sum();
                runs = extended.runs;
                let kept_len = match extended.copy {
                    None => old_len,
                    Some((from, to)) => {
                        prop_assert_eq!(from.count, to.count);
                        prop_assert!(runs.iter().any(|run| run.start == to.start));
                        free.release(from);
                        old_len - from.count.0
                    }
                };
                // Bytes that are not copied stay in their place.
                let (kept, _) = trim(&runs, ByteLen(kept_len * 4096));
                let (same, _) = trim(&runs_before, ByteLen(kept_len * 4096));
                prop_assert_eq!(kept, same);
                let held: u64 = runs.iter().map(|run| run.count.0).sum();
                prop_assert!(Blocks(held) >= blocks_for(size));
                prop_assert!(runs.len() <= FILE_RUNS_MAX);
                let (_, before_last) = runs.split_last().map_or((None, &[][..]), |(last, rest)| (Some(last), rest));
                prop_assert!(before_last.iter().all(|run| run.count.0.is_multiple_of(ALIGNMENT)));
            }
            let (kept, lost) = trim(&runs, ByteLen(5 << 20));
            kept.into_iter().chain(lost).for_each(|run| free.release(run));
            prop_assert_eq!(free, before);
        }
    }
}
