//! The counts of a job, and their sums.

use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::Histogram;
use nearflash_units::{ByteLen, Nanos};

use crate::workload::{Direction, Op};

/// Upper limit of recorded latencies; longer ones count as this.
const LATENCY_MAX: Nanos = Nanos::from_secs(60);

/// Three significant digits up to [`LATENCY_MAX`]. Allocated at once, so recording never allocates.
pub(crate) fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX.0, 3).expect("constants are valid bounds")
}

/// Completions of one direction.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Number of operations.
    pub ops: u64,
    /// Length of the payload.
    pub len: ByteLen,
    /// Latency from the intended start to completion, in nanoseconds.
    pub latency: Histogram<u64>,
}

impl Default for Stream {
    fn default() -> Self {
        Self { ops: 0, len: ByteLen(0), latency: new_histogram() }
    }
}

impl Stream {
    fn clear(&mut self) {
        self.ops = 0;
        self.len = ByteLen(0);
        self.latency.clear();
    }

    fn add(&mut self, other: &Self) {
        self.ops += other.ops;
        self.len.0 += other.len.0;
        self.latency.add(&other.latency).expect("all histograms have the same bounds");
    }
}

/// The counts of one or several jobs in the counted time.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Reads.
    pub read: Stream,
    /// Writes.
    pub write: Stream,
    /// The longest counted time of a job.
    pub elapsed: Nanos,
    /// Processor time of all jobs.
    pub cpu: CpuTime,
    /// The client's side of the operations, if it was measured.
    pub sides: SideTimes,
}

/// The sums of the times of operations on the client's side, and between.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SideTimes {
    /// Number of operations.
    pub ops: u64,
    /// From the intended start until the operation was handed over: the bytes were in the socket, or the entry in
    /// the ring.
    pub submission: Nanos,
    /// Until the start of the poll that found the answer.
    pub round_trip: Nanos,
    /// Until the completion was counted.
    pub completion: Nanos,
}

impl SideTimes {
    /// Adds the times of other operations.
    pub fn add(&mut self, other: &Self) {
        self.ops += other.ops;
        self.submission = self.submission.plus(other.submission);
        self.round_trip = self.round_trip.plus(other.round_trip);
        self.completion = self.completion.plus(other.completion);
    }
}

/// Processor time.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTime {
    /// Exact, from the threads' clocks.
    pub total: Nanos,
    /// In user mode, as sampled by the system.
    pub user: Nanos,
    /// In the kernel, as sampled by the system.
    pub system: Nanos,
}

impl CpuTime {
    /// The difference from `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            total: self.total.since(earlier.total),
            user: self.user.since(earlier.user),
            system: self.system.since(earlier.system),
        }
    }

    /// The sum.
    pub fn plus(self, other: Self) -> Self {
        Self {
            total: self.total.plus(other.total),
            user: self.user.plus(other.user),
            system: self.system.plus(other.system),
        }
    }

    /// `part` / `whole` of the time; all of it if `whole` is zero.
    pub fn share(self, part: u64, whole: u64) -> Self {
        let share = |time: Nanos| match whole {
            0 => time,
            whole => {
                let nanos = u128::from(time.0) * u128::from(part) / u128::from(whole);
                Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
        };
        Self { total: share(self.total), user: share(self.user), system: share(self.system) }
    }

    /// The exact total, split in the ratio of the samples, which are too rare to be accurate over a
    /// short time.
    pub fn exact_split(self) -> (Nanos, Nanos) {
        let samples = self.user.plus(self.system);
        match samples.0 {
            0 => (self.total, Nanos(0)),
            samples => {
                let user = Self { user: self.total, ..self }.share(self.user.0, samples).user;
                (user, self.total.since(user))
            }
        }
    }
}

/// Completions with the same direction and latency, as those of operations that were handed over
/// together and have come back together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alike {
    pub(crate) direction: Direction,
    pub(crate) latency: Nanos,
    /// Number of operations.
    pub(crate) ops: u64,
    /// Length of their payload.
    pub(crate) len: ByteLen,
}

impl Alike {
    /// Of no operation.
    pub(crate) const NONE: Self =
        Self { direction: Direction::Read, latency: Nanos(0), ops: 0, len: ByteLen(0) };

    /// Adds a completion; returns the earlier ones if it differs from them.
    #[inline]
    pub(crate) fn add(&mut self, op: Op, latency: Nanos) -> Option<Self> {
        let is_alike = (self.direction, self.latency) == (op.direction, latency);
        let earlier = (!is_alike).then_some(*self);
        if !is_alike {
            *self = Self { direction: op.direction, latency, ..Self::NONE };
        }
        self.ops += 1;
        self.len.0 += op.len.0;
        earlier
    }
}

impl Record {
    /// Resets all counts without allocating.
    pub fn clear(&mut self) {
        self.read.clear();
        self.write.clear();
        self.elapsed = Nanos(0);
        self.cpu = CpuTime::default();
        self.sides = SideTimes::default();
    }

    /// Counts one completion.
    pub fn completed(&mut self, direction: Direction, len: ByteLen, latency: Nanos) {
        self.completed_alike(Alike { direction, latency, ops: 1, len });
    }

