//! The stages of a job: what each kind of request asks of its devices, and what follows when they
//! have answered.
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
//! write bytes         (Changing)   Writing             answer   (all within a fence)
//! swap, add to word    Changing   (Writing)            answer   (all within a fence)
//! ```

use nearflash_request::{BlockRange, Outcome};
use nearflash_units::{ByteLen, ByteOffset};

use nearflash_space::Provisioning;

use crate::change::{Kept, first_difference, word_mut};
use crate::engine::{Engine, operation_of};
use crate::fence::{CoreId, FenceMessage};
use crate::job::{Stage, Work};
use crate::pool::Pool;
use nearflash_device::{DeviceOperation, DeviceRequest};

impl Engine {
    #[inline]
    pub(crate) fn begin(&mut self, index: usize, pool: &mut Pool) {
        let job = &self.jobs[index];
        match &job.work {
            Work::Read
            | Work::Compare
            | Work::CompareSame { .. }
            | Work::Verify { .. }
            | Work::WriteSame { .. } => {
                if !self.start_with_buffer(index, pool) {
                    self.starved.push_back(index);
                }
            }
            Work::Flush => self.flush(index, pool),
            Work::Allocation { .. } => self.ask_allocation(index, pool),
            Work::Admit => self.end(index, Outcome::Success, pool),
            Work::Copy { .. } => self.begin_copy(index, pool),
            work if work.needs_fence() => {
                let covers = job.covers();
                self.jobs[index].fenced = true;
                let acquire = FenceMessage::Acquire(self.fence_of(index), covers);
                self.fence_messages.push_back((CoreId::FIRST, acquire));
            }
            _ if self.is_held_back(index) => self.held_back.push_back(index),
            _ => self.write(index, pool),
        }
    }

    /// A job has its range to itself.
    pub(crate) fn begin_granted(&mut self, index: usize, pool: &mut Pool) {
        if !self.start_with_buffer(index, pool) {
            self.starved.push_back(index);
        }
    }

    /// Starts a job that needs a pool buffer; `false` when there is none.
    pub(crate) fn start_with_buffer(&mut self, index: usize, pool: &mut Pool) -> bool {
        match self.jobs[index].work {
            Work::Read => self.read(index, pool),
            Work::WriteBytes { .. } | Work::Atomic { .. } => self.try_change(index, pool),
            Work::OrWrite { .. } => self.try_or(index, pool),
            Work::WriteSame { .. } => self.try_write_same(index, pool),
            Work::Copy { .. } => self.try_copy(index, pool),
            Work::CompareSame { .. } | Work::Verify { .. } => self.try_steps(index, pool),
            Work::WriteAndVerify { .. } if self.jobs[index].stage == Stage::Waiting => {
                self.write(index, pool);
                true
            }
            _ => self.try_compare(index, pool),
        }
    }

    fn read(&mut self, index: usize, pool: &mut Pool) -> bool {
        let job = &mut self.jobs[index];
        if job.charge.0 > 0 {
            let Some(buffer) = pool.take(job.charge) else { return false };
            job.buffer = Some(buffer);
        }
        let buffer = job.buffer;
        self.start_stage(index, Stage::Reading, pool, |buffer_offset| DeviceOperation::Read {
            buffer,
            buffer_offset,
        });
        true
    }

    /// A volume that keeps all its storage.
    pub(crate) fn is_thick(&self, index: usize) -> bool {
        let entry = self.volumes.get(self.jobs[index].volume);
        entry.is_some_and(|entry| entry.provisioning == Provisioning::Thick)
    }

    fn try_compare(&mut self, index: usize, pool: &mut Pool) -> bool {
        let payload = self.jobs[index].compare.expect("a comparison has something to compare");
        let Some(scratch) = self.scratch(pool.len_of(payload), pool) else { return false };
        self.jobs[index].scratch = Some(scratch);
        self.start_stage(index, Stage::Comparing, pool, |buffer_offset| DeviceOperation::Read {
            buffer: Some(scratch),
            buffer_offset,
        });
        true
    }

