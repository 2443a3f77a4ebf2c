//! The place of a file: one run when possible, otherwise few.
//!
//! If the size is known, a file gets exactly the blocks that hold it. If it is not, the space doubles
//! as the file grows, in place while the gap behind it lasts. The file holds the part without bytes, and
//! others get it when they need it: see [`Space`](crate::Space).
//!
//! A file that cannot grow in place moves, if it is short. A long one gets a further run. Every run but
//! the last has whole MiB, so the last run then loses its end, of less than 1 MiB, to the next one, and
//! these bytes are copied. Small files therefore lie close together until they grow. The more runs a file
//! has, the longer is a last run that moves instead, so that few files have the most runs. A file that has
//! them, and cannot grow, moves neighbouring runs to one.
//!
//! The length of a file that grows is not known, and files of different lengths must not divide the
//! long gaps that few of them need. So a short file takes the smallest gap that fits, and moves when it
//! becomes longer. A long one takes the beginning of the longest gap, and holds much more of it than it
//! has: the next file that grows would otherwise begin right behind it. It takes the beginning and not
//! the middle, since files that end early in the middle of gaps leave no long gap. On a volume that has
//! aged (`tests/aging.rs`), this gives more files with one run than the middle of the longest gap does,
//! and copies less than longer moves do.

use std::ops::Range;

use nearflash_units::{Blocks, ByteLen};

use crate::free::Fit;
use crate::run::ALIGNMENT;
use crate::{BLOCK, FreeRuns, Run, blocks_for};

/// The number of runs that a file gets. One of the record's runs is left for moving the file.
pub const FILE_RUNS_MAX: usize = 7;

/// The least that a growing file gets at a time, in blocks: 64 KiB.
const STEP_MIN: u64 = 16;

/// The most that a growing file gets at a time, in blocks: 1 GiB.
const STEP_MAX: u64 = 1024 * ALIGNMENT;

/// The longest run that moves when it cannot grow, in blocks: 16 MiB. The write that needs the space
/// waits for the copy.
const MOVED_MAX: u64 = 16 * ALIGNMENT;

/// With each run more than these, a run of [`MOVED_FACTOR`] times this length moves, so that a file
/// seldom reaches [`FILE_RUNS_MAX`] runs.
const FEW_RUNS: usize = 3;

/// See [`FEW_RUNS`].
const MOVED_FACTOR: u64 = 4;

/// A file that grows beyond this number of blocks, 4 MiB, is long.
const LONG: u64 = 4 * ALIGNMENT;

/// A long file holds up to this multiple of the space that it should have.
const HELD_FACTOR: u64 = 32;

/// But the space beyond it, and the one that a file gets when it moves, is at most this part of all free
/// space, which others may need.
const HELD_PART: u64 = 8;

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
    /// Blocks whose contents must be copied first, and the places of the copies. The file no longer
    /// has the former.
    pub copies: Vec<(Run, Run)>,
}

/// The space that a file gets in addition to the needed one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Spare {
    /// None: the size is known.
    None,
    /// As much again as the file has, 1 GiB at most, or less when the gaps are shorter or the space is
    /// short. A long file gets more.
    Doubling,
}

/// A way to find space. Returns whether it has.
type Attempt = fn(&mut Growing, &mut FreeRuns) -> bool;

/// The usual ways, in their order.
const USUAL: [Attempt; 3] = [Growing::in_place, Growing::elsewhere, Growing::in_further_runs];

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
    let growing = Growing::new(runs, needed, spare, free);
    let extended = growing.attempt(&USUAL, free);
    extended.ok_or_else(|| NoSpaceError::new(free, Blocks(growing.missing())))
}

/// [`extend`] for a file that got no space: its runs move to fewer others, and begin anywhere. Of the
/// moves that help, the one of the fewest blocks is made.
///
/// # Errors
/// As [`extend`].
pub(crate) fn extend_by_moving(
    runs: &[Run],
    needed: ByteLen,
    free: &mut FreeRuns,
) -> Result<Extended, NoSpaceError> {
    let growing = Growing { fit: Fit::Anywhere, ..Growing::new(runs, needed, Spare::None, free) };
    let count = runs.len();
    let neighbours = (0..count).flat_map(|at| (at + 1..=count).map(move |end| at..end));
    // One run alone moves to have room behind it, if it is the last one.
    let useful = neighbours.filter(|moved| moved.len() > 1 || moved.end == count);
    let mut moves: Vec<Range<usize>> = std::iter::once(0..0).chain(useful).collect();
    moves.sort_by_key(|moved| block_count(&runs[moved.clone()]));
    for moved in moves {
        let mut gathered = growing.clone();
        if gathered.gather(moved, free)
            && let Some(extended) = gathered.attempt(&USUAL, free)
        {
            return Ok(extended);
        }
        gathered.taken.into_iter().for_each(|run| free.release(run));
    }
    Err(NoSpaceError::new(free, Blocks(growing.missing())))
}