    /// Counts completions that are alike.
    #[inline]
    pub(crate) fn completed_alike(&mut self, alike: Alike) {
        if alike.ops == 0 {
            return;
        }
        let stream = self.stream_mut(alike.direction);
        stream.ops += alike.ops;
        stream.len.0 += alike.len.0;
        stream.latency.saturating_record_n(alike.latency.0, alike.ops);
    }

    /// The counts of one direction.
    pub fn stream(&self, direction: Direction) -> &Stream {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        }
    }

    pub(crate) fn stream_mut(&mut self, direction: Direction) -> &mut Stream {
        match direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.write,
        }
    }

    /// Adds the counts of another job that ran at the same time.
    pub fn add(&mut self, other: &Self) {
        self.read.add(&other.read);
        self.write.add(&other.write);
        self.elapsed = self.elapsed.max(other.elapsed);
        self.cpu = self.cpu.plus(other.cpu);
        self.sides.add(&other.sides);
    }

    /// Operations of both directions.
    pub fn ops(&self) -> u64 {
        self.read.ops + self.write.ops
    }

    /// Operations of both directions per second.
    pub fn iops(&self) -> f64 {
        per_second(self.ops(), self.elapsed)
    }

    /// Mean latency over both directions, in nanoseconds.
    pub fn mean_latency_nanos(&self) -> f64 {
        let sum = |stream: &Stream| stream.latency.mean() * stream.ops as f64;
        if self.ops() == 0 { 0.0 } else { (sum(&self.read) + sum(&self.write)) / self.ops() as f64 }
    }
}

/// A rate per second.
pub(crate) fn per_second(count: u64, elapsed: Nanos) -> f64 {
    if elapsed.0 == 0 {
        return 0.0;
    }
    count as f64 * 1e9 / elapsed.0 as f64
}

/// The public counts of a running job. Only the job writes them, on cache lines of their own, so
/// that readers do not slow it down.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Gauge {
    read_ops: AtomicU64,
    write_ops: AtomicU64,
}

impl Gauge {
    /// Publishes the job's counts.
    #[inline]
    pub(crate) fn show(&self, record: &Record) {
        self.read_ops.store(record.read.ops, Ordering::Relaxed);
        self.write_ops.store(record.write.ops, Ordering::Relaxed);
    }

    /// Reads and writes so far.
    pub(crate) fn ops(&self) -> (u64, u64) {
        (self.read_ops.load(Ordering::Relaxed), self.write_ops.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_units::ByteOffset;

    #[test]
    fn jobs_add_up_and_the_longest_time_counts() {
        let mut sum = Record::default();
        for (latency, elapsed) in [(1_000, 5), (3_000, 7)] {
            let mut record = Record { elapsed: Nanos::from_secs(elapsed), ..Record::default() };
            record.completed(Direction::Read, ByteLen(4096), Nanos(latency));
            sum.add(&record);
        }
        assert_eq!((sum.read.ops, sum.read.len), (2, ByteLen(8192)));
        assert_eq!(sum.elapsed, Nanos::from_secs(7));
        assert!((sum.mean_latency_nanos() - 2_000.0).abs() < 2.0);
        assert_eq!(sum.write.ops, 0);
    }

    #[test]
    fn exact_time_is_split_as_the_samples_are() {
        let time = |total, user, system| CpuTime {
            total: Nanos(total),
            user: Nanos(user),
            system: Nanos(system),
        };
        assert_eq!(time(100, 30, 10).exact_split(), (Nanos(75), Nanos(25)));
        assert_eq!(time(100, 0, 0).exact_split(), (Nanos(100), Nanos(0)));
        let shared = time(90, 30, 3).share(1, 3);
        assert_eq!((shared.total, shared.user, shared.system), (Nanos(30), Nanos(10), Nanos(1)));
    }

    #[test]
    fn completions_that_are_alike_count_as_one_by_one() {
        let (mut together, mut one_by_one) = (Record::default(), Record::default());
        let mut alike = Alike::NONE;
        let (read, write) = (Direction::Read, Direction::Write);
        for (direction, nanos) in
            [(read, 7), (read, 7), (write, 7), (write, 7), (write, 9), (read, 9)]
        {
            let op = Op { direction, offset: ByteOffset(0), len: ByteLen(4096) };
            one_by_one.completed(direction, op.len, Nanos(nanos));
            if let Some(earlier) = alike.add(op, Nanos(nanos)) {
                together.completed_alike(earlier);
            }
        }
        together.completed_alike(alike);
        for direction in [read, write] {
            let (a, b) = (together.stream(direction), one_by_one.stream(direction));
            assert_eq!((a.ops, a.len), (b.ops, b.len));
            assert_eq!(a.latency, b.latency);
            assert_eq!(a.latency.min(), b.latency.min());
        }
    }

    #[test]
    fn a_latency_beyond_the_histogram_counts_as_the_longest() {
        let mut record = Record::default();
        record.completed(Direction::Write, ByteLen(1), Nanos::NEVER);
        assert_eq!(record.write.latency.len(), 1);
    }
}
