//! Copies: blocks read from one place, of this volume or of another, and written to another place.
//!
//! One copy is no longer than a buffer: who copies more asks again. So a copy never keeps a fence
//! waiting for long, and everything that decides on requests is looked at again for each.
//!
//! Invariant: all of the source is read before any of it is written, so that both may overlap.

use nearflash_request::{Access, BlockRange, Nexus, Outcome, Request, VolumeId};
use nearflash_units::ByteLen;

use crate::engine::{Engine, operation_of};
use crate::job::{Stage, Work};
use crate::pool::Pool;
use nearflash_device::{DeviceOperation, DeviceRequest};

impl Engine {
    /// Why a copy cannot begin for what it reads.
    pub(crate) fn refusal_of_source(
        &self,
        nexus: Nexus,
        source: VolumeId,
        from: BlockRange,
        request: &Request,
    ) -> Option<Outcome> {
        let Some(entry) = self.volumes.get(source) else { return Some(Outcome::VolumeGone) };
        if let Some(restriction) = &entry.restriction
            && let Some(refusal) = restriction.refusal(nexus, Access::Read)
        {
            return Some(refusal);
        }
        let destination = self.volumes.get(request.volume)?;
        let len = entry.block_size.len(from.count);
        let is_as_long = len.is_some_and(|len| {
            len <= Pool::LEN_MAX && Some(len) == destination.block_size.len(request.range.count)
        });
        let is_there = entry.blocks.contains(from.start, from.count);
        (!is_as_long || !is_there).then_some(Outcome::OutOfRange)
    }

    pub(crate) fn begin_copy(&mut self, index: usize, pool: &mut Pool) {
        if !self.start_with_buffer(index, pool) {
            self.starved.push_back(index);
        }
    }

    /// Starts to read the source; `false` when there is no buffer.
    pub(crate) fn try_copy(&mut self, index: usize, pool: &mut Pool) -> bool {
        // It may have waited for a buffer, and a hold may have come meanwhile.
        if self.is_held_back(index) {
            self.held_back.push_back(index);
            return true;
        }
        if !self.take_scratch(index, pool) {
            return false;
        }
        let job = &mut self.jobs[index];
        let (buffer, Work::Copy { source, from }) = (job.scratch, &job.work) else {
            unreachable!("only copies are read so")
        };
        let pieces = self.volumes.get(*source).map(|entry| entry.map.locate(*from));
        let Some(Some(pieces)) = pieces else {
            let is_gone = pieces.is_none();
            let outcome = if is_gone { Outcome::VolumeGone } else { Outcome::OutOfRange };
            self.end(index, outcome, pool);
            return true;
        };
        job.stage = Stage::Reading;
        let mut buffer_offset = ByteLen(0);
        for piece in pieces {
            job.pending += 1;
            let operation = DeviceOperation::Read { buffer, buffer_offset };
            let (device, offset, len) = (piece.device, piece.offset, piece.len);
            let request = DeviceRequest { id: operation_of(index), device, operation, offset, len };
            self.device_requests.push_back(request);
            buffer_offset.0 += len.0;
        }
        if job.pending == 0 {
            self.end_stage(index, pool);
        }
        true
    }

    /// The source is read: writes it.
    pub(crate) fn write_copied(&mut self, index: usize, pool: &mut Pool) {
        let job = &self.jobs[index];
        let range = job.range;
        // Without a buffer there is nothing to copy.
        let Some(buffer) = job.scratch else { return self.end(index, Outcome::Success, pool) };
        self.start_ranges(index, Stage::Writing, [range], pool, |buffer_offset| {
            DeviceOperation::Write { buffer, buffer_offset, durable: false }
        });
    }
}
