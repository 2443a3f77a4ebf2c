//! The stages of a job: the IO that each kind of request asks of the layout, one after the other.
//!
//! ```text
//! read                 Reading                         answer
//! write                Writing                         answer
//! write zeroes         Writing     (Flushing)          answer
//! write same           Writing ...                     answer   (in steps of a largest buffer)
//! or write             Changing    Writing             answer   (all within a fence)
//! copy                 Reading     Writing             answer
//! write and verify     Writing     Comparing           answer   (all within a fence)
//! deallocate           Writing                         answer
//! flush                Flushing                        answer
//! compare              Comparing                       answer
//! compare same, verify Comparing ...                   answer   (in steps of a largest buffer)
//! allocation           Asking                          answer
//! admit                                                answer
//! compare and write    Comparing   Writing             answer   (all within a fence)
//! write bytes         (Changing)   Writing             answer   (all within a fence, or at another node)
//! swap, add to word    Changing   (Writing)            answer   (all within a fence)
//! ```

use nearflash_layout::{BlockIo, IoKind, IoResult};
use nearflash_request::{BlockRange, Operation, Outcome};
use nearflash_space::Sharing;
use nearflash_units::ByteLen;

use crate::change::{Kept, Part, first_difference, new_word, word_mut};
use crate::engine::{Engine, io_of};
use crate::fence::{CoreId, FenceMessage};
use crate::job::{Job, Stage};
use crate::pool::Pool;
use crate::trace::Moment;

impl Engine {
    #[inline]
    pub(crate) fn begin(&mut self, index: usize, pool: &mut Pool) {
        let job = &self.jobs[index];
        if self.is_forwarded(job) {
            return self.forward_part(index, pool);
        }
        if job.needs_fence() || self.writes_edges(job) {
            let acquire = FenceMessage::Acquire(self.fence_of(index), self.covers(job));
            self.jobs[index].fenced = true;
            return self.fence_messages.push_back((CoreId::FIRST, acquire));
        }
        match &job.operation {
            Operation::Read | Operation::ReadInto { .. } => self.read(index, pool),
            Operation::Compare { .. }
            | Operation::CompareSame { .. }
            | Operation::Verify
            | Operation::WriteSame { .. }
            | Operation::Copy { .. } => self.start_work(index, pool),
            Operation::Flush => self.flush(index, pool),
            Operation::Allocation => self.start_io(index, Stage::Asking, IoKind::Allocation, pool),
            Operation::Admit(_) => self.end(index, Outcome::Success, pool),
            _ => self.write(index, pool),
        }
    }

    /// Whether a write of a part of its blocks is left to the node that has the blocks.
    #[inline]
    fn is_forwarded(&self, job: &Job) -> bool {
        matches!(job.operation, Operation::WriteBytes { .. })
            && self.volumes.get(job.volume).is_some_and(|entry| entry.sharing == Sharing::Forwarded)
    }

    /// That node keeps the other bytes of the first and the last block, within a fence of its own.
    fn forward_part(&mut self, index: usize, pool: &mut Pool) {
        let job = &self.jobs[index];
        let Operation::WriteBytes { payload, skip, len, force_unit_access } = job.operation else {
            unreachable!("only writes of a part are forwarded")
        };
        let entry = self.volumes.get(job.volume);
        let range_len = entry.and_then(|entry| entry.block_size.len(job.range.count));
        let kept = range_len.and_then(|all| all.0.checked_sub(u64::from(skip) + u64::from(len)));
        let Some(tail) = kept.and_then(|kept| u32::try_from(kept).ok()) else {
            return self.end(index, Outcome::VolumeGone, pool);
        };
        let kind = IoKind::WritePart { buffer: payload, durable: force_unit_access, skip, tail };
        self.start_io(index, Stage::Writing, kind, pool);
    }

    /// Starts the work of a job, which holds its fence if it needs one.
    pub(crate) fn start_work(&mut self, index: usize, pool: &mut Pool) {
        match self.jobs[index].operation {
            Operation::Read | Operation::ReadInto { .. } => self.read(index, pool),
            Operation::WriteBytes { .. }
            | Operation::CompareAndSwap { .. }
            | Operation::FetchAdd { .. } => self.start_change(index, pool),
            Operation::OrWrite { .. } => self.start_or(index, pool),
            Operation::WriteSame { .. } => self.start_write_same(index, pool),
            Operation::Copy { .. } => self.start_copy(index, pool),
            Operation::CompareSame { .. } | Operation::Verify => self.start_step(index, pool),
            Operation::Write { .. }
            | Operation::WriteAndVerify { .. }
            | Operation::WriteZeroes { .. }
            | Operation::Deallocate { .. } => self.write(index, pool),
            _ => self.start_compare(index, pool),
        }
    }

