//! The counters of one host on one volume, on one core: requests, bytes, errors and times.
//!
//! Invariant: only its core writes, with plain loads and stores. Any thread may read at any time,
//! without asking the core. So the figures that are read may differ from each other by the requests
//! that are being counted at that moment.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use nearflash_request::{Operation, Outcome, Traffic};
use nearflash_units::{BlockSize, ByteLen, Nanos};

use crate::histogram::{Histogram, Times, add};
use crate::job::Job;
use crate::stamp::Kind;

/// The counters of a kind. A histogram is allocated for its first time.
#[derive(Debug, Default)]
struct Cells {
    done: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    took: OnceLock<Box<Histogram>>,
    waited: OnceLock<Box<Histogram>>,
}

/// The counters of one host on one volume, on one core.
#[derive(Debug, Default)]
pub struct Meter {
    came: AtomicU64,
    queued: AtomicU64,
    begun: AtomicU64,
    kinds: [Cells; 3],
    compared: AtomicU64,
    compared_bytes: AtomicU64,
    media_errors: AtomicU64,
}

impl Meter {
    /// Counts a request that has arrived.
    #[inline]
    pub(crate) fn arrive(&self) {
        add(&self.came, 1);
    }

    /// Counts a request that waits for its turn.
    pub(crate) fn wait(&self) {
        add(&self.queued, 1);
    }

    /// Counts a request that waits no longer, and the time that it waited.
    pub(crate) fn waited(&self, kind: Kind, time: Nanos) {
        add(&self.begun, 1);
        self.kinds[kind as usize].waited.get_or_init(Box::default).count(time);
    }

    /// Counts an answer, and the time since the request's arrival. `block_size` is the volume's, if
    /// the volume still exists.
    #[inline]
    pub(crate) fn answered(
        &self,
        job: &Job,
        outcome: Outcome,
        block_size: Option<BlockSize>,
        time: Nanos,
    ) {
        let cells = &self.kinds[job.stamp.kind as usize];
        cells.took.get_or_init(Box::default).count(time);
        if outcome != Outcome::Success {
            return self.failed(job, outcome);
        }
        add(&cells.done, 1);
        let len = block_size.and_then(|size| size.len(job.range.count)).unwrap_or_default();
        add(
            &cells.bytes,
            if job.stamp.kind == Kind::Read { len } else { moved(&job.operation, len) }.0,
        );
        if job.compares() {
            add(&self.compared, 1);
            add(&self.compared_bytes, len.0);
        }
    }

    #[cold]
    fn failed(&self, job: &Job, outcome: Outcome) {
        let cells = &self.kinds[job.stamp.kind as usize];
        // An atomic operation that lost a race has done its work, and changed nothing.
        let lost_a_race = outcome == Outcome::Miscompare && job.is_atomic();
        add(if lost_a_race { &cells.done } else { &cells.errors }, 1);
        if matches!(outcome, Outcome::UnrecoveredRead | Outcome::WriteFault) {
            add(&self.media_errors, 1);
        }
    }

    /// The number of requests that have arrived and are not answered yet.
    pub(crate) fn in_flight(&self) -> u64 {
        // Reads the answered ones first, so that the difference is never too small.
        let ended = |cells: &Cells| load(&cells.done) + load(&cells.errors);
        let ended: u64 = self.kinds.iter().map(ended).sum();
        load(&self.came).saturating_sub(ended)
    }

    /// The number of requests that wait for their turn.
    pub(crate) fn waiting(&self) -> u64 {
        // Reads those that have begun first, so that the difference is never too small.
        let begun = load(&self.begun);
        load(&self.queued).saturating_sub(begun)
    }

    /// The traffic, as in NVMe's health log. NVMe Base 2.0, 5.16.1.3. Write Zeroes and
    /// deallocations transfer no host data. A comparison counts as a read, and a comparison that
    /// writes as a read and a write.
    pub fn traffic(&self) -> Traffic {
        let [read, write, _] = &self.kinds;
        Traffic {
            reads: load(&read.done) + load(&self.compared),
            writes: load(&write.done),
            read_bytes: load(&read.bytes) + load(&self.compared_bytes),
            written_bytes: load(&write.bytes),
            media_errors: load(&self.media_errors),
        }
    }
}

