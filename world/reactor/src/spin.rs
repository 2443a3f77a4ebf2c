//! How long to spin before sleeping.
//!
//! Waking a sleeping thread costs 20 to 25 µs a side, several times a whole request; spinning
//! costs a core. So a core spins while the work it waits for tends to come within
//! [`SPIN_MAX`], and no longer than that tells: an idle core sleeps at once.
//!
//! Pure: time is given from outside.

use nearflash_units::Nanos;

/// Longest spin. A flash device answers within it; what takes longer is worth a wake-up.
const SPIN_MAX: Nanos = Nanos::from_micros(200);

/// Spun even by an idle core: what arrives together is found together.
const SPIN_MIN: Nanos = Nanos::from_micros(5);

/// A gap counts as no more than this, so that after a long silence a few busy moments suffice to
/// spin again.
const GAP_MAX: Nanos = Nanos::from_micros(400);

/// Each gap moves the average by one part in `2^GAP_SHIFT`.
const GAP_SHIFT: u32 = 2;

/// Decides for one core.
#[derive(Debug)]
pub(crate) struct Spinner {
    /// When the last work was done.
    worked_at: Nanos,
    /// Moving average of the time from the end of work to the next.
    gap: Nanos,
}

impl Spinner {
    pub(crate) fn new(now: Nanos) -> Self {
        Self { worked_at: now, gap: GAP_MAX }
    }

    /// There was work in the turn that ended now.
    #[inline]
    pub(crate) fn worked(&mut self, now: Nanos) {
        let gap = now.since(self.worked_at).0.min(GAP_MAX.0);
        self.gap.0 = self.gap.0 - (self.gap.0 >> GAP_SHIFT) + (gap >> GAP_SHIFT);
        self.worked_at = now;
    }

    /// Whether the next work is worth spinning for a moment more.
    #[inline]
    pub(crate) fn goes_on(&self, now: Nanos) -> bool {
        let budget = if self.gap <= SPIN_MAX { SPIN_MAX } else { SPIN_MIN };
        now.since(self.worked_at) < budget
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(spinner: &mut Spinner, from: Nanos, gap: Nanos, turns: u64) -> Nanos {
        let mut now = from;
        for _ in 0..turns {
            now = now.plus(gap);
            spinner.worked(now);
        }
        now
    }

    #[test]
    fn an_idle_core_sleeps_at_once() {
        let spinner = Spinner::new(Nanos(0));
        assert!(!spinner.goes_on(SPIN_MIN));
    }

    #[test]
    fn a_core_whose_work_comes_quickly_spins_for_it() {
        let mut spinner = Spinner::new(Nanos(0));
        let now = busy(&mut spinner, Nanos(0), Nanos::from_micros(50), 8);
        assert!(spinner.goes_on(now.plus(Nanos::from_micros(150))));
        assert!(!spinner.goes_on(now.plus(SPIN_MAX)));
    }

    #[test]
    fn work_once_a_millisecond_is_not_spun_for() {
        let mut spinner = Spinner::new(Nanos(0));
        let now = busy(&mut spinner, Nanos(0), Nanos::from_micros(10), 100);
        let now = busy(&mut spinner, now, Nanos::from_millis(1), 8);
        assert!(!spinner.goes_on(now.plus(SPIN_MIN)));
    }
}
