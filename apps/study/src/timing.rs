//! Duration and number of the runs of a point.

use nearflash_units::Nanos;

/// Duration and number of the runs of a point.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Timing {
    /// Runs of each point.
    pub repeats: u32,
    /// Warm-up of each run, in milliseconds.
    pub warm_up_ms: u64,
    /// Counted time of each run, in milliseconds.
    pub counted_ms: u64,
}

impl Timing {
    /// The default.
    pub const FULL: Self = Self { repeats: 5, warm_up_ms: 150, counted_ms: 500 };
    /// The default with `--quick`.
    pub const QUICK: Self = Self { repeats: 2, warm_up_ms: 50, counted_ms: 100 };

    /// Overrides values by those of the command line. The warm-up grows in proportion to the
    /// counted time.
    pub fn with(self, repeats: Option<u32>, counted: Option<Nanos>) -> Self {
        let counted_ms = counted.map_or(self.counted_ms, |counted| counted.0 / 1_000_000);
        let warm_up_ms = self.warm_up_ms.max(counted_ms * self.warm_up_ms / self.counted_ms);
        Self { repeats: repeats.unwrap_or(self.repeats), warm_up_ms, counted_ms }
    }

    /// Warm-up.
    pub fn warm_up(self) -> Nanos {
        Nanos::from_millis(self.warm_up_ms)
    }

    /// Counted time.
    pub fn counted(self) -> Nanos {
        Nanos::from_millis(self.counted_ms)
    }

    /// The minimum time of all runs of a point.
    pub fn of_a_point(self) -> Nanos {
        Nanos::from_millis(u64::from(self.repeats) * (self.warm_up_ms + self.counted_ms))
    }
}