/// The bytes that a request other than a read moved, for a range of `len` bytes.
fn moved(operation: &Operation, len: ByteLen) -> ByteLen {
    match operation {
        Operation::WriteBytes { len, .. } => ByteLen((*len).into()),
        Operation::CompareAndSwap { .. } | Operation::FetchAdd { .. } => ByteLen(8),
        Operation::Flush
        | Operation::Admit(_)
        | Operation::Allocation
        | Operation::Deallocate { .. } => ByteLen(0),
        _ => len,
    }
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// A snapshot of the counters of a kind.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct KindFigures {
    /// Requests that succeeded.
    pub done: u64,
    /// The bytes that they moved or compared. Deallocations and flushes move none.
    pub bytes: u64,
    /// Requests that failed or were cancelled.
    pub errors: u64,
    /// The time from arrival to answer, of all these requests.
    pub took: Times,
    /// The time from arrival to admission, of the requests that had to wait.
    pub waited: Times,
}

impl KindFigures {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            done: self.done.saturating_sub(earlier.done),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            errors: self.errors.saturating_sub(earlier.errors),
            took: self.took.since(&earlier.took),
            waited: self.waited.since(&earlier.waited),
        }
    }
}

/// A snapshot of one meter or the sum of several.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Figures {
    /// By [`Kind`].
    pub kinds: [KindFigures; 3],
    /// Requests that are not answered yet.
    pub in_flight: u64,
    /// The part of them that has not begun.
    pub waiting: u64,
}

impl Figures {
    /// Adds the figures of a meter.
    pub fn read(&mut self, meter: &Meter) {
        self.in_flight += meter.in_flight();
        self.waiting += meter.waiting();
        for (figures, cells) in self.kinds.iter_mut().zip(&meter.kinds) {
            figures.done += load(&cells.done);
            figures.bytes += load(&cells.bytes);
            figures.errors += load(&cells.errors);
            cells.took.get().into_iter().for_each(|times| figures.took.read(times));
            cells.waited.get().into_iter().for_each(|times| figures.waited.read(times));
        }
    }

    /// The requests that were answered since an earlier snapshot, and those that are in flight now.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut kinds = self.kinds.clone();
        for (kind, then) in kinds.iter_mut().zip(&earlier.kinds) {
            *kind = kind.since(then);
        }
        Self { kinds, ..*self }
    }

    /// Requests of all kinds that were answered.
    pub fn answered(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.done + kind.errors).sum()
    }

    /// Requests of all kinds that failed or were cancelled.
    pub fn errors(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.errors).sum()
    }

    /// The figures of a kind.
    pub fn of(&self, kind: Kind) -> &KindFigures {
        &self.kinds[kind as usize]
    }
}

/// The counters of a kind without the distributions of its times.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct KindTotals {
    /// Requests that succeeded.
    pub done: u64,
    /// The bytes that they moved or compared. Deallocations and flushes move none.
    pub bytes: u64,
    /// Requests that failed or were cancelled.
    pub errors: u64,
    /// The sum of the times from arrival to answer.
    pub took: Nanos,
    /// The sum of the times from arrival to admission.
    pub waited: Nanos,
}

/// The sums of several meters, without the distributions of times: 300 bytes instead of 11 KiB, and
/// read without a look at a bucket.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Totals {
    /// By [`Kind`].
    pub kinds: [KindTotals; 3],
    /// Requests that are not answered yet.
    pub in_flight: u64,
    /// The part of them that has not begun.
    pub waiting: u64,
}

impl Totals {
    /// Adds the counters of a meter.
    pub fn read(&mut self, meter: &Meter) {
        self.in_flight += meter.in_flight();
        self.waiting += meter.waiting();
        for (totals, cells) in self.kinds.iter_mut().zip(&meter.kinds) {
            let sum =
                |times: &OnceLock<Box<Histogram>>| times.get().map_or(Nanos(0), |it| it.sum());
            totals.done += load(&cells.done);
            totals.bytes += load(&cells.bytes);
            totals.errors += load(&cells.errors);
            totals.took = totals.took.plus(sum(&cells.took));
            totals.waited = totals.waited.plus(sum(&cells.waited));
        }
    }
}
