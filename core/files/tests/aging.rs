//! A volume that ages: files are created and removed until twenty times its bytes were written, while
//! four fifths of it are in use. The files have lengths whose logarithms are evenly distributed from
//! 4 KiB to a sixty-fourth of the volume. Of some, the length is known when they are created; the
//! others grow in pieces, several at a time. Complete files of several runs move to one after a commit.
//!
//! The table of docs/performance-files.md: `cargo test --release -p nearflash-files --test aging --
//! --ignored --nocapture`.
#![allow(clippy::unwrap_used)] // a failed test says where

use nearflash_files::{
    BLOCK, DATA_START, FreeRuns, Grower, Quarantine, Run, Space, Spare, joined_max,
};
use nearflash_units::{Blocks, ByteLen, KIB, MIB};

/// The parts of a volume that are in use, in percent.
const USED_PERCENT: u64 = 80;
/// The bytes that are written, as a multiple of the volume.
const TURNS: u64 = 20;
/// The shortest file.
const FILE_LEN_MIN: u64 = 4 * KIB;
/// The longest file, as a part of the volume.
const FILE_PART: u64 = 64;
/// The files that grow at the same time.
const WRITERS: usize = 8;
/// The number of steps between two commits, which release removed files' space.
const COMMIT_STEPS: u64 = 64;

/// Random numbers from a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A length between two bounds whose logarithm is evenly distributed.
    fn length(&mut self, min: u64, max: u64) -> u64 {
        let doublings = max.ilog2() - min.ilog2();
        let base = min << self.below(doublings.into());
        base + self.below(base)
    }
}

/// A file that is being written.
struct Writer {
    grower: Grower,
    runs: Vec<Run>,
    len: u64,
    written: u64,
    /// The length of each write.
    piece: u64,
    spare: Spare,
}

/// How a volume is aged.
#[derive(Clone, Copy, Debug)]
struct Aging {
    volume: ByteLen,
    /// The files whose length is known when they are created, in percent.
    known_percent: u64,
    seed: u64,
}

/// The state of an aged volume, as the means of many moments.
#[derive(Debug)]
struct Aged {
    files: u64,
    /// Files with one run, in percent.
    one_run: f64,
    /// Files with one run at the worst moment, in percent.
    one_run_min: f64,
    /// Bytes of files with one run, in percent.
    bytes_in_one_run: f64,
    runs_max: usize,
    gaps: usize,
    /// The bytes that were copied to another place, in percent of those written.
    moved: f64,
    /// The files for which there was no space.
    refused: u64,
}

/// A volume of files without contents.
struct Volume {
    aging: Aging,
    dice: Dice,
    space: Space,
    quarantine: Quarantine,
    /// The complete files.
    files: Vec<Vec<Run>>,
    writers: Vec<Writer>,
    steps: u64,
    written: u64,
    moved: u64,
    /// The files for which there was no space.
    refused: u64,
}

fn len(runs: &[Run]) -> u64 {
    runs.iter().map(|run| run.len().0).sum()
}

impl Volume {
    fn new(aging: Aging) -> Self {
        let blocks = BLOCK.blocks_in(aging.volume).0 - DATA_START.0;
        Self {
            aging,
            dice: Dice(aging.seed),
            space: Space::new(FreeRuns::new(Run { start: DATA_START, count: Blocks(blocks) })),
            quarantine: Quarantine::default(),
            files: Vec::new(),
            writers: Vec::new(),
            steps: 0,
            written: 0,
            moved: 0,
            refused: 0,
        }
    }

    /// The bytes of complete files, and of those that grow when they are complete.
    fn planned(&self) -> u64 {
        let growing: u64 = self.writers.iter().map(|writer| writer.len).sum();
        self.files.iter().map(|runs| len(runs)).sum::<u64>() + growing
    }

    /// Begins a file. Files are removed first if it does not fit in the part that is used.
    fn begin(&mut self) {
        let file_len = self.dice.length(FILE_LEN_MIN, self.aging.volume.0 / FILE_PART);
        while self.planned() + file_len > self.aging.volume.0 / 100 * USED_PERCENT {
            let at = usize::try_from(self.dice.below(self.files.len() as u64)).unwrap();
            let removed = self.files.swap_remove(at);
            removed.into_iter().for_each(|run| self.quarantine.hold(self.steps, run));
        }
        let is_known = self.dice.below(100) < self.aging.known_percent;
        let (piece, spare) = match is_known {
            true => (file_len, Spare::None),
            false => (self.dice.length(4 * KIB, 4 * MIB), Spare::Doubling),
        };
        let (grower, runs) = (self.space.grower(), Vec::new());
        self.writers.push(Writer { grower, runs, len: file_len, written: 0, piece, spare });
    }

