//! A running job with its slots and operations.

use nearflash_units::{ByteLen, ByteOffset, Nanos};

use super::clock::Clock;
use super::sides::Sides;
use super::spec::{JobFailure, JobSpec};
use super::written::Written;
use crate::engine::{Done, Engine, Slot};
use crate::recorder::{Alike, Record};
use crate::verify;
use crate::workload::{Direction, Op, RateSchedule, Workload, WorkloadSpec};

/// An operation in flight.
#[derive(Clone, Copy)]
struct Pending {
    op: Op,
    /// The start of its latency.
    intended_at: Nanos,
    /// For a read, whether its block was completely written before, so that it can be verified.
    provable: bool,
}

/// The operations of a job. An enum, so that the next one of a workload is inlined.
#[allow(clippy::large_enum_variant, reason = "a job has one")]
enum Ops<'a> {
    Workload(Workload),
    ReadBack(Box<dyn Iterator<Item = Op> + 'a>),
}

impl Ops<'_> {
    #[inline]
    fn next(&mut self) -> Option<Op> {
        match self {
            Self::Workload(workload) => workload.next_op(),
            Self::ReadBack(reads) => reads.next(),
        }
    }
}

/// A running job.
pub(super) struct Running<'a, E: ?Sized> {
    pub(super) engine: &'a mut E,
    pub(super) spec: &'a JobSpec,
    /// Index of the record that counts it.
    pub(super) tally: usize,
    ops: Ops<'a>,
    pending: Vec<Pending>,
    free: Vec<Slot>,
    /// The random contents of a write whose buffer a read has replaced. Empty if no slot does both.
    noise: Vec<u8>,
    /// The slots whose buffers hold what was read.
    was_read: Vec<bool>,
    done: Vec<Done>,
    rate: Option<RateSchedule>,
    /// No more operations are started.
    is_exhausted: bool,
    /// Time at which the last operation was seen to have ended.
    over_at: Option<Nanos>,
    written: Option<Written>,
    /// Verifies every read, not only those of blocks that this job wrote.
    proves_all: bool,
    /// Measures the client's side, if that is wanted.
    sides: Option<Sides>,
}

impl<'a, E: Engine + ?Sized> Running<'a, E> {
    /// A job that starts at time zero. If it writes, its buffers have random contents, so that no
    /// device gains by compression.
    pub(super) fn new(
        engine: &'a mut E,
        spec: &'a JobSpec,
        tally: usize,
    ) -> Result<Self, JobFailure> {
        let workload = Workload::new(spec.workload.clone())?;
        let mut job = Self::of_ops(engine, spec, tally, Ops::Workload(workload));
        let WorkloadSpec { pattern, offset, range_len, op_len, .. } = spec.workload;
        job.rate = spec.rate.map(RateSchedule::new);
        if spec.verify_seed.is_some() && pattern.writes() {
            job.written = Some(Written::new(offset, range_len, op_len));
        }
        job.proves_all = !pattern.writes();
        job.fill_buffers();
        Ok(job)
    }

    /// A job that reads back and verifies the blocks written, on the same engine.
    pub(super) fn reading_back(engine: &'a mut E, spec: &'a JobSpec, written: &'a Written) -> Self {
        let job = Self::of_ops(engine, spec, 0, Ops::ReadBack(Box::new(written.reads())));
        Self { proves_all: true, ..job }
    }

