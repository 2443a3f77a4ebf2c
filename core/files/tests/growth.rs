//! Files that grow at the same time in a small volume.
#![allow(clippy::unwrap_used)] // a failed test says where

use nearflash_files::{
    BLOCK, DATA_START, FILE_RUNS_MAX, FreeRuns, Grower, Run, Space, Spare, blocks_for,
};
use nearflash_units::{Blocks, ByteLen, KIB, MIB};
use proptest::prelude::*;

/// The part of the volume that the files fill, in percent.
const USED_PERCENT: u64 = 90;

/// The blocks of 1 MiB.
const MEBIBYTE: u64 = 256;

struct Growing {
    grower: Grower,
    runs: Vec<Run>,
    len: u64,
}

struct Volume {
    area: Run,
    space: Space,
    files: Vec<Growing>,
}

impl Volume {
    fn new(len: u64, count: usize) -> Self {
        let end = BLOCK.blocks_in(ByteLen(len)).0;
        let area = Run { start: DATA_START, count: Blocks(end - DATA_START.0) };
        let mut space = Space::new(FreeRuns::new(area));
        let growing = |_| Growing { grower: space.grower(), runs: Vec::new(), len: 0 };
        let files = (0..count).map(growing).collect();
        Self { area, space, files }
    }

    /// The bytes that the files may still get.
    fn left(&self) -> u64 {
        let used: u64 = self.files.iter().map(|file| file.len).sum();
        (self.area.len().0 / 100 * USED_PERCENT).saturating_sub(used)
    }

    fn grow(&mut self, at: usize, more: u64) -> Result<(), String> {
        let file = &mut self.files[at];
        let needed = ByteLen(file.len + more);
        let grown = self.space.grow(file.grower, &file.runs, needed, Spare::Doubling);
        let grown = grown.or_else(|_| self.space.grow_by_moving(&file.runs, needed));
        let grown = grown.map_err(|error| error.to_string())?;
        let copied: u64 = grown.copies.iter().map(|(from, _)| from.len().0).sum();
        assert!(copied <= file.len.next_multiple_of(4 * KIB), "only bytes of the file are copied");
        grown.copies.into_iter().for_each(|(from, _)| self.space.release(from));
        (file.runs, file.len) = (grown.runs, needed.0);
        Ok(())
    }

    /// Whether the longest gaps, as many as the file may have further runs, have too few whole MiB for
    /// its blocks behind its last whole MiB and for `more` bytes.
    fn is_short_for(&self, at: usize, more: u64) -> bool {
        let Growing { runs, len, .. } = &self.files[at];
        let end = runs.last().map_or(0, |run| run.count.0 % MEBIBYTE);
        let is_end_a_run = runs.last().is_some_and(|run| run.count.0 < MEBIBYTE);
        let further = FILE_RUNS_MAX - runs.len() + usize::from(is_end_a_run);
        let has: u64 = runs.iter().map(|run| run.count.0).sum();
        let needed = end + blocks_for(ByteLen(len + more)).0 - has;
        let mut gaps: Vec<u64> =
            self.space.free().iter().map(|gap| gap.count.0 / MEBIBYTE).collect();
        gaps.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
        gaps.iter().take(further).sum::<u64>() * MEBIBYTE < needed.next_multiple_of(MEBIBYTE)
    }

    /// Every block is free, held, or in exactly one file; the files have exactly their blocks.
    fn check(&self) {
        let mut all: Vec<Run> = self.space.free().iter().collect();
        for file in &self.files {
            let count: u64 = file.runs.iter().map(|run| run.count.0).sum();
            assert_eq!(Blocks(count), blocks_for(ByteLen(file.len)));
            assert!(file.runs.len() <= FILE_RUNS_MAX);
            let (_, whole) = file.runs.split_last().unwrap_or((&self.area, &[]));
            assert!(whole.iter().all(|run| run.len().0.is_multiple_of(MIB)), "{:?}", file.runs);
            all.extend(&file.runs);
        }
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0].end() <= pair[1].start), "{all:?}");
        let count: u64 = all.iter().map(|run| run.count.0).sum();
        let held = self.space.count().0 - self.space.free().count().0;
        assert_eq!(count + held, self.area.count.0);
    }
}

/// Random numbers from a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }

    fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count.try_into().unwrap())).unwrap()
    }
}

/// The volumes of random sizes that files fill in random order.
const HISTORIES: u64 = 1000;

#[test]
fn files_that_grow_together_are_not_refused_while_a_tenth_of_the_volume_is_left() {
    for seed in 0..HISTORIES {
        let mut dice = Dice(seed);
        let count = 1 + dice.index(6);
        let mut volume = Volume::new((64 + dice.below(96)) * MIB, count);
        while volume.left() != 0 {
            let more = (1 + dice.below(4 * MIB)) >> dice.below(12);
            let at = dice.index(count);
            let grown = volume.grow(at, more.clamp(1, volume.left()));
            assert_eq!(grown, Ok(()), "seed {seed}, {} bytes left", volume.left());
        }
        volume.check();
    }
}

proptest! {
    /// The runs that a file may still get do not hold what it needs.
    #[test]
    fn a_file_is_refused_only_if_too_few_mebibytes_lie_in_the_gaps_of_its_further_runs(
        mebibytes in 16_u64..96,
        count in 1_usize..8,
        pieces in prop::collection::vec((any::<prop::sample::Index>(), 1_u64..=4 * MIB, 0_u32..12), 1..40),
    ) {
        let mut volume = Volume::new(mebibytes * MIB, count);
        // The same pieces again and again: files grow in turn until one is refused.
        for (at, len, shift) in pieces.into_iter().cycle() {
            let (at, more) = (at.index(count), (len >> shift).max(1));
            if volume.grow(at, more).is_err() {
                prop_assert!(volume.is_short_for(at, more));
                break;
            }
            volume.check();
        }
        volume.check();
    }
}

#[test]
fn files_that_grow_in_turn_fill_a_small_volume() {
    let mut volume = Volume::new(32 * MIB, 4);
    for _ in 0..5 {
        (0..4).for_each(|at| volume.grow(at, MIB).unwrap());
        volume.check();
    }
}
