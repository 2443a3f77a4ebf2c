//! The clock of a job.

use std::time::Instant;

use nearflash_units::Nanos;

use crate::placement::elapsed;

/// Time since the start of a run. Tests have a simulated clock, so that their timing is
/// deterministic.
pub trait Clock {
    /// The current time.
    fn now(&self) -> Nanos;
}

/// The system's monotonic clock, with a start that all threads of a run share.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Starts a clock at zero.
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Nanos {
        elapsed(self.start)
    }
}
