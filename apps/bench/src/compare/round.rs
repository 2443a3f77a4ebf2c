//! One round of a comparison, and the statistics of many.

use nearflash_units::Nanos;

use crate::floor::FloorRun;
use crate::placement::Place;
use crate::recorder::Record;
use crate::stats::Quartiles;

/// A side that had its core for less than this fraction of the time was disturbed.
pub const CORE_SHARE_MIN: f64 = 0.95;

/// The result of one measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Operations per second.
    pub iops: f64,
    /// Mean latency, in nanoseconds.
    pub latency_ns: f64,
    /// The fraction of the time that the measuring side ran on its core.
    pub core_share: f64,
}

impl From<&FloorRun> for Figure {
    fn from(run: &FloorRun) -> Self {
        Self { iops: run.rate(), latency_ns: run.latency.mean(), core_share: run.core_share }
    }
}

impl From<&Record> for Figure {
    fn from(record: &Record) -> Self {
        Self {
            iops: record.iops(),
            latency_ns: record.mean_latency_nanos(),
            core_share: record.cpu.total.0 as f64 / record.elapsed.0.max(1) as f64,
        }
    }
}

/// The result of a side in one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Rate and latency.
    pub figure: Figure,
    /// Processor time per operation of client and node together, in nanoseconds.
    pub cpu_ns: f64,
    /// The user time of our own programs.
    pub own_ns: OwnTime,
}

/// User time per operation, in nanoseconds: the threads' exact time, split in the ratio of sampled
/// user and system time. It includes spinning. NaN for a side that is not our own program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OwnTime {
    /// The node's.
    pub node: f64,
    /// The client's.
    pub host: f64,
}

impl OwnTime {
    /// For programs that are not ours.
    pub const NONE: Self = Self { node: f64::NAN, host: f64::NAN };
}

/// All sides, measured shortly after one another.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    /// The sides in the order of their measurement; at least one.
    pub parts: Vec<Part>,
    /// Core-to-core latency before the round.
    pub before: Nanos,
    /// Core-to-core latency after the round.
    pub after: Nanos,
}

/// Whether a round counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It counts.
    Sound,
    /// The cores' place changed during the round.
    Moved,
    /// Another program ran on a core.
    Disturbed,
}

impl Round {
    /// The side that is judged: the last one, because its measurement follows that of the others.
    pub fn subject(&self) -> Part {
        *self.parts.last().expect("a round measures at least one side")
    }

    /// The side that the subject is compared with, if there is one.
    pub fn base(&self) -> Option<Part> {
        self.parts.iter().rev().nth(1).copied()
    }

    /// Whether the round counts.
    pub fn verdict(&self) -> Verdict {
        let is_disturbed =
            |part: &Part| part.figure.core_share < CORE_SHARE_MIN || part.figure.iops <= 0.0;
        if Place::of(self.before) != Place::of(self.after) {
            Verdict::Moved
        } else if self.parts.iter().any(is_disturbed) {
            Verdict::Disturbed
        } else {
            Verdict::Sound
        }
    }
}

/// Statistics over the rounds of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The median.
    pub median: f64,
    /// The lower quartile.
    pub low: f64,
    /// The upper quartile.
    pub high: f64,
    /// Number of rounds that count.
    pub counted: usize,
    /// Number of rounds that do not count.
    pub dropped: usize,
    /// No round was sound, so all rounds count.
    pub is_doubtful: bool,
    /// Median core-to-core latency of the rounds that count.
    pub core_to_core: Nanos,
}

impl Ratio {
    /// The statistics of a score. If no round is sound, all rounds count, and the result is
    /// doubtful.
    pub fn of(rounds: &[Round], score: impl Fn(&Round) -> f64) -> Self {
        let is_sound = |round: &&Round| round.verdict() == Verdict::Sound;
        let is_doubtful = !rounds.iter().any(|round| is_sound(&round));
        let counted = || rounds.iter().filter(|round| is_doubtful || is_sound(round));
        let Quartiles { low, median, high } = Quartiles::or_nan(counted().map(score));
        let distances = Quartiles::or_nan(counted().map(|it| it.before.0 as f64));
        let count = counted().count();
        Self {
            median,
            low,
            high,
            counted: count,
            dropped: rounds.len() - count,
            is_doubtful,
            core_to_core: to_nanos(distances.median),
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a short time")]
fn to_nanos(value: f64) -> Nanos {
    Nanos(value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(iops: f64) -> Part {
        let figure = Figure { iops, latency_ns: 1e9 / iops, core_share: 1.0 };
        Part { figure, cpu_ns: f64::NAN, own_ns: OwnTime::NONE }
    }

    fn round(remote: f64) -> Round {
        Round { parts: vec![part(100.0), part(remote)], before: Nanos(30), after: Nanos(32) }
    }

    fn iops_ratio(round: &Round) -> f64 {
        round.subject().figure.iops / round.base().unwrap().figure.iops
    }

    #[test]
    fn a_round_whose_cores_moved_or_were_shared_does_not_count() {
        let moved = Round { after: Nanos(160), ..round(10.0) };
        let mut disturbed = round(10.0);
        disturbed.parts[0].figure.core_share = 0.5;
        assert_eq!(moved.verdict(), Verdict::Moved);
        assert_eq!(disturbed.verdict(), Verdict::Disturbed);
        let rounds = [moved, disturbed, round(90.0), round(95.0), round(99.0)];
        let ratio = Ratio::of(&rounds, iops_ratio);
        assert_eq!((ratio.median, ratio.counted, ratio.dropped), (0.95, 3, 2));
        assert!(!ratio.is_doubtful);
    }

    #[test]
    fn the_median_of_an_even_count_is_the_middle_of_two_whichever_way_is_better() {
        let rounds = [round(80.0), round(90.0)];
        let ratio = Ratio::of(&rounds, iops_ratio);
        assert!((ratio.median - 0.85).abs() < 1e-12);
        let latencies = Ratio::of(&rounds, |round| round.subject().figure.latency_ns / 1e6);
        assert!((latencies.median - (12.5 + 100.0 / 9.0) / 2.0).abs() < 1e-9);
    }

    #[test]
    fn rounds_far_apart_from_start_to_end_are_in_one_place() {
        let far = Round { before: Nanos(160), after: Nanos(170), ..round(50.0) };
        assert_eq!(far.verdict(), Verdict::Sound);
    }

    #[test]
    fn when_no_round_is_sound_all_count_and_the_ratio_says_so() {
        let moved = Round { after: Nanos(160), ..round(50.0) };
        let ratio = Ratio::of(&[moved.clone(), moved], iops_ratio);
        assert_eq!((ratio.median, ratio.counted, ratio.dropped), (0.5, 2, 0));
        assert!(ratio.is_doubtful);
        assert!(Ratio::of(&[], iops_ratio).median.is_nan());
    }
}
