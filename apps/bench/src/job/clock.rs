//! The time that a job lives by.

use std::time::Instant;

use nearflash_units::Nanos;

use crate::placement::elapsed;

/// Time since the start of a run. Tests have one of their own, in which nothing is late by chance.
pub trait Clock {
    /// Now.
    fn now(&self) -> Nanos;
}

/// The system's, from a start that all threads of a run have in common.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// From now on.
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
