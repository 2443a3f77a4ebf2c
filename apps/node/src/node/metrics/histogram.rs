//! Histograms with few buckets, made of the node's own, which have many.
//!
//! Invariant: each edge is an edge of the node's own buckets. So a bucket counts exactly the times
//! up to its bound, which is one nanosecond below the edge.

use nearflash_engine::Times;
use nearflash_units::Nanos;

/// The edges for latencies, in nanoseconds: powers of two from 1 µs to 8.6 s, and one edge more
/// between two of them from 8 µs to 1 ms, where most times of flash are.
pub(super) const LATENCY: &[u64] = &[
    1 << 10,
    1 << 11,
    1 << 12,
    1 << 13,
    3 << 12,
    1 << 14,
    3 << 13,
    1 << 15,
    3 << 14,
    1 << 16,
    3 << 15,
    1 << 17,
    3 << 16,
    1 << 18,
    3 << 17,
    1 << 19,
    3 << 18,
    1 << 20,
    1 << 21,
    1 << 22,
    1 << 23,
    1 << 24,
    1 << 25,
    1 << 26,
    1 << 27,
    1 << 28,
    1 << 29,
    1 << 30,
    1 << 31,
    1 << 32,
    1 << 33,
];

/// The edges for waits: every second power of two from 4 µs to 4.3 s.
pub(super) const WAIT: &[u64] = &[
    1 << 12,
    1 << 14,
    1 << 16,
    1 << 18,
    1 << 20,
    1 << 22,
    1 << 24,
    1 << 26,
    1 << 28,
    1 << 30,
    1 << 32,
];

/// A histogram of seconds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Histogram {
    pub(super) sum: f64,
    pub(super) count: u64,
    /// The bound of each bucket, and the times in it; the last bound is infinity.
    pub(super) buckets: Box<[(f64, u64)]>,
}

impl Histogram {
    /// `None` without times.
    pub(super) fn of(times: &Times, edges: &[u64]) -> Option<Self> {
        let bounds = edges.iter().map(|edge| seconds(Nanos(edge - 1))).chain([f64::INFINITY]);
        let mut buckets: Box<[(f64, u64)]> = bounds.map(|bound| (bound, 0)).collect();
        let (mut count, mut bucket) = (0, 0);
        for (first, _, times) in times.buckets() {
            while edges.get(bucket).is_some_and(|edge| first.0 >= *edge) {
                bucket += 1;
            }
            buckets[bucket].1 += times;
            count += times;
        }
        (count > 0).then(|| Self { sum: seconds(times.sum()), count, buckets })
    }
}

/// A time in seconds.
pub(super) fn seconds(Nanos(nanos): Nanos) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edge_is_an_edge_of_the_nodes_own_buckets() {
        let times = Times::default();
        let firsts: Vec<u64> = times.buckets().map(|(first, _, _)| first.0).collect();
        for edge in LATENCY.iter().chain(WAIT) {
            assert!(firsts.contains(edge), "{edge}");
        }
        assert!(LATENCY.is_sorted() && WAIT.is_sorted());
    }

    #[test]
    fn without_times_there_is_no_histogram() {
        assert_eq!(Histogram::of(&Times::default(), LATENCY), None);
    }
}