/// A file that is given more space.
#[derive(Clone)]
struct Growing {
    done: Extended,
    /// The blocks that were taken.
    taken: Vec<Run>,
    /// The blocks that it must have.
    needed: u64,
    /// The blocks that it should have.
    wanted: u64,
    spare: Spare,
    fit: Fit,
}

impl Growing {
    fn new(runs: &[Run], needed: ByteLen, spare: Spare, free: &FreeRuns) -> Self {
        let has = block_count(runs);
        let needed = blocks_for(needed).0;
        let doubled = needed.max(has + has.clamp(STEP_MIN, STEP_MAX));
        let doubled = doubled.min(needed + free.count().0 / HELD_PART);
        let unit = if doubled < ALIGNMENT { STEP_MIN } else { ALIGNMENT };
        let wanted = match spare {
            Spare::None => needed,
            Spare::Doubling => doubled.next_multiple_of(unit),
        };
        let done = Extended { runs: runs.to_vec(), copies: Vec::new() };
        Self { done, taken: Vec::new(), needed, wanted, spare, fit: Fit::Aligned }
    }

    /// Takes space in the first of these ways that finds it.
    fn attempt(&self, ways: &[Attempt], free: &mut FreeRuns) -> Option<Extended> {
        if self.missing() == 0 {
            return Some(self.done.clone());
        }
        ways.iter().find_map(|way| {
            let mut growing = Self { taken: Vec::new(), ..self.clone() };
            if way(&mut growing, free) {
                return Some(growing.done);
            }
            growing.taken.into_iter().for_each(|run| free.release(run));
            None
        })
    }

    fn has(&self) -> u64 {
        block_count(&self.done.runs)
    }

    /// The blocks that are still needed.
    fn missing(&self) -> u64 {
        self.needed.saturating_sub(self.has())
    }

    /// Takes blocks behind the last run, if they suffice. Returns whether they do.
    fn in_place(&mut self, free: &mut FreeRuns) -> bool {
        let (missing, wished) = (self.missing(), self.wanted - self.has());
        let Some(last) = self.done.runs.last() else { return false };
        let more = free.gap_at(last.end()).0.min(wished);
        if more < missing {
            return false;
        }
        self.lengthen(more, free);
        true
    }

    /// Takes this number of free blocks behind the last run.
    fn lengthen(&mut self, more: u64, free: &mut FreeRuns) {
        let Some(last) = self.done.runs.last_mut().filter(|_| more != 0) else { return };
        let run = Run::between(last.end().0, last.end().0 + more);
        free.reserve(run).expect("the gap was looked up");
        self.taken.push(run);
        last.count.0 += more;
    }

    /// Moves the last run, if it is short, to a gap that also holds the missing blocks.
    fn elsewhere(&mut self, free: &mut FreeRuns) -> bool {
        let Some(last) = self.done.runs.last().copied() else { return false };
        let further =
            u32::try_from(self.done.runs.len().saturating_sub(FEW_RUNS)).unwrap_or(u32::MAX);
        if last.count.0 > MOVED_MAX.saturating_mul(MOVED_FACTOR.saturating_pow(further)) {
            return false;
        }
        let needed = Blocks(last.count.0 + self.missing());
        let wished = Blocks(last.count.0 + self.wanted - self.has());
        let Some(run) = self.place_for(wished, needed, free) else { return false };
        self.taken.push(run);
        self.done.runs.pop();
        self.done.runs.push(run);
        self.copy(last, run.start.0);
        true
    }

    /// The contents of a run are copied to this place.
    fn copy(&mut self, from: Run, to: u64) {
        self.done.copies.push((from, Run::between(to, to + from.count.0)));
    }

    /// Takes what is free behind the last run, up to a multiple of 1 MiB.
    fn fill_up(&mut self, free: &mut FreeRuns) {
        let wished = self.wanted - self.has();
        let Some(last) = self.done.runs.last() else { return };
        let more = free.gap_at(last.end()).0.min(wished);
        let more = ((last.count.0 + more) / ALIGNMENT * ALIGNMENT).saturating_sub(last.count.0);
        self.lengthen(more, free);
    }

    /// Takes further runs, and moves the end of the last one into them. Returns whether they suffice.
    fn in_further_runs(&mut self, free: &mut FreeRuns) -> bool {
        self.fill_up(free);
        let end = self.cut_end();
        let first = self.done.runs.len();
        if !self.take_runs(free) {
            return false;
        }
        if let Some(end) = end {
            self.copy(end, self.done.runs[first].start.0);
        }
        true
    }

