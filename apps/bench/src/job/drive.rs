//! The loop of a job: fill the free slots, let the engine work, count what is done.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use nearflash_units::{ByteLen, ByteOffset, Nanos};

use super::written::Written;
use crate::cpu::CpuMeter;
use crate::engine::{Done, Engine, EngineError, Slot};
use crate::placement::elapsed;
use crate::recorder::{Gauge, Record};
use crate::verify::{self, Mismatch};
use crate::workload::{Direction, Op, RateSchedule, Workload, WorkloadError, WorkloadSpec};

/// Adaptive spinning gives up after this long without a completion: no device of interest takes
/// longer, and waking a sleeping thread costs more than 20 microseconds.
const SPIN_SPAN_MAX: Nanos = Nanos::from_millis(1);
/// A sleep before an intended time ends this much early, so that waking up does not make it late.
const WAKE_EARLY: Nanos = Nanos::from_micros(100);
/// How many turns without a completion pass between two looks at the clock: a look costs a tenth of
/// a turn, and completions are seen that much later.
const IDLE_TURNS_PER_CLOCK: u32 = 8;
/// No sleep is longer, so that a job notices when it is to stop.
const SLEEP_MAX: Nanos = Nanos::from_millis(100);

/// How a job waits for completions.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub enum Spin {
    /// Spins, and sleeps after a millisecond without a completion.
    #[default]
    Adaptive,
    /// Never sleeps.
    Always,
    /// Sleeps at once.
    Never,
}

/// What a job does.
#[derive(Clone, Debug)]
pub struct JobSpec {
    /// The operations.
    pub workload: WorkloadSpec,
    /// Operations in flight.
    pub depth: usize,
    /// Operations per second at most; 0 for as many as can be.
    pub rate_iops: u64,
    /// Time not counted, at the start.
    pub ramp: Nanos,
    /// Time counted; `None` until the workload ends.
    pub runtime: Option<Nanos>,
    /// How it waits.
    pub spin: Spin,
    /// Payloads are made provable with this seed, and proved.
    pub verify_seed: Option<u64>,
    /// What was written is on stable media before the job ends.
    pub end_fsync: bool,
}

/// Why a job stopped.
#[derive(Debug, thiserror::Error)]
pub enum JobFailure {
    /// There is no such workload.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// One operation failed.
    #[error("{} of {} at offset {}: {source}", verb(.op.direction), .op.len, .op.offset.0)]
    Operation {
        /// Which.
        op: Op,
        /// How.
        source: EngineError,
    },
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// What was read is not what was written.
    #[error("verify: {0}")]
    Verify(#[from] Mismatch),
}

fn verb(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "read",
        Direction::Write => "write",
    }
}

/// Runs a job to its end, or until `stop`. With verification, what was written is read back
/// afterwards, not counted.
///
/// # Errors
/// The first operation that failed or did not verify.
pub fn run<E: Engine>(
    engine: &mut E,
    spec: &JobSpec,
    gauge: &Gauge,
    stop: &AtomicBool,
) -> Result<Record, JobFailure> {
    let mut workload = Workload::new(spec.workload.clone())?;
    let mut drive = Drive::new(engine, spec, gauge, stop);
    drive.fill_buffers();
    drive.go(&mut std::iter::from_fn(|| workload.next_op()))?;
    let writes = spec.workload.pattern.writes();
    if writes && (spec.end_fsync || spec.verify_seed.is_some()) {
        drive.engine.flush()?;
    }
    let record = std::mem::take(&mut drive.record);
    if writes && let Some(written) = drive.written.take() {
        let read_back = JobSpec { ramp: Nanos(0), runtime: None, rate_iops: 0, ..spec.clone() };
        let idle = Gauge::default();
        Drive { verify_all: true, ..Drive::new(engine, &read_back, &idle, stop) }
            .go(&mut written.reads())?;
    }
    Ok(record)
}

/// What a slot in flight stands for.
#[derive(Clone, Copy)]
struct Pending {
    op: Op,
    /// From when latency counts.
    intended_at: Nanos,
    /// The block was whole before this read started.
    provable: bool,
}

struct Drive<'a, E> {
    engine: &'a mut E,
    spec: &'a JobSpec,
    gauge: &'a Gauge,
    stop: &'a AtomicBool,
    start: Instant,
    pending: Vec<Pending>,
    free: Vec<Slot>,
    done: Vec<Done>,
    rate: Option<RateSchedule>,
    /// The workload had no more to give.
    exhausted: bool,
    record: Record,
    written: Option<Written>,
    /// Every read is proved, not only of what this job wrote.
    verify_all: bool,
}

impl<'a, E: Engine> Drive<'a, E> {
    fn new(engine: &'a mut E, spec: &'a JobSpec, gauge: &'a Gauge, stop: &'a AtomicBool) -> Self {
        let workload = &spec.workload;
        let idle = Op { direction: Direction::Read, offset: ByteOffset(0), len: ByteLen(0) };
        let pending = Pending { op: idle, intended_at: Nanos(0), provable: false };
        let tracks = spec.verify_seed.is_some() && workload.pattern.writes();
        Self {
            engine,
            spec,
            gauge,
            stop,
            start: Instant::now(),
            pending: vec![pending; spec.depth],
            free: (0..spec.depth).rev().collect(),
            done: Vec::with_capacity(spec.depth),
            rate: RateSchedule::new(spec.rate_iops),
            exhausted: false,
            record: Record::default(),
            written: tracks
                .then(|| Written::new(workload.offset, workload.range_len, workload.op_len)),
            verify_all: !workload.pattern.writes(),
        }
    }