    /// Reads the blocks that are changed in part, if there are any.
    fn try_change(&mut self, index: usize, pool: &mut Pool) -> bool {
        let job = &self.jobs[index];
        let Some(entry) = self.volumes.get(job.volume) else {
            self.end(index, Outcome::VolumeGone, pool);
            return true;
        };
        let kept = match &job.work {
            Work::WriteBytes { part, .. } => part.kept(entry.block_size, job.range),
            _ => Kept { first: Some(job.range), last: None },
        };
        let count = kept.iter().count();
        if count == 0 {
            self.write(index, pool);
            return true;
        }
        let len = ByteLen(u64::from(entry.block_size.bytes()) * if count == 2 { 2 } else { 1 });
        let Some(scratch) = self.scratch(len, pool) else { return false };
        self.jobs[index].scratch = Some(scratch);
        self.start_ranges(index, Stage::Changing, kept.iter(), pool, |buffer_offset| {
            DeviceOperation::Read { buffer: Some(scratch), buffer_offset }
        });
        true
    }

    /// What was to be changed is read: changes it, and writes it.
    fn change(&mut self, index: usize, pool: &mut Pool) {
        let job = &mut self.jobs[index];
        let scratch = job.scratch.expect("what is changed was read");
        match &job.work {
            Work::Atomic { word, change, .. } => {
                let bytes = word_mut(pool.bytes_mut(scratch), *word);
                job.found = u64::from_le_bytes(*bytes);
                match change.apply(job.found) {
                    Some(new) => *bytes = new.to_le_bytes(),
                    None => return self.end(index, Outcome::Miscompare, pool),
                }
            }
            Work::OrWrite { .. } => {
                let payload = job.buffer.expect("a write has its payload");
                let (payload, found) = pool.pair_mut(payload, scratch);
                payload.iter_mut().zip(found).for_each(|(bits, found)| *bits |= found);
            }
            Work::WriteBytes { part, .. } => {
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
        let buffer = if job.work.is_atomic() { job.scratch } else { job.buffer };
        match &job.work {
            Work::Write { durable }
            | Work::CompareAndWrite { durable }
            | Work::OrWrite { durable }
            | Work::WriteBytes { durable, .. }
            | Work::Atomic { durable, .. } => {
                let (buffer, durable) = (buffer.expect("a write has its payload"), *durable);
                self.start_stage(index, Stage::Writing, pool, |buffer_offset| {
                    DeviceOperation::Write { buffer, buffer_offset, durable }
                });
            }
            Work::WriteAndVerify { .. } => {
                let buffer = job.compare.expect("a write has its payload");
                self.start_stage(index, Stage::Writing, pool, |buffer_offset| {
                    DeviceOperation::Write { buffer, buffer_offset, durable: true }
                });
            }
            // Was held back, and has no buffer to write from yet.
            Work::WriteSame { .. } | Work::Copy { .. } => {
                if !self.start_with_buffer(index, pool) {
                    self.starved.push_back(index);
                }
            }
            Work::WriteZeroes { deallocate, .. } => {
                let deallocate = *deallocate && !self.is_thick(index);
                self.start_stage(index, Stage::Writing, pool, |_| DeviceOperation::WriteZeroes {
                    deallocate,
                });
            }
            Work::Deallocate { ranges, zeroes } => {
                let (ranges, zeroes) = (ranges.clone(), *zeroes);
                let operation = match (zeroes, self.is_thick(index)) {
                    (true, is_thick) => DeviceOperation::WriteZeroes { deallocate: !is_thick },
                    (false, false) => DeviceOperation::Deallocate,
                    (false, true) => return self.end(index, Outcome::Success, pool),
                };
                self.start_ranges(index, Stage::Writing, ranges, pool, |_| operation);
            }
            Work::Read
            | Work::Flush
            | Work::Compare
            | Work::CompareSame { .. }
            | Work::Verify { .. }
            | Work::Allocation { .. }
            | Work::Admit => unreachable!("these do not write"),
        }
    }

    fn flush(&mut self, index: usize, pool: &mut Pool) {
        self.jobs[index].stage = Stage::Flushing;
        let Some(entry) = self.volumes.get(self.jobs[index].volume) else {
            return self.end(index, Outcome::VolumeGone, pool);
        };
        let mut pending = 0;
        for device in entry.map.devices() {
            pending += 1;
            self.device_requests.push_back(DeviceRequest {
                id: operation_of(index),
                device,
                operation: DeviceOperation::Flush,
                offset: ByteOffset(0),
                len: ByteLen(0),
            });
        }
        self.jobs[index].pending = pending;
        if pending == 0 {
            self.end_stage(index, pool);
        }
    }

    /// Starts the operations of a stage over the job's range.
    #[inline]
    fn start_stage(
        &mut self,
        index: usize,
        stage: Stage,
        pool: &mut Pool,
        operation: impl Fn(ByteLen) -> DeviceOperation,
    ) {
        let range = self.jobs[index].range;
        self.start_ranges(index, stage, [range], pool, operation);
    }

    /// The same over ranges, which lie one behind the other in the buffer.
    #[inline]
    pub(crate) fn start_ranges(
        &mut self,
        index: usize,
        stage: Stage,
        ranges: impl IntoIterator<Item = BlockRange>,
        pool: &mut Pool,
        operation: impl Fn(ByteLen) -> DeviceOperation,
    ) {
        let job = &mut self.jobs[index];
        job.stage = stage;
        // Looked up again because stages lie apart in time: the volume may be gone or shorter.
        let Some(entry) = self.volumes.get(job.volume) else {
            return self.end(index, Outcome::VolumeGone, pool);
        };
        let mut buffer_offset = ByteLen(0);
        for range in ranges {
            let Some(pieces) = entry.map.locate(range) else {
                job.note_out_of_range();
                break;
            };
            for piece in pieces {
                job.pending += 1;
                self.device_requests.push_back(DeviceRequest {
                    id: operation_of(index),
                    device: piece.device,
                    operation: operation(buffer_offset),
                    offset: piece.offset,
                    len: piece.len,
                });
                buffer_offset.0 += piece.len.0;
            }
        }
        if job.pending == 0 {
            self.end_stage(index, pool);
        }
    }

    /// All operations of the stage are answered: on to the next one, or the answer.
    #[inline]
    pub(crate) fn end_stage(&mut self, index: usize, pool: &mut Pool) {
        let job = &self.jobs[index];
        let (stage, outcome) = (job.stage, job.outcome);
        if outcome != Outcome::Success {
            return self.end(index, outcome, pool);
        }
        match (stage, &job.work) {
            (
                Stage::Comparing | Stage::Writing,
                Work::WriteSame { .. } | Work::Verify { .. } | Work::CompareSame { .. },
            ) => self.end_step(index, pool),
            (Stage::Writing, Work::WriteAndVerify { .. }) => {
                if !self.start_with_buffer(index, pool) {
                    self.starved.push_back(index);
                }
            }
            (Stage::Comparing, Work::WriteAndVerify { compare: false }) => {
                self.end(index, Outcome::Success, pool);
            }
            (Stage::Comparing, work) => {
                let then_write = matches!(work, Work::CompareAndWrite { .. });
                match self.compare(index, pool) {
                    Outcome::Success if then_write => self.write(index, pool),
                    outcome => self.end(index, outcome, pool),
                }
            }
            (Stage::Changing, _) => self.change(index, pool),
            (Stage::Reading, Work::Copy { .. }) => self.write_copied(index, pool),
            (Stage::Writing, Work::WriteZeroes { durable: true, .. }) => self.flush(index, pool),
            _ => self.end(index, Outcome::Success, pool),
        }
    }

    /// Compares what was read with what must be there; notes where they differ.
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