    /// Adds runs until no block is missing. Returns whether they are few enough.
    fn take_runs(&mut self, free: &mut FreeRuns) -> bool {
        while self.missing() != 0 {
            let room = FILE_RUNS_MAX.saturating_sub(self.done.runs.len());
            let (missing, wished) = (Blocks(self.missing()), Blocks(self.wanted - self.has()));
            let whole = if room > 0 { self.place_for(wished, missing, free) } else { None };
            let run = whole.or_else(|| match room > 1 {
                true => free.allocate_part(missing, self.fit),
                false => None,
            });
            let Some(run) = run else { return false };
            self.taken.push(run);
            self.done.runs.push(run);
        }
        true
    }

    /// Moves neighbouring runs to one run, or the last ones to as few as possible, with the missing
    /// blocks. Returns whether there is space for them.
    fn gather(&mut self, which: Range<usize>, free: &mut FreeRuns) -> bool {
        let later = self.done.runs.split_off(which.end);
        let moved = self.done.runs.split_off(which.start);
        let found = match (moved.is_empty(), later.is_empty()) {
            (true, _) => true,
            (false, true) => self.take_runs(free),
            (false, false) => {
                let run = free.allocate_fitting(Blocks(block_count(&moved)), self.fit);
                self.taken.extend(run);
                self.done.runs.extend(run);
                run.is_some()
            }
        };
        if found {
            let places = self.done.runs[which.start..].to_vec();
            self.copy_all(moved, places);
        }
        self.done.runs.extend(later);
        found
    }

    /// The contents of runs are copied to these places.
    fn copy_all(&mut self, moved: Vec<Run>, places: Vec<Run>) {
        let mut places = places.into_iter();
        let mut place = places.next();
        for mut from in moved {
            while from.count.0 != 0 {
                let to = place.expect("the places are as long as the runs or longer");
                let count = from.count.0.min(to.count.0);
                self.copy(from.first(count), to.start.0);
                from = from.behind(count);
                place =
                    Some(to.behind(count)).filter(|to| to.count.0 != 0).or_else(|| places.next());
            }
        }
    }

    /// Cuts the end behind the last whole MiB off the last run.
    fn cut_end(&mut self) -> Option<Run> {
        let last = self.done.runs.last_mut()?;
        let kept = last.count.0 / ALIGNMENT * ALIGNMENT;
        let end = last.behind(kept);
        last.count = Blocks(kept);
        if kept == 0 {
            self.done.runs.pop();
        }
        (end.count.0 != 0).then_some(end)
    }

    /// A run of the wished blocks, or else of as many as possible, but not fewer than are needed. A
    /// long one that may grow gets more: see the doc of the module.
    fn place_for(&self, wished: Blocks, needed: Blocks, free: &mut FreeRuns) -> Option<Run> {
        let may_grow = self.spare == Spare::Doubling && wished.0 > LONG;
        let more = wished.0.saturating_mul(HELD_FACTOR - 1).min(free.count().0 / HELD_PART);
        let run = match may_grow {
            true => free.allocate_most(wished, Blocks(wished.0 + more), self.fit),
            false => free.allocate_fitting(wished, self.fit),
        };
        run.or_else(|| free.allocate_most(needed, wished, self.fit))
    }
}

