//! A histogram of times with one writer, its core, and any number of readers.
//!
//! Buckets are log-linear. Up to 2048 ns, they are 128 ns wide. From there to 2^37 ns (137 s),
//! eight buckets of equal width lie between each power of two and the next. So a bucket is no wider
//! than an eighth of its times, or 128 ns. The last bucket also holds all longer times. A histogram
//! takes less than 2 KiB.
//!
//! Invariant: only its core writes, with a plain load and a plain store. So no addition is lost,
//! and none needs a locked instruction. A reader may miss a time that is being counted at that
//! moment.

use std::sync::atomic::{AtomicU64, Ordering};

use nearflash_units::Nanos;

/// The binary logarithm of the width of the narrowest buckets, in nanoseconds.
const UNIT_BITS: u32 = 7;
/// The binary logarithm of the number of buckets between one power of two and the next.
const STEP_BITS: u32 = 3;
const STEPS: usize = 1 << STEP_BITS;
/// The binary logarithm of the end of the last bucket, in nanoseconds.
const END_BITS: u32 = 37;
const BUCKETS: usize = ((END_BITS - UNIT_BITS - STEP_BITS + 1) as usize) << STEP_BITS;

/// Adds to a counter that only the caller writes.
#[inline]
pub(crate) fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

/// The bucket of a time.
#[inline]
fn bucket_of(Nanos(time): Nanos) -> usize {
    let units = time.min((1 << END_BITS) - 1) >> UNIT_BITS;
    // The buckets of the lowest two rows have the same width.
    let shift = (units | 1 << STEP_BITS).ilog2() - STEP_BITS;
    let within = usize::try_from(units >> shift).expect("two rows at most");
    (shift as usize) * STEPS + within
}

/// The shortest and the longest time of a bucket.
fn bounds_of(bucket: usize) -> (Nanos, Nanos) {
    let row = (bucket / STEPS).saturating_sub(1);
    let first = |within: usize| ((within as u64) << row) << UNIT_BITS;
    let within = bucket - row * STEPS;
    let last = if bucket + 1 == BUCKETS { u64::MAX } else { first(within + 1) - 1 };
    (Nanos(first(within)), Nanos(last))
}

/// The distribution of times.
#[derive(Debug)]
pub(crate) struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
    max: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        let buckets = [const { AtomicU64::new(0) }; BUCKETS];
        Self { buckets, sum: AtomicU64::new(0), max: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// The sum of the times.
    pub(crate) fn sum(&self) -> Nanos {
        Nanos(self.sum.load(Ordering::Relaxed))
    }

    /// Counts a time. Only the histogram's core calls this.
    #[inline]
    pub(crate) fn count(&self, time: Nanos) {
        add(&self.buckets[bucket_of(time)], 1);
        add(&self.sum, time.0);
        if time.0 > self.max.load(Ordering::Relaxed) {
            self.max.store(time.0, Ordering::Relaxed);
        }
    }
}

/// A snapshot of one histogram or the sum of several.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Times {
    counts: Box<[u64]>,
    sum: u64,
    max: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self { counts: [0; BUCKETS].into(), sum: 0, max: 0 }
    }
}

/// The distribution of given times.
impl FromIterator<Nanos> for Times {
    fn from_iter<I: IntoIterator<Item = Nanos>>(times: I) -> Self {
        let histogram = Histogram::default();
        times.into_iter().for_each(|time| histogram.count(time));
        let mut read = Self::default();
        read.read(&histogram);
        read
    }
}

impl Times {
    /// Adds the contents of a histogram.
    pub(crate) fn read(&mut self, histogram: &Histogram) {
        for (count, bucket) in self.counts.iter_mut().zip(&histogram.buckets) {
            *count += bucket.load(Ordering::Relaxed);
        }
        self.sum = self.sum.wrapping_add(histogram.sum.load(Ordering::Relaxed));
        self.max = self.max.max(histogram.max.load(Ordering::Relaxed));
    }

