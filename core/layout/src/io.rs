//! What the engine asks of a layout, and how that ends.

use nearflash_device::{DeviceOperation, DeviceResult, RUN_UNIT};
use nearflash_request::{BlockRange, BufferId, Outcome, VolumeId};
use nearflash_units::ByteLen;

/// The engine's number for an IO. One number has at most one IO at a time. Numbers are dense: the
/// layout keeps a place for every number below the largest one.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct IoId(pub u32);

/// An IO on blocks of a volume.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BlockIo {
    /// The engine's number for it.
    pub id: IoId,
    /// Which volume.
    pub volume: VolumeId,
    /// Which blocks. A flush has none.
    pub range: BlockRange,
    /// Further blocks, which follow those of `range` in the buffer; seldom any.
    pub more: Box<[BlockRange]>,
    /// What to do with them.
    pub kind: IoKind,
    /// Where in its buffer their bytes begin.
    pub buffer_offset: ByteLen,
}

/// What an IO does. Its tag is a word, as a [`DeviceOperation`]'s.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum IoKind {
    /// Fills `buffer`; `None` for a volume that reads as zeroes.
    Read {
        /// Where the bytes go.
        buffer: Option<BufferId>,
    },
    /// Writes the bytes of `buffer`.
    Write {
        /// Where the bytes are.
        buffer: BufferId,
        /// On stable media before the result.
        durable: bool,
    },
    /// The blocks read as zeroes afterwards.
    Zero {
        /// Their storage may be released, if the volume releases any.
        deallocate: bool,
    },
    /// The blocks are no longer needed. A hint: a volume that keeps its storage, or a device that
    /// cannot release any, ignores it.
    Discard,
    /// All writes of the volume that have ended are on stable media before the result.
    Flush,
    /// Asks whether the first blocks of the range have storage of their own.
    Allocation,
}

/// How an IO ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IoResult {
    /// All of it was done.
    Done,
    /// The answer to [`IoKind::Allocation`]: how many bytes from the start of the range on are
    /// alike. Never zero; the run may go on behind them.
    Run {
        /// They have storage of their own.
        mapped: bool,
        /// How many.
        len: ByteLen,
    },
    /// One of its operations failed, and this is how the first one to end so did. Any part of the
    /// IO may have been done.
    Failed(Outcome),
}

impl IoResult {
    /// What the result of one operation says of its IO.
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
            // A device that cannot take a hint loses nothing.
            (DeviceResult::Unsupported, DeviceOperation::Deallocate) => Self::Done,
            // A device that does not know has all of it.
            (DeviceResult::Unsupported, DeviceOperation::Allocation) => {
                Self::Run { mapped: true, len }
            }
            (DeviceResult::Unsupported, _) => Self::Failed(Outcome::Unsupported),
            (DeviceResult::NoSpace, _) => Self::Failed(Outcome::CapacityExceeded),
            (DeviceResult::Gone, _) => Self::Failed(Outcome::DeviceUnavailable),
            (
                DeviceResult::MediumError,
                DeviceOperation::Read { .. } | DeviceOperation::Allocation,
            ) => Self::Failed(Outcome::UnrecoveredRead),
            (DeviceResult::MediumError, _) => Self::Failed(Outcome::WriteFault),
        }
    }
}