pub(crate) fn block_count(runs: &[Run]) -> u64 {
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
        let mut extended = Extended { runs: vec![], copies: vec![] };
        for len in lens {
            extended = extend(&extended.runs, ByteLen(*len), Spare::Doubling, free).unwrap();
            extended.copies.iter().for_each(|(from, _)| free.release(*from));
        }
        extended
    }

    #[test]
    fn a_growing_file_stays_in_one_run_while_the_gap_behind_it_lasts() {
        let mut free = free(&[(0, 32 * 256), (10_000, 64 * 256)]);
        let extended = grown(&mut free, &[MIB, 2 * MIB]);
        assert_eq!(extended.runs, [run(0, 2 * 256)], "a short file leaves the long gap whole");
        let longer = ByteLen(3 * MIB);
        free.reserve(run(2 * 256, 256)).unwrap();
        let extended = extend(&extended.runs, longer, Spare::Doubling, &mut free).unwrap();
        assert_eq!(
            (extended.runs, extended.copies),
            (vec![run(3 * 256, 4 * 256)], vec![(run(0, 512), run(3 * 256, 512))])
        );
    }

    #[test]
    fn a_long_file_holds_the_beginning_of_the_longest_gap() {
        let mut free = free(&[(0, 8 * 256), (10 * 256, 64 * 256)]);
        let whole = 72 * 256 / HELD_PART;
        let extended = grown(&mut free, &[5 * MIB]);
        let held = (8 * 256 - 3 * 256 + whole) / 256 * 256;
        assert_eq!(extended.runs, [run(10 * 256, held)]);
        assert_eq!(grown(&mut free, &[MIB]).runs, [run(0, 256)]);
        let (kept, lost) = trim(&extended.runs, ByteLen(5 * MIB + 1));
        lost.into_iter().for_each(|run| free.release(run));
        assert_eq!(kept, [run(10 * 256, 5 * 256 + 1)]);
    }

    #[test]
    fn a_file_that_no_gap_holds_gets_the_longest_ones() {
        let mut free = free(&[(0, 3 * 256), (1024, 512), (2048, 100)]);
        let extended = grown(&mut free, &[2 * MIB, 4 * MIB + 1]);
        assert_eq!(extended.runs, [run(1024, 512), run(0, 768)]);
        assert_eq!(extended.copies, []);
    }

    #[test]
    fn small_files_lie_close_together_and_move_when_they_grow() {
        let mut free = free(&[(0, 16 * 256)]);
        let first = grown(&mut free, &[1]);
        assert_eq!((&first.runs[..], &first.copies[..]), (&[run(0, 16)][..], &[][..]));
        assert_eq!(grown(&mut free, &[1]).runs, [run(16, 16)]);
        let longer = ByteLen(100_000);
        let moved = extend(&first.runs, longer, Spare::Doubling, &mut free).unwrap();
        assert_eq!(moved.runs, [run(32, 32)]);
        assert_eq!(moved.copies, [(run(0, 16), run(32, 16))]);
    }

    #[test]
    fn of_a_long_run_only_the_end_behind_the_last_whole_mebibyte_moves() {
        let count = MOVED_MAX + 88;
        let mut free = free(&[(0, count), (1 << 14, 1 << 14)]);
        free.reserve(run(0, count)).unwrap();
        let (had, longer) = (run(0, count), ByteLen(count * 4096 + 1));
        let extended = extend(&[had], longer, Spare::Doubling, &mut free).unwrap();
        assert_eq!(extended.runs[0], run(0, MOVED_MAX));
        let [(from, to)] = extended.copies[..] else { panic!("{extended:?}") };
        assert_eq!((from, to.count), (run(MOVED_MAX, 88), Blocks(88)));
        assert_eq!(extended.runs[1].start, to.start);
    }

    #[test]
    fn a_file_that_cannot_grow_takes_nothing() {
        let mut free = free(&[(512, 300)]);
        let before = free.clone();
        assert!(extend(&[run(0, 512)], ByteLen(4 * MIB), Spare::None, &mut free).is_err());
        assert_eq!(free, before);
        let same = extend(&[run(0, 512)], ByteLen(2 * MIB), Spare::Doubling, &mut free).unwrap();
        assert_eq!((same.runs, same.copies), (vec![run(0, 512)], vec![]));
    }

    #[test]
    fn a_file_with_the_most_runs_gets_space_when_neighbouring_runs_move_to_one() {
        let mut had: Vec<Run> = (0..7).map(|at| run(1024 * at, 512)).collect();
        (had[3].count, had[4].count, had[6].count) = (Blocks(256), Blocks(256), Blocks(1024));
        let mut free = free(&[(16_641, 600), (30_000, 100)]);
        let size = ByteLen(14 * MIB + 1);
        assert!(extend(&had, size, Spare::None, &mut free).is_err());
        let extended = extend_by_moving(&had, size, &mut free).unwrap();
        let (merged, behind) = (run(16_641, 512), run(17_153, 1));
        assert_eq!(extended.runs, [&had[..3], &[merged, had[5], had[6], behind]].concat());
        let copies = [(had[3], run(16_641, 256)), (had[4], run(16_641 + 256, 256))];
        assert_eq!(extended.copies, copies);
    }

    /// The blocks of a file in their order.
    fn blocks(runs: &[Run]) -> Vec<u64> {
        runs.iter().flat_map(|run| run.start.0..run.end().0).collect()
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
                let free_before = free.clone();
                let extended = extend(&runs, size, spare, &mut free);
                let Ok(extended) = extended.or_else(|_| extend_by_moving(&runs, size, &mut free)) else {
                    prop_assert_eq!(&free, &free_before);
                    continue;
                };
                // Every block is where it was, or is copied to where it is now.
                let copies = || extended.copies.iter().flat_map(|(from, to)| {
                    blocks(&[*from]).into_iter().zip(blocks(&[*to]))
                });
                let copied: std::collections::BTreeMap<u64, u64> = copies().collect();
                prop_assert_eq!(copied.len(), copies().count());
                for (old, new) in blocks(&runs).into_iter().zip(blocks(&extended.runs)) {
                    prop_assert_eq!(copied.get(&old).copied().unwrap_or(old), new);
                }
                runs = extended.runs;
                extended.copies.into_iter().for_each(|(from, _)| free.release(from));
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
