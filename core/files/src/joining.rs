//! Files of several runs that move to one.
//!
//! A file that grew while others did has several runs if no gap was long enough. Files come and go, so there may
//! be such a gap later. The file then moves to it once: its length is known now. If there is space around one of
//! its runs for all others, that run stays, and the others are copied next to it. Otherwise, the whole file is
//! copied to the smallest gap that holds it.
//!
//! On a volume that has aged (`tests/aging.rs`), a move at the moment at which the file gets its length hardly
//! helps: the gap that it needs is seldom there just then. A file that tries again after each commit gets it.
//!
//! Only space that no other file holds is taken, so a file that grows does not lose what is behind it.

use nearflash_units::{Blocks, ByteLen, MIB};

use crate::free::Fit;
use crate::policy::block_count;
use crate::run::ALIGNMENT;
use crate::{Extended, FreeRuns, Run, without};

/// The bytes that are copied at a time are at most this part of the volume.
const JOINED_PART: u64 = 100;

/// The bounds of these bytes in any volume.
const JOINED_BOUNDS: [ByteLen; 2] = [ByteLen(8 * MIB), ByteLen(4096 * MIB)];

/// The most bytes that are copied at a time when files move to one run, in a volume of this length.
pub fn joined_max(volume_len: ByteLen) -> ByteLen {
    let [least, most] = JOINED_BOUNDS;
    ByteLen(volume_len.0 / JOINED_PART).clamp(least, most)
}

/// Takes space, so that a file with these runs has one run, and at most `copied_max` blocks are copied. Of the
/// ways to do that, the one that copies the fewest blocks is taken. `None` if the file has one run, or there is
/// no way. Then nothing is taken.
pub(crate) fn join(runs: &[Run], copied_max: Blocks, free: &mut FreeRuns) -> Option<Extended> {
    if runs.len() < 2 {
        return None;
    }
    let runs = &touching_as_one(runs)[..];
    if runs.len() == 1 {
        return Some(Extended { runs: runs.to_vec(), copies: Vec::new() });
    }
    let staying = (0..runs.len()).filter(|at| place_around(runs, *at, free).is_some());
    let staying = staying.max_by_key(|at| runs[*at].count);
    let count = block_count(runs);
    let copied = count - staying.map_or(0, |at| runs[at].count.0);
    if copied > copied_max.0 {
        return None;
    }
    let place = match staying {
        Some(at) => place_around(runs, at, free),
        None => free.allocate_fitting(Blocks(count), Fit::Aligned),
    }?;
    if let Some(at) = staying {
        for part in without(&[place], &[runs[at]]) {
            free.reserve(part).expect("the gaps were looked up");
        }
    }
    Some(Extended { runs: vec![place], copies: copies(runs, place) })
}

/// The runs, of which those that follow each other on the volume, too, are one.
fn touching_as_one(runs: &[Run]) -> Vec<Run> {
    let mut merged: Vec<Run> = Vec::new();
    for run in runs {
        match merged.last_mut().filter(|last| last.end() == run.start) {
            Some(last) => last.count.0 += run.count.0,
            None => merged.push(*run),
        }
    }
    merged
}

/// The run that the file gets if this one of its runs stays, and the blocks around it are free.
fn place_around(runs: &[Run], at: usize, free: &FreeRuns) -> Option<Run> {
    let (before, behind) = (block_count(&runs[..at]), block_count(&runs[at + 1..]));
    let stays = runs[at];
    let has_room = free.gap_before(stays.start).0 >= before && free.gap_at(stays.end()).0 >= behind;
    let place = has_room.then(|| Run::between(stays.start.0 - before, stays.end().0 + behind))?;
    place.start.0.is_multiple_of(ALIGNMENT).then_some(place)
}