    /// Writes the next piece of a file that grows.
    fn write(&mut self) {
        let at = usize::try_from(self.dice.below(self.writers.len() as u64)).unwrap();
        let writer = &mut self.writers[at];
        let written = (writer.written + writer.piece).min(writer.len);
        let Writer { grower, spare, .. } = *writer;
        let mut extended = self.space.grow(grower, &writer.runs, ByteLen(written), spare);
        if extended.is_err() {
            self.commit();
            let writer = &self.writers[at];
            extended = self.space.grow(grower, &writer.runs, ByteLen(written), spare);
        }
        if extended.is_err() {
            let writer = &self.writers[at];
            extended = self.space.grow_by_moving(&writer.runs, ByteLen(written));
        }
        let writer = &mut self.writers[at];
        let Ok(extended) = extended else {
            self.refused += 1;
            let writer = self.writers.swap_remove(at);
            writer.runs.into_iter().for_each(|run| self.space.release(run));
            return;
        };
        self.written += written - writer.written;
        (writer.runs, writer.written) = (extended.runs, written);
        let is_complete = written == writer.len;
        self.copy(extended.copies);
        if is_complete {
            let writer = self.writers.swap_remove(at);
            self.space.let_go(writer.grower);
            self.files.push(writer.runs);
        }
    }

    /// Moves files of several runs to one, as far as gaps hold them.
    fn tidy(&mut self) {
        let mut left = joined_max(self.aging.volume);
        for at in 0..self.files.len() {
            let Some(joined) = self.space.join(&self.files[at], left) else { continue };
            let copied: u64 = joined.copies.iter().map(|(from, _)| from.len().0).sum();
            left = ByteLen(left.0 - copied);
            self.files[at] = joined.runs;
            self.copy(joined.copies);
        }
    }

    fn copy(&mut self, copies: Vec<(Run, Run)>) {
        for (from, _) in copies {
            self.moved += from.len().0;
            self.quarantine.hold(self.steps, from);
        }
    }

    fn step(&mut self) {
        self.steps += 1;
        if self.writers.len() < WRITERS {
            self.begin();
        }
        self.write();
        if self.steps.is_multiple_of(COMMIT_STEPS) {
            self.commit();
            self.tidy();
        }
    }

    fn commit(&mut self) {
        let released = self.quarantine.released_by(self.steps);
        released.into_iter().for_each(|run| self.space.release(run));
    }

    /// The share of files with one run, and of their bytes, in percent.
    fn one_run(&self) -> (f64, f64) {
        let whole: Vec<_> = self.files.iter().filter(|runs| runs.len() == 1).collect();
        let bytes = |runs: &[&Vec<Run>]| runs.iter().map(|runs| len(runs)).sum::<u64>();
        let all: Vec<_> = self.files.iter().collect();
        let percent = |part: u64, of: u64| 100.0 * part as f64 / of as f64;
        (percent(whole.len() as u64, all.len() as u64), percent(bytes(&whole), bytes(&all)))
    }
}

/// Fills a volume, and changes its files [`TURNS`] times.
fn age(aging: Aging) -> Aged {
    let mut volume = Volume::new(aging);
    let (mut moments, mut files, mut bytes) = (Vec::new(), 0.0, 0.0);
    let mut next = aging.volume.0;
    let mut runs_max = 0;
    while volume.written < aging.volume.0 * (TURNS + 1) {
        volume.step();
        if volume.written >= next {
            next += aging.volume.0 / 4;
            let (in_one, bytes_in_one) = volume.one_run();
            moments.push(in_one);
            files += in_one;
            bytes += bytes_in_one;
            runs_max = volume.files.iter().map(Vec::len).max().unwrap().max(runs_max);
        }
    }
    let count = moments.len() as f64;
    Aged {
        files: volume.files.len() as u64,
        one_run: files / count,
        one_run_min: moments.into_iter().fold(100.0, f64::min),
        bytes_in_one_run: bytes / count,
        runs_max,
        gaps: volume.space.free().gaps(),
        moved: 100.0 * volume.moved as f64 / volume.written as f64,
        refused: volume.refused,
    }
}

#[test]
fn most_files_of_an_aged_volume_have_one_run() {
    for (seed, known_percent) in [(1, 100), (2, 50), (3, 0)] {
        let aging = Aging { volume: ByteLen(16 << 30), known_percent, seed };
        let aged = age(aging);
        assert!(aged.one_run >= 95.0, "{aging:?}: {aged:?}");
        assert_eq!(aged.refused, 0, "{aging:?}: {aged:?}");
    }
}

#[test]
#[ignore = "prints the table of docs/performance-files.md, and takes a minute"]
#[expect(clippy::disallowed_macros, reason = "the table is for people")]
fn the_table_of_aged_volumes_is_printed() {
    println!(
        "| volume | known | files | one run | worst | bytes | most runs | gaps | moved | refused |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for shift in [30, 34, 36, 38] {
        for known_percent in [100, 50, 0] {
            let aged = age(Aging { volume: ByteLen(1 << shift), known_percent, seed: 1 });
            println!(
                "| {} | {known_percent} % | {} | {:.1} % | {:.1} % | {:.1} % | {} | {} | {:.1} % | {} |",
                ByteLen(1 << shift),
                aged.files,
                aged.one_run,
                aged.one_run_min,
                aged.bytes_in_one_run,
                aged.runs_max,
                aged.gaps,
                aged.moved,
                aged.refused
            );
        }
    }
}
