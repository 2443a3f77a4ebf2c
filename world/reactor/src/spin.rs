//! The time to spin before sleeping.
//!
//! Waking a sleeping thread costs each side 20 to 25 µs, several times the duration of a request;
//! spinning costs a core. So a core spins while its next work tends to arrive within [`SPIN_MAX`];
//! an idle core sleeps almost at once. A core that shares its processor with others never spins
//! ([`Spinner::new`] with no time).
//!
//! Pure: the caller supplies the time.

use nearflash_units::Nanos;

/// The longest spin. A flash device answers within it; a longer wait is worth the cost of a
/// wake-up.
pub const SPIN_MAX: Nanos = Nanos::from_micros(200);

/// The spin of an idle core, so that work that arrives together is found together.
const SPIN_MIN: Nanos = Nanos::from_micros(5);

/// The upper bound of a gap, so that after a long silence a few busy moments suffice to spin again.
const GAP_MAX: Nanos = Nanos::from_micros(400);

/// Each gap changes the average by one part in `2^GAP_SHIFT`.
const GAP_SHIFT: u32 = 2;

/// The decision for one core.
#[derive(Debug)]
pub(crate) struct Spinner {
    /// The time of the last work.
    worked_at: Nanos,
    /// The moving average of the time between two turns with work.
    gap: Nanos,
    /// The longest spin of this core.
    longest: Nanos,
}

impl Spinner {
    /// A core that never spins longer than `longest`.
    pub(crate) fn new(now: Nanos, longest: Nanos) -> Self {
        Self { worked_at: now, gap: GAP_MAX, longest }
    }

    /// Records that the turn that ends now had work.
    #[inline]
    pub(crate) fn worked(&mut self, now: Nanos) {
        let gap = now.since(self.worked_at).0.min(GAP_MAX.0);
        self.gap.0 = self.gap.0 - (self.gap.0 >> GAP_SHIFT) + (gap >> GAP_SHIFT);
        self.worked_at = now;
    }

    /// Whether to spin on for the next work.
    #[inline]
    pub(crate) fn goes_on(&self, now: Nanos) -> bool {
        let budget = if self.gap <= self.longest { self.longest } else { SPIN_MIN };
        now.since(self.worked_at) < budget.min(self.longest)
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
        let spinner = Spinner::new(Nanos(0), SPIN_MAX);
        assert!(!spinner.goes_on(SPIN_MIN));
    }

    #[test]
    fn a_core_whose_work_comes_quickly_spins_for_it() {
        let mut spinner = Spinner::new(Nanos(0), SPIN_MAX);
        let now = busy(&mut spinner, Nanos(0), Nanos::from_micros(50), 8);
        assert!(spinner.goes_on(now.plus(Nanos::from_micros(150))));
        assert!(!spinner.goes_on(now.plus(SPIN_MAX)));
    }

    #[test]
    fn a_core_that_may_not_spin_sleeps_even_when_it_is_busy() {
        let mut spinner = Spinner::new(Nanos(0), Nanos(0));
        let now = busy(&mut spinner, Nanos(0), Nanos(1), 100);
        assert!(!spinner.goes_on(now));
    }

    #[test]
    fn a_shorter_limit_bounds_the_spin_of_busy_and_idle_cores() {
        let longest = Nanos::from_micros(2);
        let mut spinner = Spinner::new(Nanos(0), longest);
        assert!(!spinner.goes_on(longest));
        let now = busy(&mut spinner, Nanos(0), Nanos::from_micros(1), 100);
        assert!(spinner.goes_on(now.plus(Nanos::from_micros(1))));
        assert!(!spinner.goes_on(now.plus(longest)));
    }

    #[test]
    fn work_once_a_millisecond_is_not_spun_for() {
        let mut spinner = Spinner::new(Nanos(0), SPIN_MAX);
        let now = busy(&mut spinner, Nanos(0), Nanos::from_micros(10), 100);
        let now = busy(&mut spinner, now, Nanos::from_millis(1), 8);
        assert!(!spinner.goes_on(now.plus(SPIN_MIN)));
    }
}