    fn of_ops(engine: &'a mut E, spec: &'a JobSpec, tally: usize, ops: Ops<'a>) -> Self {
        let idle = Op { direction: Direction::Read, offset: ByteOffset(0), len: ByteLen(0) };
        let pending = Pending { op: idle, intended_at: Nanos(0), provable: false };
        Self {
            engine,
            spec,
            tally,
            ops,
            pending: vec![pending; spec.depth],
            free: (0..spec.depth).rev().collect(),
            noise: Vec::new(),
            was_read: vec![false; spec.depth],
            done: Vec::with_capacity(spec.depth),
            rate: None,
            is_exhausted: false,
            over_at: None,
            written: None,
            proves_all: false,
            sides: None,
        }
    }

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
        if self.spec.workload.pattern.is_mixed() && self.spec.verify_seed.is_none() {
            self.noise = self.engine.buffer_mut(0).to_vec();
        }
    }

    /// Fills the buffer of a read with random bytes again. Otherwise, the job would write the data that it has read
    /// elsewhere. That data is often zeroes, which a device can compress.
    #[inline]
    fn renew(&mut self, slot: Slot, direction: Direction) {
        let is_read = direction == Direction::Read;
        if std::mem::replace(&mut self.was_read[slot], is_read) && !is_read {
            self.engine.buffer_mut(slot).copy_from_slice(&self.noise);
        }
    }

    /// From now on, measures the client's side of the operations.
    pub(super) fn measure_sides(&mut self) {
        self.sides = Some(Sides::new(self.spec.depth));
    }

    pub(super) fn has_rate(&self) -> bool {
        self.rate.is_some()
    }

    #[inline]
    pub(super) fn in_flight(&self) -> usize {
        self.spec.depth - self.free.len()
    }

    /// Starts no more operations.
    pub(super) fn exhaust(&mut self) {
        self.is_exhausted = true;
    }

    /// Whether the last operation has ended. Records the time at which that is first seen.
    #[inline]
    pub(super) fn is_over(&mut self, now: Nanos) -> bool {
        let is_over = self.is_exhausted && self.in_flight() == 0;
        if is_over {
            self.over_at.get_or_insert(now);
        }
        is_over
    }

    /// Whether the job has not been seen to be over.
    pub(super) fn is_at_work(&self) -> bool {
        self.over_at.is_none()
    }

    /// The time at which the job was over, or `end` if it was not.
    pub(super) fn ended_at(&self, end: Nanos) -> Nanos {
        self.over_at.unwrap_or(end).min(end)
    }

    /// The intended start of the next operation, if there is a slot for it.
    pub(super) fn next_at(&self) -> Option<Nanos> {
        let rate = self.rate.as_ref().filter(|_| !self.free.is_empty() && !self.is_exhausted)?;
        Some(rate.next_at())
    }

    /// Starts the operations that are due, as long as there are slots.
    #[inline]
    pub(super) fn fill_slots(&mut self, now: Nanos) {
        if self.is_exhausted {
            return;
        }
        while let Some(&slot) = self.free.last() {
            let intended_at = match &mut self.rate {
                None => now,
                Some(rate) if rate.next_at() <= now => rate.next_at(),
                Some(_) => return,
            };
            let Some(op) = self.ops.next() else {
                self.is_exhausted = true;
                return;
            };
            if let Some(rate) = &mut self.rate {
                rate.advance();
            }
            self.free.pop();
            self.begin(slot, op, intended_at);
        }
    }

    #[inline]
    fn begin(&mut self, slot: Slot, op: Op, intended_at: Nanos) {
        let mut provable = false;
        if let Some(seed) = self.spec.verify_seed {
            match op.direction {
                Direction::Write => verify::fill(self.engine.buffer_mut(slot), op.offset, seed),
                Direction::Read => provable = self.is_provable(op.offset),
            }
        }
        if !self.noise.is_empty() {
            self.renew(slot, op.direction);
        }
        self.pending[slot] = Pending { op, intended_at, provable };
        self.engine.submit(slot, op);
        if let Some(sides) = &mut self.sides {
            sides.queue(slot);
        }
    }

    fn is_provable(&self, offset: ByteOffset) -> bool {
        self.proves_all || self.written.as_ref().is_some_and(|written| written.contains(offset))
    }

    /// Polls the engine; returns whether there are completions for [`Self::complete`].
    #[inline]
    pub(super) fn poll<C: Clock>(&mut self, clock: &C) -> Result<bool, JobFailure> {
        if let Some(sides) = &mut self.sides {
            sides.poll(clock.now());
        }
        self.engine.poll(&mut self.done)?;
        self.note_handed_over(clock);
        Ok(self.has_done())
    }

    /// Hands the queued operations over without looking for completions.
    #[inline]
    pub(super) fn hand_over<C: Clock>(&mut self, clock: &C) -> Result<(), JobFailure> {
        self.engine.hand_over()?;
        self.note_handed_over(clock);
        Ok(())
    }

    #[inline]
    fn note_handed_over<C: Clock>(&mut self, clock: &C) {
        if let Some(sides) = &mut self.sides
            && sides.has_queued()
        {
            sides.handed_over(clock.now());
        }
    }

    /// Whether there are completions that have not been counted.
    #[inline]
    pub(super) fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// Processes up to `most` completions, counting them if there is a record. Takes them from the
    /// end of the list, since their order does not matter.
    #[inline]
    pub(super) fn complete(
        &mut self,
        now: Nanos,
        most: usize,
        mut record: Option<&mut Record>,
    ) -> Result<(), JobFailure> {
        let mut alike = Alike::NONE;
        for done in std::iter::from_fn(|| self.done.pop()).take(most) {
            let Pending { op, intended_at, provable } = self.pending[done.slot];
            done.result.map_err(|source| JobFailure::Operation { op, source })?;
            if let Some(record) = &mut record
                && let Some(earlier) = alike.add(op, now.since(intended_at))
            {
                record.completed_alike(earlier);
            }
            if let (Some(record), Some(sides)) = (&mut record, &self.sides) {
                record.sides.add(&sides.of(done.slot, intended_at, now));
            }
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
        if let Some(record) = record {
            record.completed_alike(alike);
        }
        Ok(())
    }

    /// The engine, the job, and the blocks to be read back.
    pub(super) fn into_rest(self) -> (&'a mut E, &'a JobSpec, Option<Written>) {
        (self.engine, self.spec, self.written)
    }
}
