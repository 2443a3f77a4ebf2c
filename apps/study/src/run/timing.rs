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
    pub const FULL: Self = Self { repeats: 5, warm_up_ms: 150, counted_ms: 500 };
    /// For a first look.
    pub const QUICK: Self = Self { repeats: 2, warm_up_ms: 50, counted_ms: 100 };

    /// The same with what the command line says instead; warm-up grows with what is counted.
    pub fn with(self, repeats: Option<u32>, counted: Option<Nanos>) -> Self {
        let counted_ms = counted.map_or(self.counted_ms, |counted| counted.0 / 1_000_000);
        let warm_up_ms = self.warm_up_ms.max(counted_ms * self.warm_up_ms / self.counted_ms);
        Self { repeats: repeats.unwrap_or(self.repeats), warm_up_ms, counted_ms }
    }

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