    /// The times that were counted since an earlier snapshot of the same histograms. Their longest time
    /// is known to its bucket only.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let pairs = self.counts.iter().zip(&earlier.counts);
        let counts: Box<[u64]> = pairs.map(|(now, then)| now.saturating_sub(*then)).collect();
        let last = counts.iter().rposition(|count| *count > 0);
        let max = last.map_or(0, |bucket| bounds_of(bucket).1.0.min(self.max));
        Self { counts, sum: self.sum.wrapping_sub(earlier.sum), max }
    }

    /// The number of times.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of the times.
    pub fn sum(&self) -> Nanos {
        Nanos(self.sum)
    }

    /// The longest time; exact.
    pub fn max(&self) -> Nanos {
        Nanos(self.max)
    }

    /// The mean; zero without times.
    pub fn mean(&self) -> Nanos {
        Nanos(self.sum.checked_div(self.count()).unwrap_or_default())
    }

    /// An upper bound of the `per_mille` quantile, in thousandths: the end of its bucket, or the
    /// longest time if that is shorter. Zero without times.
    pub fn quantile(&self, per_mille: u64) -> Nanos {
        let rank = u128::from(self.count()) * u128::from(per_mille);
        let rank = u64::try_from(rank.div_ceil(1000)).expect("a part of the count").max(1);
        let mut seen = 0;
        let holds_rank = |(_, last, count)| {
            seen += count;
            (seen >= rank).then_some(last)
        };
        let last = self.buckets().find_map(holds_rank).unwrap_or_default();
        last.min(self.max())
    }

    /// For each bucket, its shortest and its longest time, and the number of times in it.
    pub fn buckets(&self) -> impl Iterator<Item = (Nanos, Nanos, u64)> {
        self.counts.iter().enumerate().map(|(bucket, count)| {
            let (first, last) = bounds_of(bucket);
            (first, last, *count)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn add_times(read: &mut Times, times: &[u64]) {
        let histogram = Histogram::default();
        times.iter().for_each(|time| histogram.count(Nanos(*time)));
        read.read(&histogram);
    }

    fn times_of(times: &[u64]) -> Times {
        times.iter().copied().map(Nanos).collect()
    }

    /// Times of all magnitudes, equally often.
    fn any_time() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0..64u32).prop_map(|(time, shift)| time >> shift)
    }

    #[test]
    fn buckets_adjoin_and_are_no_wider_than_an_eighth_of_their_times() {
        let mut next = 0;
        for bucket in 0..BUCKETS {
            let (first, last) = bounds_of(bucket);
            assert_eq!(first.0, next, "bucket {bucket}");
            assert_eq!((bucket_of(first), bucket_of(last)), (bucket, bucket));
            let is_last = bucket + 1 == BUCKETS;
            let width = if is_last { (1 << END_BITS) - first.0 } else { last.0 - first.0 + 1 };
            assert!(width <= (first.0 / 8).max(128), "bucket {bucket} is {width} wide");
            next = last.0.wrapping_add(1);
        }
        assert_eq!(next, 0, "the last one ends with the longest time");
    }

    #[test]
    fn a_histogram_takes_less_than_2_kib() {
        assert!(size_of::<Histogram>() < 2048, "{}", size_of::<Histogram>());
    }

    #[test]
    fn without_times_all_figures_are_zero() {
        let none = Times::default();
        assert_eq!((none.count(), none.mean(), none.quantile(500)), (0, Nanos(0), Nanos(0)));
    }

    proptest! {
        #[test]
        fn each_time_is_in_the_bucket_whose_bounds_hold_it(time in any_time()) {
            let (first, last) = bounds_of(bucket_of(Nanos(time)));
            prop_assert!(first.0 <= time && time <= last.0);
        }

        #[test]
        fn histograms_that_are_read_together_are_as_one_that_counted_everything(
            some in prop::collection::vec(any_time(), 0..40),
            more in prop::collection::vec(any_time(), 0..40),
        ) {
            let mut both = times_of(&some);
            add_times(&mut both, &more);
            prop_assert_eq!(both, times_of(&[some, more].concat()));
        }

        #[test]
        fn the_times_since_a_snapshot_are_those_that_were_counted_after_it(
            some in prop::collection::vec(any_time(), 0..40),
            more in prop::collection::vec(any_time(), 0..40),
        ) {
            let earlier = times_of(&some);
            let mut now = earlier.clone();
            add_times(&mut now, &more);
            let (since, exact) = (now.since(&earlier), times_of(&more));
            prop_assert_eq!((since.count(), since.sum()), (exact.count(), exact.sum()));
            let bucket = |times: &Times| bucket_of(times.max());
            prop_assert_eq!(bucket(&since), bucket(&exact));
            prop_assert!(since.max() >= exact.max());
        }

        #[test]
        fn a_quantile_is_the_time_of_its_rank_or_at_most_a_bucket_more(
            mut times in prop::collection::vec(any_time(), 1..40),
            per_mille in 1..=1000u64,
        ) {
            let found = times_of(&times).quantile(per_mille).0;
            times.sort_unstable();
            let rank = (times.len() * usize::try_from(per_mille).unwrap()).div_ceil(1000);
            let exact = times[rank - 1];
            let (_, last) = bounds_of(bucket_of(Nanos(exact)));
            prop_assert!(exact <= found && found <= last.0, "{} for {}", found, exact);
        }
    }
}