    #[inline]
    fn read(&mut self, index: usize, pool: &mut Pool) {
        let kind = IoKind::Read { buffer: self.jobs[index].buffer };
        self.start_io(index, Stage::Reading, kind, pool);
    }

    fn flush(&mut self, index: usize, pool: &mut Pool) {
        self.start_io(index, Stage::Flushing, IoKind::Flush, pool);
    }

    fn start_compare(&mut self, index: usize, pool: &mut Pool) {
        let scratch = self.jobs[index].scratch.expect("a comparison has scratch");
        let kind = IoKind::Read { buffer: Some(scratch) };
        self.start_io(index, Stage::Comparing, kind, pool);
    }

    /// Reads the blocks that are changed in part, if there are any.
    fn start_change(&mut self, index: usize, pool: &mut Pool) {
        let job = &self.jobs[index];
        let Some(entry) = self.volumes.get(job.volume) else {
            return self.end(index, Outcome::VolumeGone, pool);
        };
        let kept = match &job.operation {
            Operation::WriteBytes { skip, len, .. } => {
                Part { skip: *skip, len: *len }.kept(entry.block_size, job.range)
            }
            _ => Kept { first: Some(job.range), last: None },
        };
        let mut ranges = kept.iter();
        let Some(range) = ranges.next() else { return self.write(index, pool) };
        let more: Box<[BlockRange]> = ranges.collect();
        let scratch = job.scratch.expect("a change has scratch");
        let io = self.io(index, IoKind::Read { buffer: Some(scratch) });
        self.start(index, Stage::Changing, BlockIo { range, more, ..io }, pool);
    }

    /// The old bytes have been read: changes them and writes the result.
    fn change(&mut self, index: usize, pool: &mut Pool) {
        let job = &mut self.jobs[index];
        let scratch = job.scratch.expect("what is changed was read");
        match &job.operation {
            Operation::CompareAndSwap { word, .. } | Operation::FetchAdd { word, .. } => {
                let bytes = word_mut(pool.bytes_mut(scratch), *word);
                job.found = u64::from_le_bytes(*bytes);
                match new_word(&job.operation, job.found) {
                    Some(new) => *bytes = new.to_le_bytes(),
                    None => return self.end(index, Outcome::Miscompare, pool),
                }
            }
            Operation::OrWrite { .. } => {
                let payload = job.buffer.expect("a write has its payload");
                let (payload, found) = pool.pair_mut(payload, scratch);
                payload.iter_mut().zip(found).for_each(|(bits, found)| *bits |= found);
            }
            Operation::WriteBytes { skip, len, .. } => {
                let part = Part { skip: *skip, len: *len };
                let payload = job.buffer.expect("a write has its payload");
                let Some(entry) = self.volumes.get(job.volume) else {
                    return self.end(index, Outcome::VolumeGone, pool);
                };
                let len = entry.block_size.len(job.range.count).unwrap_or_default().to_usize();
                let (payload, found) = pool.pair_mut(payload, scratch);
                part.fill(entry.block_size, &mut payload[..len], found);
            }
            _ => unreachable!("other requests change whole blocks"),
        }
        self.write(index, pool);
    }

