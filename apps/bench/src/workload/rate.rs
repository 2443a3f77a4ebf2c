//! When each operation is meant to start.

use nearflash_units::Nanos;

/// A steady rate. Operation `n` is meant to start `n` intervals after the first, whatever became of
/// those before it: latency counted from there includes the wait behind a slow one, which an honest
/// measurement must not omit.
#[derive(Clone, Debug)]
pub struct RateSchedule {
    per_second: u64,
    next: u64,
}

impl RateSchedule {
    /// So many a second; `None` for no rate at all.
    pub fn new(per_second: u64) -> Option<Self> {
        (per_second > 0).then_some(Self { per_second, next: 0 })
    }

    /// When the next operation is meant to start, from the start of the job.
    pub fn next_at(&self) -> Nanos {
        let nanos = u128::from(self.next) * 1_000_000_000 / u128::from(self.per_second);
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The next operation has been taken.
    pub fn advance(&mut self) {
        self.next += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_rate_is_no_schedule() {
        assert!(RateSchedule::new(0).is_none());
    }

    proptest! {
        /// Intended times never drift: after a second's worth of operations exactly one second has
        /// passed, and no operation is early.
        #[test]
        fn a_second_holds_exactly_the_rate(per_second in 1u64..3_000_000, seconds in 1u64..1000) {
            let mut schedule = RateSchedule::new(per_second).unwrap();
            schedule.next = per_second * seconds;
            prop_assert_eq!(schedule.next_at(), Nanos::from_secs(seconds));
            let before = schedule.next_at();
            schedule.advance();
            prop_assert!(schedule.next_at() >= before);
        }
    }
}
