//! One request in flight: its stage and its buffers.

use nearflash_request::{BlockRange, BufferId, Operation, Tag, VolumeId};
use nearflash_units::ByteLen;

use crate::admission::{Taken, Waiting};
use crate::change::{Change, Part};
use crate::depth::Devices;
use crate::edges::Parts;
use crate::engine::Owner;
use crate::fence::Fenced;
use crate::meters::Stamp;
use crate::need::Need;
use crate::pool::Pool;
use crate::waits::Age;

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

/// The operation of a request, without its buffers. As in `Operation`, the tag is a word.
#[derive(Clone, Debug, Eq, PartialEq)]
#[repr(u32)]
pub(crate) enum Work {
    Read,
    Write {
        durable: bool,
    },
    Flush,
    WriteZeroes {
        deallocate: bool,
        durable: bool,
    },
    Deallocate {
        ranges: Box<[BlockRange]>,
        zeroes: bool,
    },
    Admit,
    /// With `done` blocks of the range written.
    WriteSame {
        durable: bool,
        done: u64,
    },
    OrWrite {
        durable: bool,
    },
    Copy {
        source: VolumeId,
        from: BlockRange,
    },
    /// The payload is the expected content after the write.
    WriteAndVerify {
        compare: bool,
    },
    /// With `done` blocks of the range read.
    Verify {
        done: u64,
    },
    /// `mapped` becomes the answer once the device has reported it.
    Allocation {
        mapped: bool,
    },
    Compare,
    /// With `done` blocks of the range compared.
    CompareSame {
        done: u64,
    },
    CompareAndWrite {
        durable: bool,
    },
    WriteBytes {
        part: Part,
        durable: bool,
    },
    Atomic {
        word: u32,
        change: Change,
        durable: bool,
    },
}

impl Work {
    /// Whether it changes what the volume holds, so that fences stop it.
    pub(crate) fn writes(&self) -> bool {
        !matches!(
            self,
            Self::Read
                | Self::Flush
                | Self::Compare
                | Self::CompareSame { .. }
                | Self::Verify { .. }
                | Self::Allocation { .. }
                | Self::Admit
        )
    }

    /// Whether it is answered with a word.
    pub(crate) fn is_atomic(&self) -> bool {
        matches!(self, Self::Atomic { .. })
    }

    /// Whether it compares bytes of the host's with the volume's.
    #[inline]
    pub(crate) fn compares(&self) -> bool {
        matches!(self, Self::Compare | Self::CompareSame { .. } | Self::CompareAndWrite { .. })
    }

    pub(crate) fn needs_fence(&self) -> bool {
        matches!(
            self,
            Self::CompareAndWrite { .. }
                | Self::OrWrite { .. }
                | Self::WriteAndVerify { .. }
                | Self::WriteBytes { .. }
                | Self::Atomic { .. }
        )
    }
}

#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) owner: Owner,
    pub(crate) tag: Tag,
    pub(crate) volume: VolumeId,
    pub(crate) age: Age,
    pub(crate) stamp: Stamp,
    pub(crate) range: BlockRange,
    pub(crate) work: Work,
    pub(crate) stage: Stage,
    /// The buffer that data is read into or written from.
    pub(crate) buffer: Option<BufferId>,
    /// The expected bytes of a comparison.
    pub(crate) compare: Option<BufferId>,
    /// The bytes found on the device, in a comparison or a change.
    pub(crate) scratch: Option<BufferId>,
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
        let (work, buffer, compare) = work_of(request.operation);
        let Taken { need, buffer: read, scratch, edges, devices } = taken;
        let len = |buffer: Option<BufferId>| buffer.map_or(0, |buffer| pool.len_of(buffer).0);
        let brought = len(buffer) + len(compare);
        Self {
            owner: asker.owner,
            tag: request.tag,
            volume: request.volume,
            age: Age { came, begun },
            stamp,
            range: request.range,
            work,
            stage: Stage::Waiting,
            buffer: buffer.or(read),
            compare,
            scratch,
            found: 0,
            charge: ByteLen(brought + need.len().0),
            fenced: false,
            needs_scratch: matches!(need, Need::Scratch(_)),
            edges,
            parts: None,
            devices,
        }
    }

    /// Its volume, and the source of a copy.
    #[inline]
    pub(crate) fn volumes(&self) -> (VolumeId, Option<VolumeId>) {
        match self.work {
            Work::Copy { source, .. } => (self.volume, Some(source)),
            _ => (self.volume, None),
        }
    }

    pub(crate) fn covers(&self) -> Fenced {
        Fenced { volume: self.volume, range: self.range }
    }

    /// Whether a write of this job may be under way within `fenced`.
    pub(crate) fn is_writing_in(&self, fenced: &Fenced) -> bool {
        if self.stage == Stage::Waiting || !self.work.writes() {
            return false;
        }
        match &self.work {
            Work::Deallocate { ranges, .. } => {
                ranges.iter().any(|r| Fenced { volume: self.volume, range: *r }.overlaps(fenced))
            }
            _ => self.covers().overlaps(fenced),
        }
    }
}

/// The work of an operation, its data buffer, and the buffer with the expected bytes.
#[inline]
fn work_of(operation: Operation) -> (Work, Option<BufferId>, Option<BufferId>) {
    match operation {
        Operation::Read => (Work::Read, None, None),
        Operation::ReadInto { buffer } => (Work::Read, Some(buffer), None),
        Operation::Write { payload, force_unit_access: durable } => {
            (Work::Write { durable }, Some(payload), None)
        }
        Operation::Flush => (Work::Flush, None, None),
        Operation::WriteZeroes { deallocate, force_unit_access: durable } => {
            (Work::WriteZeroes { deallocate, durable }, None, None)
        }
        Operation::Deallocate { ranges, zeroes } => {
            (Work::Deallocate { ranges, zeroes }, None, None)
        }
        Operation::Admit(_) => (Work::Admit, None, None),
        Operation::Verify => (Work::Verify { done: 0 }, None, None),
        Operation::Allocation => (Work::Allocation { mapped: true }, None, None),
        Operation::WriteSame { payload, force_unit_access: durable } => {
            (Work::WriteSame { durable, done: 0 }, Some(payload), None)
        }
        Operation::Copy { source, from } => (Work::Copy { source, from }, None, None),
        Operation::OrWrite { payload, force_unit_access: durable } => {
            (Work::OrWrite { durable }, Some(payload), None)
        }
        Operation::WriteAndVerify { payload, compare } => {
            (Work::WriteAndVerify { compare }, None, Some(payload))
        }
        Operation::CompareSame { payload } => (Work::CompareSame { done: 0 }, None, Some(payload)),
        Operation::Compare { payload } => (Work::Compare, None, Some(payload)),
        Operation::CompareAndWrite { compare, write, force_unit_access: durable } => {
            (Work::CompareAndWrite { durable }, Some(write), Some(compare))
        }
        Operation::WriteBytes { payload, skip, len, force_unit_access: durable } => {
            (Work::WriteBytes { part: Part { skip, len }, durable }, Some(payload), None)
        }
        Operation::CompareAndSwap { word, expected, new, force_unit_access: durable } => {
            let change = Change::Swap { expected, new };
            (Work::Atomic { word, change, durable }, None, None)
        }
        Operation::FetchAdd { word, addend, force_unit_access: durable } => {
            (Work::Atomic { word, change: Change::Add(addend), durable }, None, None)
        }
    }
}