    pub(crate) fn write(&mut self, index: usize, pool: &mut Pool) {
        let job = &self.jobs[index];
        let kind = match &job.operation {
            Operation::Write { force_unit_access, .. }
            | Operation::CompareAndWrite { force_unit_access, .. }
            | Operation::OrWrite { force_unit_access, .. }
            | Operation::WriteBytes { force_unit_access, .. }
            | Operation::CompareAndSwap { force_unit_access, .. }
            | Operation::FetchAdd { force_unit_access, .. } => {
                let buffer = if job.is_atomic() { job.scratch } else { job.buffer };
                let buffer = buffer.expect("a write has its payload");
                IoKind::Write { buffer, durable: *force_unit_access }
            }
            Operation::WriteAndVerify { .. } => {
                let buffer = job.compare.expect("a write has its payload");
                IoKind::Write { buffer, durable: true }
            }
            Operation::WriteZeroes { deallocate, .. } => IoKind::Zero { deallocate: *deallocate },
            Operation::Deallocate { ranges, zeroes } => {
                let kind =
                    if *zeroes { IoKind::Zero { deallocate: true } } else { IoKind::Discard };
                let Some((range, more)) = ranges.split_first() else {
                    return self.end(index, Outcome::Success, pool);
                };
                let io = BlockIo { range: *range, more: more.into(), ..self.io(index, kind) };
                return self.start(index, Stage::Writing, io, pool);
            }
            Operation::Read
            | Operation::ReadInto { .. }
            | Operation::Flush
            | Operation::Compare { .. }
            | Operation::CompareSame { .. }
            | Operation::Verify
            | Operation::Allocation
            | Operation::Admit(_)
            | Operation::WriteSame { .. }
            | Operation::Copy { .. } => {
                unreachable!("these do not write, or in steps of their own")
            }
        };
        self.start_io(index, Stage::Writing, kind, pool);
    }

    /// An IO over a job's range.
    #[inline]
    pub(crate) fn io(&self, index: usize, kind: IoKind) -> BlockIo {
        let Job { volume, range, cause, .. } = self.jobs[index];
        let (more, buffer_offset) = (Box::default(), ByteLen(0));
        BlockIo { id: io_of(index), volume, range, more, kind, buffer_offset, cause }
    }

    /// Starts a stage whose IO is over the job's range.
    #[inline]
    fn start_io(&mut self, index: usize, stage: Stage, kind: IoKind, pool: &mut Pool) {
        let io = self.io(index, kind);
        self.start(index, stage, io, pool);
    }

    /// A job's IO has ended.
    #[inline]
    pub(crate) fn end_io(&mut self, index: usize, result: IoResult, pool: &mut Pool) {
        let trace = self.jobs[index].stamp.trace;
        if trace.is_some() {
            self.tracer.mark(trace, Moment::Completed);
        }
        match result {
            IoResult::Done if self.jobs[index].parts.is_some() => {
                return self.end_phase(index, pool);
            }
            IoResult::Done => {}
            IoResult::Run { mapped, len } => self.note_run(index, mapped, len),
            IoResult::Failed(outcome) => return self.end(index, outcome, pool),
        }
        self.end_stage(index, pool);
    }

    /// A stage has succeeded: starts the next one, or answers.
    #[inline]
    fn end_stage(&mut self, index: usize, pool: &mut Pool) {
        let job = &self.jobs[index];
        match (job.stage, &job.operation) {
            (
                Stage::Comparing | Stage::Writing,
                Operation::WriteSame { .. } | Operation::Verify | Operation::CompareSame { .. },
            ) => self.end_step(index, pool),
            (Stage::Writing, Operation::WriteAndVerify { .. }) => self.start_compare(index, pool),
            (Stage::Comparing, Operation::WriteAndVerify { compare: false, .. }) => {
                self.end(index, Outcome::Success, pool);
            }
            (Stage::Comparing, operation) => {
                let then_write = matches!(operation, Operation::CompareAndWrite { .. });
                match self.compare(index, pool) {
                    Outcome::Success if then_write => self.write(index, pool),
                    outcome => self.end(index, outcome, pool),
                }
            }
            (Stage::Changing, _) => self.change(index, pool),
            (Stage::Reading, Operation::Copy { .. }) => self.write_copied(index, pool),
            (Stage::Writing, Operation::WriteZeroes { force_unit_access: true, .. }) => {
                self.flush(index, pool);
            }
            _ => self.end(index, Outcome::Success, pool),
        }
    }

    /// Compares the read bytes with the expected ones; records the offset of the first difference.
    fn compare(&mut self, index: usize, pool: &Pool) -> Outcome {
        let job = &mut self.jobs[index];
        let entry = self.volumes.get(job.volume);
        let len = entry.and_then(|entry| entry.block_size.len(job.range.count));
        let Some(len) = len.map(ByteLen::to_usize) else { return Outcome::VolumeGone };
        let (expected, found) = job.compare.zip(job.scratch).expect("a comparison has both");
        match first_difference(&pool.bytes(expected)[..len], &pool.bytes(found)[..len]) {
            None => Outcome::Success,
            Some(at) => {
                job.found = at;
                Outcome::Miscompare
            }
        }
    }
}
