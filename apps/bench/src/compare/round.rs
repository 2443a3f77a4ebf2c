//! One round of a comparison, and what many of them say.

use nearflash_units::Nanos;

use crate::floor::FloorRun;
use crate::placement::Place;
use crate::recorder::Record;

/// A side that got less of its core than this was disturbed.
pub const CORE_SHARE_MIN: f64 = 0.95;

/// What one measurement says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Operations per second.
    pub iops: f64,
    /// Mean, in nanoseconds.
    pub latency_ns: f64,
    /// The part of the time that the measuring side had its core.
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

/// All sides, measured shortly after one another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// The bare exchange.
    pub floor: Figure,
    /// The same device without the network; none beside the null device.
    pub local: Option<Figure>,
    /// Through NVMe/TCP.
    pub remote: Figure,
    /// Core to core before.
    pub before: Nanos,
    /// Core to core after.
    pub after: Nanos,
}

/// Whether a round counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It does.
    Sound,
    /// The cores moved between its halves.
    Moved,
    /// Something else ran on a core.
    Disturbed,
}

/// Sides measured shortly after one another.
pub trait Measured {
    /// Whether it counts.
    fn verdict(&self) -> Verdict;

    /// Core to core, before.
    fn core_to_core(&self) -> Nanos;
}

impl Measured for Round {
    fn verdict(&self) -> Verdict {
        let sides = [Some(self.floor), self.local, Some(self.remote)];
        verdict_of(sides.into_iter().flatten(), self.before, self.after)
    }

    fn core_to_core(&self) -> Nanos {
        self.before
    }
}

/// Whether sides that were measured between two looks at the cores count.
pub(super) fn verdict_of(
    mut sides: impl Iterator<Item = Figure>,
    before: Nanos,
    after: Nanos,
) -> Verdict {
    let is_disturbed = |figure: Figure| figure.core_share < CORE_SHARE_MIN || figure.iops <= 0.0;
    if Place::of(before) != Place::of(after) {
        Verdict::Moved
    } else if sides.any(is_disturbed) {
        Verdict::Disturbed
    } else {
        Verdict::Sound
    }
}

/// What the rounds of one comparison say together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The middle one.
    pub median: f64,
    /// A quarter is below.
    pub low: f64,
    /// A quarter is above.
    pub high: f64,
    /// How many rounds counted.
    pub counted: usize,
    /// How many did not.
    pub dropped: usize,
    /// No round was sound, so all of them were taken.
    pub is_doubtful: bool,
    /// The middle one of the core-to-core times of the rounds that counted.
    pub core_to_core: Nanos,
}

impl Ratio {
    /// Of some rounds' scores. When no round is sound, all count, and it says so.
    pub fn of<M: Measured>(rounds: &[M], score: impl Fn(&M) -> f64) -> Self {
        let is_sound = |round: &&M| round.verdict() == Verdict::Sound;
        let is_doubtful = !rounds.iter().any(|round| is_sound(&round));
        let counted = || rounds.iter().filter(|round| is_doubtful || is_sound(round));
        let mut scores: Vec<f64> = counted().map(score).collect();
        scores.sort_by(f64::total_cmp);
        let mut distances: Vec<Nanos> = counted().map(Measured::core_to_core).collect();
        distances.sort_unstable();
        Self {
            median: quantile(&scores, 2),
            low: quantile(&scores, 1),
            high: quantile(&scores, 3),
            counted: scores.len(),
            dropped: rounds.len() - scores.len(),
            is_doubtful,
            core_to_core: distances.get(distances.len() / 2).copied().unwrap_or_default(),
        }
    }
}

/// The value that so many quarters of the sorted ones are below.
fn quantile(sorted: &[f64], quarters: usize) -> f64 {
    match sorted.len() {
        0 => f64::NAN,
        len => sorted[(len - 1) * quarters / 4],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(iops: f64) -> Figure {
        Figure { iops, latency_ns: 1e9 / iops, core_share: 1.0 }
    }

    fn round(remote: f64) -> Round {
        Round {
            floor: figure(100.0),
            local: None,
            remote: figure(remote),
            before: Nanos(30),
            after: Nanos(32),
        }
    }

    fn iops_ratio(round: &Round) -> f64 {
        round.remote.iops / round.floor.iops
    }

    #[test]
    fn a_round_whose_cores_moved_or_were_shared_does_not_count() {
        let moved = Round { after: Nanos(160), ..round(10.0) };
        let mut disturbed = round(10.0);
        disturbed.floor.core_share = 0.5;
        assert_eq!(moved.verdict(), Verdict::Moved);
        assert_eq!(disturbed.verdict(), Verdict::Disturbed);
        let rounds = [moved, disturbed, round(90.0), round(95.0), round(99.0)];
        let ratio = Ratio::of(&rounds, iops_ratio);
        assert_eq!((ratio.median, ratio.counted, ratio.dropped), (0.95, 3, 2));
        assert!(!ratio.is_doubtful);
    }

    #[test]
    fn rounds_far_apart_from_start_to_end_are_in_one_place() {
        let far = Round { before: Nanos(160), after: Nanos(170), ..round(50.0) };
        assert_eq!(far.verdict(), Verdict::Sound);
    }

    #[test]
    fn when_no_round_is_sound_all_count_and_the_ratio_says_so() {
        let moved = Round { after: Nanos(160), ..round(50.0) };
        let ratio = Ratio::of(&[moved, moved], iops_ratio);
        assert_eq!((ratio.median, ratio.counted, ratio.dropped), (0.5, 2, 0));
        assert!(ratio.is_doubtful);
        assert!(Ratio::of(&[], iops_ratio).median.is_nan());
    }
}
