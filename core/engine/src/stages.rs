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
//!
//! A request whose range may be longer than any buffer is processed in steps of at most one scratch buffer.
//!
//! A copy is at most as long as a buffer; a longer one takes several requests. So it never delays a fence for long,
//! and each request is checked anew. All of the source is read before any of it is written, so that both may overlap.

use nearflash_device::Cause;
use nearflash_layout::{BlockIo, IoKind, IoResult};
use nearflash_request::{BlockRange, Operation, Outcome};
use nearflash_space::Sharing;
use nearflash_units::{Blocks, ByteLen, Lba};

use crate::change::{Kept, Part, first_difference, new_word, word_mut};
use crate::edges::{Parts, is_whole, without_edges};
use crate::engine::{Engine, io_of};
use crate::fence::{CoreId, FenceMessage, Fenced};
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
        if job.needs_fence() || job.writes_edges(&self.edges) {
            let (volume, ranges) = (job.volume, job.ranges());
            let fenced = Fenced { volume, range: self.edges.covers(volume, ranges) };
            let acquire = FenceMessage::Acquire(self.fence_of(index), fenced);
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

    fn write(&mut self, index: usize, pool: &mut Pool) {
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
    fn io(&self, index: usize, kind: IoKind) -> BlockIo {
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

    /// Starts a stage.
    #[inline]
    fn start(&mut self, index: usize, stage: Stage, io: BlockIo, pool: &mut Pool) {
        self.jobs[index].stage = stage;
        let shift = self.edges.shift(io.volume);
        if shift == 0 || is_whole(&io, shift) {
            return self.submit_io(index, io, pool);
        }
        if io.kind == IoKind::Discard {
            return match without_edges(io, shift) {
                None => self.end_io(index, IoResult::Done, pool),
                Some(io) => self.submit_io(index, io, pool),
            };
        }
        let Some(edges) = self.jobs[index].edges else {
            // The volume's layout has changed since the request was admitted.
            return self.end(index, Outcome::VolumeGone, pool);
        };
        self.jobs[index].parts = Some(Box::new(Parts::new(io, edges, shift)));
        self.start_phase(index, false, pool);
    }

    /// Starts the next phase of an IO that is done in parts, when the present one is over.
    fn start_phase(&mut self, index: usize, mut is_over: bool, pool: &mut Pool) {
        let parts = self.jobs[index].parts.as_deref_mut().expect("an IO that is done in parts");
        let shift = self.edges.shift(parts.volume());
        let block_size = self.volumes.get(parts.volume()).map(|entry| entry.block_size);
        loop {
            if is_over && !parts.end_phase(block_size, shift, pool) {
                self.jobs[index].parts = None;
                return self.end_io(index, IoResult::Done, pool);
            }
            match parts.io(block_size) {
                Some(io) => return self.submit_io(index, io, pool),
                None => is_over = true,
            }
        }
    }

    fn submit_io(&mut self, index: usize, io: BlockIo, pool: &mut Pool) {
        if let Some(result) = self.layout.submit(io) {
            self.end_io(index, result, pool);
        }
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
                return self.start_phase(index, true, pool);
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

    /// Starts to read the source.
    fn start_copy(&mut self, index: usize, pool: &mut Pool) {
        let job = &self.jobs[index];
        let (buffer, Operation::Copy { source, from }) = (job.scratch, &job.operation) else {
            unreachable!("only copies are read so")
        };
        let (volume, range) = (*source, *from);
        let io = BlockIo { volume, range, ..self.io(index, IoKind::Read { buffer }) };
        self.start(index, Stage::Reading, io, pool);
    }

    /// The source is read: writes it.
    fn write_copied(&mut self, index: usize, pool: &mut Pool) {
        // Without a buffer there is nothing to copy.
        let Some(buffer) = self.jobs[index].scratch else {
            return self.end(index, Outcome::Success, pool);
        };
        let io = self.io(index, IoKind::Write { buffer, durable: false });
        self.start(index, Stage::Writing, io, pool);
    }

    /// Starts to fill the range with one block.
    fn start_write_same(&mut self, index: usize, pool: &mut Pool) {
        let job = &mut self.jobs[index];
        let Some(entry) = self.volumes.get(job.volume) else {
            return self.end(index, Outcome::VolumeGone, pool);
        };
        let block_len = ByteLen(entry.block_size.bytes().into()).to_usize();
        let pattern = job.buffer.expect("a write has its payload");
        if let Operation::WriteSame { force_unit_access, .. } = job.operation
            && pool.bytes(pattern)[..block_len].iter().all(|byte| *byte == 0)
        {
            job.operation = Operation::WriteZeroes { deallocate: false, force_unit_access };
            return self.write(index, pool);
        }
        if let Some(scratch) = self.jobs[index].scratch {
            let (filled, pattern) = pool.pair_mut(scratch, pattern);
            for block in filled.chunks_exact_mut(block_len) {
                block.copy_from_slice(&pattern[..block_len]);
            }
        }
        self.start_step(index, pool);
    }

    /// Starts to read the blocks that bits are ORed into.
    fn start_or(&mut self, index: usize, pool: &mut Pool) {
        let buffer = self.jobs[index].scratch;
        if buffer.is_none() {
            return self.start_step(index, pool);
        }
        let io = self.io(index, IoKind::Read { buffer });
        self.start(index, Stage::Changing, io, pool);
    }

    /// The next part of the range; empty when the range is done.
    fn step(&self, index: usize, pool: &Pool) -> BlockRange {
        let job = &self.jobs[index];
        let (entry, scratch) = (self.volumes.get(job.volume), job.scratch);
        let step_max = entry
            .zip(scratch)
            .map_or(Blocks(0), |(entry, scratch)| entry.block_size.blocks_in(pool.len_of(scratch)));
        let count = Blocks(step_max.0.min(job.range.count.0 - job.done));
        BlockRange { start: Lba(job.range.start.0 + job.done), count }
    }

    fn start_step(&mut self, index: usize, pool: &mut Pool) {
        let Some(buffer) = self.jobs[index].scratch else {
            // No scratch: the range is empty, or the volume is gone.
            let is_there = self.volumes.get(self.jobs[index].volume).is_some();
            let outcome = if is_there { Outcome::Success } else { Outcome::VolumeGone };
            return self.end(index, outcome, pool);
        };
        let range = self.step(index, pool);
        let (stage, kind) = match self.jobs[index].operation {
            Operation::WriteSame { force_unit_access: durable, .. } => {
                (Stage::Writing, IoKind::Write { buffer, durable })
            }
            _ => (Stage::Comparing, IoKind::Read { buffer: Some(buffer) }),
        };
        let io = self.io(index, kind);
        let cause = Cause { is_whole: false, ..io.cause };
        let io = BlockIo { range, cause, ..io };
        self.start(index, stage, io, pool);
    }

    /// A step has succeeded: checks the bytes that it read, and continues.
    fn end_step(&mut self, index: usize, pool: &mut Pool) {
        let Some(entry) = self.volumes.get(self.jobs[index].volume) else {
            return self.end(index, Outcome::VolumeGone, pool);
        };
        let block_size = entry.block_size;
        let count = self.step(index, pool).count;
        let job = &mut self.jobs[index];
        if let (Operation::CompareSame { .. }, Some(expected), Some(found)) =
            (&job.operation, job.compare, job.scratch)
        {
            let block_len = ByteLen(block_size.bytes().into()).to_usize();
            let expected = &pool.bytes(expected)[..block_len];
            let blocks = pool.bytes(found).chunks_exact(block_len);
            let differs = (job.done..job.done + count.0)
                .zip(blocks)
                .find_map(|(block, found)| Some((block, first_difference(expected, found)?)));
            if let Some((block, at)) = differs {
                job.found = block * u64::from(block_size.bytes()) + at;
                return self.end(index, Outcome::Miscompare, pool);
            }
        }
        job.done += count.0;
        // A volume that has become shorter or gone is seen when the next step is laid out.
        if self.step(index, pool).count.0 > 0 {
            self.start_step(index, pool);
        } else {
            self.end(index, Outcome::Success, pool);
        }
    }

    /// Records the allocation status, in whole blocks: a partly mapped block counts as mapped.
    fn note_run(&mut self, index: usize, mapped: bool, len: ByteLen) {
        let job = &mut self.jobs[index];
        let Some(entry) = self.volumes.get(job.volume) else { return };
        let block_len = u64::from(entry.block_size.bytes());
        let blocks = if mapped { len.0.div_ceil(block_len) } else { len.0 / block_len };
        job.mapped = mapped || blocks == 0;
        job.found = blocks.max(1);
    }
}
