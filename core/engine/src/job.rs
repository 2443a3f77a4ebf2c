//! One request in flight: its stage and its buffers.

use nearflash_device::Cause;
use nearflash_request::{Access, BlockRange, BufferId, Operation, Request, VolumeId};
use nearflash_units::ByteLen;

use crate::admission::{Taken, Waiting};
use crate::depth::Devices;
use crate::edges::{Edges, Parts};
use crate::fence::Fenced;
use crate::need::{Need, brought};
use crate::pool::Pool;
use crate::stamp::Stamp;
use crate::waits::{Age, volumes_of};

/// The current stage of a job. Each stage ends with its IO.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stage {
    /// Not started: waits for its fence.
    Waiting,
    /// Reads into `buffer`.
    Reading,
    /// Reads into the scratch buffer, to compare or only to verify that the blocks can be read.
    Comparing,
    /// Asks the layout for the allocation status.
    Asking,
    /// Reads the bytes that are kept or changed into the scratch buffer.
    Changing,
    /// Writes, zeroes or deallocates.
    Writing,
    /// Flushes, for a Flush request or to make written data durable.
    Flushing,
}

#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) cause: Cause,
    pub(crate) volume: VolumeId,
    pub(crate) age: Age,
    pub(crate) stamp: Stamp,
    pub(crate) range: BlockRange,
    pub(crate) operation: Operation,
    pub(crate) stage: Stage,
    /// The buffer that data is read into or written from.
    pub(crate) buffer: Option<BufferId>,
    /// The expected bytes of a comparison.
    pub(crate) compare: Option<BufferId>,
    /// The bytes found on the device, in a comparison or a change.
    pub(crate) scratch: Option<BufferId>,
    /// The blocks of the range that are done, of an operation that goes step by step.
    pub(crate) done: u64,
    /// The allocation status that the device has reported.
    pub(crate) mapped: bool,
    /// The number in the answer: the previous word of an atomic operation, the offset of a
    /// comparison's first difference, or the number of blocks with the same allocation status.
    pub(crate) found: u64,
    /// Pool bytes that the owner was charged for this request.
    pub(crate) charge: ByteLen,
    /// Holds, or has asked for, its fence.
    pub(crate) fenced: bool,
    /// The buffer taken for it, in addition to those it brought along, is scratch.
    pub(crate) needs_scratch: bool,
    /// The buffer that edges are read into, if the job may have any.
    pub(crate) edges: Option<BufferId>,
    /// The progress of its IO, if that is done in parts.
    pub(crate) parts: Option<Box<Parts>>,
    /// The devices whose depth it counts for.
    pub(crate) devices: Devices,
}

impl Job {
    /// A request that begins in the generation `begun` of waits, with the buffers taken for it in
    /// addition to those it brings along.
    #[inline]
    pub(crate) fn new(waiting: Waiting, begun: u64, taken: Taken, pool: &Pool) -> Self {
        let Waiting { asker, request, came, stamp } = waiting;
        let Request { tag, volume, range, operation, sent_in } = request;
        let (buffer, compare) = brought(&operation);
        let Taken { need, buffer: read, scratch, edges, devices } = taken;
        let len = |buffer: Option<BufferId>| buffer.map_or(0, |buffer| pool.len_of(buffer).0);
        let brought_len = len(buffer) + len(compare);
        let (owner, begin_by) = (asker.owner, asker.begin_by);
        Self {
            cause: Cause { owner, tag, begin_by, sent_in, is_whole: true },
            volume,
            age: Age { came, begun },
            stamp,
            range,
            operation,
            stage: Stage::Waiting,
            buffer: buffer.or(read),
            compare,
            scratch,
            done: 0,
            mapped: true,
            found: 0,
            charge: ByteLen(brought_len + need.len().0),
            fenced: false,
            needs_scratch: matches!(need, Need::Scratch(_)),
            edges,
            parts: None,
            devices,
        }
    }

    #[inline]
    pub(crate) fn volumes(&self) -> (VolumeId, Option<VolumeId>) {
        volumes_of(self.volume, &self.operation)
    }

    /// Whether it changes what the volume holds, so that fences stop it.
    #[inline]
    pub(crate) fn writes(&self) -> bool {
        self.operation.access() == Access::Write && !matches!(self.operation, Operation::Admit(_))
    }

    /// Whether it is answered with a word.
    pub(crate) fn is_atomic(&self) -> bool {
        matches!(self.operation, Operation::CompareAndSwap { .. } | Operation::FetchAdd { .. })
    }

    /// Whether it compares bytes of the host's with the volume's.
    #[inline]
    pub(crate) fn compares(&self) -> bool {
        matches!(
            self.operation,
            Operation::Compare { .. }
                | Operation::CompareSame { .. }
                | Operation::CompareAndWrite { .. }
        )
    }

    pub(crate) fn needs_fence(&self) -> bool {
        self.operation.is_compound()
    }

    /// The ranges that it changes, if it changes any.
    pub(crate) fn ranges(&self) -> &[BlockRange] {
        match &self.operation {
            Operation::Deallocate { ranges, .. } => ranges,
            _ => std::slice::from_ref(&self.range),
        }
    }

    /// Whether it writes a part of a block of the device. A hint leaves such parts as they are.
    #[inline]
    pub(crate) fn writes_edges(&self, edges: &Edges) -> bool {
        let is_hint = matches!(self.operation, Operation::Deallocate { zeroes: false, .. });
        edges.cut(self.volume, self.ranges()) && self.writes() && !is_hint
    }

    /// Whether a write of this job may be under way within `fenced`.
    pub(crate) fn is_writing_in(&self, fenced: &Fenced) -> bool {
        if self.stage == Stage::Waiting || !self.writes() {
            return false;
        }
        let volume = self.volume;
        self.ranges().iter().any(|range| Fenced { volume, range: *range }.overlaps(fenced))
    }
}