    /// Noise in every buffer, so that no device gains by compressing what is written.
    fn fill_buffers(&mut self) {
        if self.spec.workload.pattern.writes() {
            for slot in 0..self.spec.depth {
                let offset = ByteOffset(ByteLen::from_usize(slot).0);
                let buffer = self.engine.buffer_mut(slot);
                if buffer.len() >= verify::HEADER_LEN {
                    verify::fill(buffer, offset, self.spec.workload.seed);
                }
            }
        }
    }

    fn go(&mut self, ops: &mut dyn Iterator<Item = Op>) -> Result<(), JobFailure> {
        self.start = Instant::now();
        let ramp_ended_at = self.until(self.spec.ramp, ops)?;
        self.record = Record::default();
        let cpu = CpuMeter::start();
        let end = self.spec.runtime.map_or(Nanos::NEVER, |span| ramp_ended_at.plus(span));
        let ended_at = self.until(end, ops)?;
        self.record.elapsed = ended_at.since(ramp_ended_at);
        self.record.cpu = cpu.used();
        // What is still in flight is awaited, and not counted.
        let counted = self.record.clone();
        self.exhausted = true;
        self.until(Nanos::NEVER, ops)?;
        self.record = counted;
        Ok(())
    }

    /// Works until `end`, or until all is done; when it was.
    fn until(
        &mut self,
        end: Nanos,
        ops: &mut dyn Iterator<Item = Op>,
    ) -> Result<Nanos, JobFailure> {
        let mut now = elapsed(self.start);
        let (mut progress_at, mut idle_turns) = (now, 0u32);
        while now < end {
            self.fill_slots(now, ops);
            if self.in_flight() == 0 && (self.exhausted || self.stopped()) {
                break;
            }
            self.engine.poll(&mut self.done)?;
            if self.done.is_empty() {
                idle_turns += 1;
                if self.rate.is_some() || idle_turns.is_multiple_of(IDLE_TURNS_PER_CLOCK) {
                    now = elapsed(self.start);
                    self.idle(now, progress_at, end)?;
                }
            } else {
                now = elapsed(self.start);
                (progress_at, idle_turns) = (now, 0);
                self.complete(now)?;
            }
        }
        Ok(now)
    }

    fn in_flight(&self) -> usize {
        self.spec.depth - self.free.len()
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn fill_slots(&mut self, now: Nanos, ops: &mut dyn Iterator<Item = Op>) {
        if self.exhausted || self.free.is_empty() || self.stopped() {
            return;
        }
        while let Some(&slot) = self.free.last() {
            let intended_at = match &mut self.rate {
                None => now,
                Some(rate) if rate.next_at() <= now => rate.next_at(),
                Some(_) => return,
            };
            let Some(op) = ops.next() else {
                self.exhausted = true;
                return;
            };
            if let Some(rate) = &mut self.rate {
                rate.advance();
            }
            self.free.pop();
            self.begin(slot, op, intended_at);
        }
    }

    fn begin(&mut self, slot: Slot, op: Op, intended_at: Nanos) {
        let mut provable = false;
        if let Some(seed) = self.spec.verify_seed {
            match op.direction {
                Direction::Write => verify::fill(self.engine.buffer_mut(slot), op.offset, seed),
                Direction::Read => provable = self.is_provable(op.offset),
            }
        }
        self.pending[slot] = Pending { op, intended_at, provable };
        self.engine.submit(slot, op);
    }

    fn is_provable(&self, offset: ByteOffset) -> bool {
        self.verify_all || self.written.as_ref().is_some_and(|written| written.contains(offset))
    }

    fn complete(&mut self, now: Nanos) -> Result<(), JobFailure> {
        for done in self.done.drain(..) {
            let Pending { op, intended_at, provable } = self.pending[done.slot];
            done.result.map_err(|source| JobFailure::Operation { op, source })?;
            self.record.completed(op.direction, op.len, now.since(intended_at));
            if provable && let Some(seed) = self.spec.verify_seed {
                verify::check(self.engine.buffer(done.slot), op.offset, seed)?;
            }
            if op.direction == Direction::Write
                && let Some(written) = &mut self.written
            {
                written.set(op.offset);
            }
            self.free.push(done.slot);
        }
        self.gauge.show(&self.record);
        Ok(())
    }

    /// Nothing was done this turn: spin on, or sleep.
    fn idle(&mut self, now: Nanos, progress_at: Nanos, end: Nanos) -> Result<(), JobFailure> {
        let spins = match self.spec.spin {
            Spin::Always => true,
            Spin::Never => false,
            Spin::Adaptive => self.in_flight() > 0 && now.since(progress_at) < SPIN_SPAN_MAX,
        };
        if spins {
            return Ok(());
        }
        let mut span = end.since(now).0.min(SLEEP_MAX.0);
        if let Some(rate) = &self.rate
            && !self.free.is_empty()
            && !self.exhausted
        {
            let early = rate.next_at().since(now.plus(WAKE_EARLY));
            span = span.min(early.0);
        }
        if span > 0 {
            self.engine.wait(Nanos(span))?;
        }
        Ok(())
    }
}
