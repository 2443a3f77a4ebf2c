//! How long and how often a point is measured.

use nearflash_units::Nanos;

/// How long and how often a point is measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Timing {
    /// Runs of each point.
    pub repeats: u32,
    /// Not counted, at the start of each run, in milliseconds.
    pub warm_up_ms: u64,
    /// Counted, in milliseconds.
    pub counted_ms: u64,
}

impl Timing {
    /// For figures that count.
    pub const FULL: Self = Self { repeats: 5, warm_up_ms: 300, counted_ms: 1500 };
    /// For a first look.
    pub const QUICK: Self = Self { repeats: 2, warm_up_ms: 50, counted_ms: 100 };

    /// Time not counted.
    pub fn warm_up(self) -> Nanos {
        Nanos::from_millis(self.warm_up_ms)
    }

    /// Time counted.
    pub fn counted(self) -> Nanos {
        Nanos::from_millis(self.counted_ms)
    }

    /// What all runs of a point take at least.
    pub fn of_a_point(self) -> Nanos {
        Nanos::from_millis(u64::from(self.repeats) * (self.warm_up_ms + self.counted_ms))
    }
}
