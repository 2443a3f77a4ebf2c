//! Requests whose range may be longer than any buffer: they process it in steps of at most one
//! scratch buffer. Also the request for the allocation status of a run of blocks.

use nearflash_device::Cause;
use nearflash_layout::{BlockIo, IoKind};
use nearflash_request::{BlockRange, Operation, Outcome};
use nearflash_units::{Blocks, ByteLen, Lba};

use crate::change::first_difference;
use crate::engine::Engine;
use crate::job::Stage;
use crate::pool::Pool;

impl Engine {
    /// Starts to fill the range with one block.
    pub(crate) fn start_write_same(&mut self, index: usize, pool: &mut Pool) {
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
    pub(crate) fn start_or(&mut self, index: usize, pool: &mut Pool) {
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

    pub(crate) fn start_step(&mut self, index: usize, pool: &mut Pool) {
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
    pub(crate) fn end_step(&mut self, index: usize, pool: &mut Pool) {
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
    pub(crate) fn note_run(&mut self, index: usize, mapped: bool, len: ByteLen) {
        let job = &mut self.jobs[index];
        let Some(entry) = self.volumes.get(job.volume) else { return };
        let block_len = u64::from(entry.block_size.bytes());
        let blocks = if mapped { len.0.div_ceil(block_len) } else { len.0 / block_len };
        job.mapped = mapped || blocks == 0;
        job.found = blocks.max(1);
    }
}
