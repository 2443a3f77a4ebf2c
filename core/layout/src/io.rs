//! IOs that the engine gives to a layout, and their results.

use nearflash_device::{Cause, DeviceOperation, DeviceResult, RUN_UNIT};
use nearflash_request::{BlockRange, BufferId, Outcome, VolumeId};
use nearflash_units::ByteLen;

/// The engine's number for an IO, unique in flight. The layout has a place for each number.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct IoId(pub u32);

/// An IO on blocks of a volume.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BlockIo {
    /// The engine's number for it.
    pub id: IoId,
    /// The volume.
    pub volume: VolumeId,
    /// The blocks. Empty for a flush.
    pub range: BlockRange,
    /// Further ranges, whose bytes follow those of `range` in the buffer; usually empty.
    pub more: Box<[BlockRange]>,
    /// The operation on the blocks.
    pub kind: IoKind,
    /// The first byte in the buffer.
    pub buffer_offset: ByteLen,
    /// The request that it is for. A flush that another node sent is shared with no other IO: its device
    /// must know whose flush it is.
    pub cause: Cause,
}

/// The kind of an IO. Its tag is a word, as in [`DeviceOperation`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum IoKind {
    /// Fills `buffer`; `None` for a volume that reads as zeroes.
    Read {
        /// The destination.
        buffer: Option<BufferId>,
    },
    /// Writes the bytes of `buffer`.
    Write {
        /// The source.
        buffer: BufferId,
        /// The bytes are on stable media before the result.
        durable: bool,
    },
    /// Writes the bytes of `buffer`, except for the first `skip` bytes of the first block and the last
    /// `tail` bytes of the last one, which stay. Only for a volume of another node, which keeps the rest
    /// of these blocks.
    WritePart {
        /// The source: it has room for the whole range.
        buffer: BufferId,
        /// The bytes are on stable media before the result.
        durable: bool,
        /// Less than a block.
        skip: u32,
        /// Less than a block.
        tail: u32,
    },
    /// The blocks read as zeroes afterwards.
    Zero {
        /// Their storage may be released, if the volume releases any.
        deallocate: bool,
    },
    /// The blocks are no longer needed: a hint, which volumes and devices may ignore.
    Discard,
    /// All writes of the volume that have ended are on stable media before the result.
    Flush,
    /// Asks whether the first blocks of the range have storage of their own.
    Allocation,
}

/// The result of an IO.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IoResult {
    /// The whole IO was done.
    Done,
    /// The result of [`IoKind::Allocation`]: the length of the run at the start of the range whose
    /// blocks have the same state. Never zero; the run may continue past this length.
    Run {
        /// Whether the run has storage of its own.
        mapped: bool,
        /// The length of the run.
        len: ByteLen,
    },
    /// The first failure of an operation. Any part of the IO may have been done.
    Failed(Outcome),
}

impl IoResult {
    /// The effect of one operation's result on the result of its IO.
    #[inline]
    pub(crate) fn of(operation: DeviceOperation, len: ByteLen, result: DeviceResult) -> Self {
        let run = |mapped, units| Self::Run {
            mapped,
            len: len.min(ByteLen(u64::from(units) * RUN_UNIT)),
        };
        match (result, operation) {
            (DeviceResult::Done, _) => Self::Done,
            (DeviceResult::Mapped(units), _) => run(true, units),
            (DeviceResult::Unmapped(units), _) => run(false, units),
            // A discard is a hint: a device that cannot take it loses nothing.
            (DeviceResult::Unsupported, DeviceOperation::Deallocate) => Self::Done,
            // A device that cannot report allocation counts as fully allocated.
            (DeviceResult::Unsupported, DeviceOperation::Allocation) => {
                Self::Run { mapped: true, len }
            }
            (DeviceResult::Unsupported, _) => Self::Failed(Outcome::Unsupported),
            (DeviceResult::Remote(outcome), _) => Self::Failed(outcome),
            (DeviceResult::NoSpace, _) => Self::Failed(Outcome::CapacityExceeded),
            (DeviceResult::Gone, _) => Self::Failed(Outcome::DeviceUnavailable),
            (
                DeviceResult::MediumError,
                DeviceOperation::Read { .. } | DeviceOperation::Allocation,
            ) => Self::Failed(Outcome::UnrecoveredRead),
            (DeviceResult::MediumError | DeviceResult::WornOut, _) => {
                Self::Failed(Outcome::WriteFault)
            }
        }
    }
}