/// The runs that are copied when the file moves to this place, and where to.
fn copies(runs: &[Run], place: Run) -> Vec<(Run, Run)> {
    let mut start = place.start.0;
    let mut copies = Vec::new();
    for from in runs {
        let to = Run::between(start, start + from.count.0);
        start = to.end().0;
        if to != *from {
            copies.push((*from, to));
        }
    }
    copies
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_units::Lba;
    use proptest::prelude::*;

    const END: u64 = 1 << 16;
    const ALL: Blocks = Blocks(u64::MAX);

    fn run(start: u64, count: u64) -> Run {
        Run { start: Lba(start), count: Blocks(count) }
    }

    fn free(gaps: &[(u64, u64)]) -> FreeRuns {
        let mut free = FreeRuns::new(run(0, END));
        free.reserve(run(0, END)).unwrap();
        gaps.iter().for_each(|(start, count)| free.release(run(*start, *count)));
        free
    }

    #[test]
    fn a_file_moves_to_the_smallest_gap_that_holds_it() {
        let mut free = free(&[(4096, 1024), (8192, 600), (16_384, 500)]);
        let runs = [run(0, 256), run(1024, 300)];
        let joined = join(&runs, ALL, &mut free).unwrap();
        assert_eq!(joined.runs, [run(8192, 556)]);
        assert_eq!(joined.copies, [(runs[0], run(8192, 256)), (runs[1], run(8448, 300))]);
        assert_eq!(free.count(), Blocks(1024 + 600 + 500 - 556));
    }

    #[test]
    fn the_longest_run_with_space_around_it_stays() {
        // Around the second and the third run, there is space.
        let mut free = free(&[(2048 - 256, 256), (2048 + 512, 300), (512, 1024), (16_384, 4096)]);
        let runs = [run(8192, 256), run(2048, 512), run(1536, 300)];
        let joined = join(&runs, Blocks(556), &mut free).unwrap();
        assert_eq!(joined.runs, [run(2048 - 256, 256 + 512 + 300)]);
        let copies = [(runs[0], run(2048 - 256, 256)), (runs[2], run(2048 + 512, 300))];
        assert_eq!(joined.copies, copies);
    }

    #[test]
    fn a_file_that_has_one_run_or_for_which_too_much_is_copied_takes_nothing() {
        let mut free = free(&[(4096, 4096)]);
        let before = free.clone();
        assert_eq!(join(&[], ALL, &mut free), None);
        assert_eq!(join(&[run(0, 256)], ALL, &mut free), None);
        assert_eq!(join(&[run(0, 256), run(512, 10)], Blocks(265), &mut free), None);
        assert_eq!(join(&[run(0, 2560), run(3000, 1537)], ALL, &mut free), None, "no gap");
        assert_eq!(free, before);
        assert!(join(&[run(0, 256), run(512, 10)], Blocks(266), &mut free).is_some());
    }

    #[test]
    fn runs_that_follow_each_other_on_the_volume_become_one_without_a_copy() {
        let mut free = free(&[]);
        let joined = join(&[run(256, 512), run(768, 7)], Blocks(0), &mut free).unwrap();
        assert_eq!(joined, Extended { runs: vec![run(256, 519)], copies: vec![] });
    }

    proptest! {
        /// Every block is copied to its place or is there already, and exactly the new ones are taken.
        #[test]
        fn a_joined_file_has_its_blocks_in_their_order_and_takes_no_others(
            parts in prop::collection::vec((1_u64..4, 0_u64..4, any::<bool>()), 2..8),
            end in 1_u64..600, order in any::<prop::sample::Index>(), copied_max in 0_u64..4096
        ) {
            // Parts of the volume, each in the file or used by others, with gaps between them.
            let (mut at, mut runs, mut gaps) = (0, Vec::new(), Vec::new());
            for (count, gap, is_of_file) in parts {
                let part = run(at, count * ALIGNMENT);
                if is_of_file { runs.push(part) }
                gaps.extend((gap != 0).then_some((part.end().0, gap * ALIGNMENT)));
                at = part.end().0 + gap * ALIGNMENT;
            }
            runs.push(run(at, end));
            let count = runs.len() - 1;
            if count > 0 { runs[..count].rotate_left(order.index(count)) }
            let mut free = free(&gaps);
            let before = free.clone();
            let Some(joined) = join(&runs, Blocks(copied_max), &mut free) else {
                prop_assert_eq!(free, before);
                return Ok(());
            };
            prop_assert_eq!(joined.runs.len(), 1);
            prop_assert!(joined.runs[0].start.0.is_multiple_of(ALIGNMENT));
            let copied: u64 = joined.copies.iter().map(|(from, _)| from.count.0).sum();
            prop_assert!(copied <= copied_max);
            let blocks = |runs: &[Run]| -> Vec<u64> {
                runs.iter().flat_map(|run| run.start.0..run.end().0).collect()
            };
            let copies: std::collections::BTreeMap<u64, u64> = joined.copies.iter().flat_map(|(from, to)| {
                blocks(&[*from]).into_iter().zip(blocks(&[*to]))
            }).collect();
            let moved: Vec<u64> =
                blocks(&runs).iter().map(|old| copies.get(old).copied().unwrap_or(*old)).collect();
            prop_assert_eq!(moved, blocks(&joined.runs));
            // The former places are free once they are released, and nothing else is.
            joined.copies.iter().for_each(|(from, _)| free.release(*from));
            joined.runs.iter().for_each(|run| free.release(*run));
            let mut all = before;
            runs.iter().for_each(|run| all.release(*run));
            prop_assert_eq!(free, all);
        }
    }
}
