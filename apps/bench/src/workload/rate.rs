//! Intended starts of operations.

use nearflash_units::Nanos;

/// A steady rate: that of one job, or a job's share of a common one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rate {
    per_second: u64,
    sharers: u64,
    turn: u64,
}

impl Rate {
    /// This many operations per second; `None` for zero, which means no rate.
    pub fn new(per_second: u64) -> Option<Self> {
        (per_second > 0).then_some(Self { per_second, sharers: 1, turn: 0 })
    }

    /// The share of one of `sharers` jobs, with `turn` from 0. Each job takes every `sharers`-th
    /// operation, so that together they are as steady as one.
    ///
    /// # Panics
    /// When `turn` is not below `sharers`.
    pub fn share(self, turn: u32, sharers: u32) -> Self {
        assert!(turn < sharers, "every sharer has a turn of its own");
        Self { sharers: sharers.into(), turn: turn.into(), ..self }
    }
}

/// The intended starts of the operations of a [`Rate`]. Operation `n` is to start `n` intervals
/// after the first, even if earlier ones are late. Latency measured from the intended start
/// includes the wait behind a slow operation, which must not be omitted.
#[derive(Clone, Debug)]
pub struct RateSchedule {
    rate: Rate,
    next: u64,
}

impl RateSchedule {
    /// A schedule that begins with the first operation.
    pub fn new(rate: Rate) -> Self {
        Self { rate, next: 0 }
    }

    /// The intended start of the next operation, relative to the start of the job.
    pub fn next_at(&self) -> Nanos {
        let Rate { per_second, sharers, turn } = self.rate;
        let index = u128::from(self.next) * u128::from(sharers) + u128::from(turn);
        let nanos = index * 1_000_000_000 / u128::from(per_second);
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Moves on to the next operation.
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
        assert!(Rate::new(0).is_none());
    }

    proptest! {
        /// Intended starts do not drift: after one second's worth of operations exactly one second
        /// has passed, and no operation is early.
        #[test]
        fn a_second_holds_exactly_the_rate(per_second in 1u64..3_000_000, seconds in 1u64..1000) {
            let mut schedule = RateSchedule::new(Rate::new(per_second).unwrap());
            schedule.next = per_second * seconds;
            prop_assert_eq!(schedule.next_at(), Nanos::from_secs(seconds));
            let before = schedule.next_at();
            schedule.advance();
            prop_assert!(schedule.next_at() >= before);
        }

        /// Jobs that share a rate have together the same intended starts as one job with the whole
        /// rate.
        #[test]
        fn shares_of_a_rate_are_the_rate(per_second in 1u64..3_000_000, sharers in 1u32..100) {
            let rate = Rate::new(per_second).unwrap();
            let mut whole = RateSchedule::new(rate);
            let mut shares: Vec<RateSchedule> =
                (0..sharers).map(|turn| RateSchedule::new(rate.share(turn, sharers))).collect();
            for _ in 0..3 {
                for share in &mut shares {
                    prop_assert_eq!(share.next_at(), whole.next_at());
                    share.advance();
                    whole.advance();
                }
            }
        }
    }
}
