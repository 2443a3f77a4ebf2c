//! The time to spin before sleeping.
//!
//! Waking a sleeping thread costs each side 20 to 25 µs, several times the duration of a request;
//! spinning costs a core. So a core spins while its next work tends to arrive within [`SPIN_MAX`];
//! an idle core sleeps almost at once. A core that shares its processor with other programs never spins
//! ([`Spinner::new`] with no time). A core that has served a client of its own processor sleeps at once,
//! because the client can go on only then.
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
    /// Whether the last work was that of a client on this processor.
    has_neighbour: bool,
}

impl Spinner {
    /// A core that never spins longer than `longest`.
    pub(crate) fn new(now: Nanos, longest: Nanos) -> Self {
        Self { worked_at: now, gap: GAP_MAX, longest, has_neighbour: false }
    }

    /// Records that the turn that ends now had work, and whether some of it was that of a client on this
    /// processor.
    #[inline]
    pub(crate) fn worked(&mut self, now: Nanos, for_neighbour: bool) {
        let gap = now.since(self.worked_at).0.min(GAP_MAX.0);
        self.gap.0 = self.gap.0 - (self.gap.0 >> GAP_SHIFT) + (gap >> GAP_SHIFT);
        self.worked_at = now;
        self.has_neighbour = for_neighbour;
    }

    /// Records that the core is about to sleep. Returns whether it does so to give way to a client.
    pub(crate) fn sleeps(&mut self) -> bool {
        std::mem::take(&mut self.has_neighbour) && self.longest > Nanos(0)
    }

    /// Whether to spin on for the next work.
    #[inline]
    pub(crate) fn goes_on(&self, now: Nanos) -> bool {
        if self.has_neighbour {
            return false;
        }
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
            spinner.worked(now, false);
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
    fn a_core_gives_way_to_a_client_on_its_processor_and_spins_again_for_others() {
        let mut spinner = Spinner::new(Nanos(0), SPIN_MAX);
        let now = busy(&mut spinner, Nanos(0), Nanos::from_micros(10), 100);
        spinner.worked(now, true);
        assert!(!spinner.goes_on(now) && spinner.sleeps());
        assert!(!spinner.sleeps(), "one turn gives way once");
        let now = busy(&mut spinner, now, Nanos::from_micros(10), 1);
        assert!(spinner.goes_on(now) && !spinner.sleeps());
    }

    #[test]
    fn a_core_that_never_spins_has_nothing_to_give_up() {
        let mut spinner = Spinner::new(Nanos(0), Nanos(0));
        spinner.worked(Nanos(0), true);
        assert!(!spinner.sleeps());
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
