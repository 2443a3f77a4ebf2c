//! Copies: blocks read from one place, of this volume or of another, and written to another place.
//!
//! One copy is at most as long as a buffer; a longer copy takes several requests. A copy therefore
//! never delays a fence for long, and each request is checked anew.
//!
//! Invariant: all of the source is read before any of it is written, so that both may overlap.

use nearflash_layout::{BlockIo, IoKind};
use nearflash_request::{Access, BlockRange, Nexus, Operation, Outcome, Request, VolumeId};

use crate::engine::Engine;
use crate::job::Stage;
use crate::pool::Pool;

impl Engine {
    /// The outcome of a copy whose source does not permit it; `None` if it does.
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

    /// Starts to read the source.
    pub(crate) fn start_copy(&mut self, index: usize, pool: &mut Pool) {
        let job = &self.jobs[index];
        let (buffer, Operation::Copy { source, from }) = (job.scratch, &job.operation) else {
            unreachable!("only copies are read so")
        };
        let (volume, range) = (*source, *from);
        let io = BlockIo { volume, range, ..self.io(index, IoKind::Read { buffer }) };
        self.start(index, Stage::Reading, io, pool);
    }

    /// The source is read: writes it.
    pub(crate) fn write_copied(&mut self, index: usize, pool: &mut Pool) {
        // Without a buffer there is nothing to copy.
        let Some(buffer) = self.jobs[index].scratch else {
            return self.end(index, Outcome::Success, pool);
        };
        let io = self.io(index, IoKind::Write { buffer, durable: false });
        self.start(index, Stage::Writing, io, pool);
    }
}
