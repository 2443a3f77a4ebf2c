//! Requests to devices, their results, and the properties of a device.

use nearflash_request::BufferId;
use nearflash_units::{BlockSize, ByteLen, ByteOffset};

/// A device's place in the node's device table, for as long as the node runs. What lasts longer
/// is the device's UUID.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct DeviceId(pub u32);

/// The name of a device operation in flight; comes back with its [`DeviceResult`].
///
/// A number is used again as soon as its IO has ended; the generation tells the uses apart, so that
/// a completion that comes late or twice finds nothing instead of ending another's operation.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct OperationId {
    /// The IO that it is part of.
    pub io: u32,
    /// Which of that IO's operations it is.
    pub op: u16,
    /// Which use of the IO's number this is.
    pub generation: u16,
}

/// One operation on one device. Offsets and lengths are whole blocks of the device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DeviceRequest {
    /// Its name.
    pub id: OperationId,
    /// Which device.
    pub device: DeviceId,
    /// What.
    pub operation: DeviceOperation,
    /// Where, from the start of the device.
    pub offset: ByteOffset,
    /// How much.
    pub len: ByteLen,
}

/// What to do with a range of a device.
///
/// With a tag as wide as its fields, a copy goes word by word. With one of a byte, a copy begins at
/// an odd place, and waits for stores that it overlaps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum DeviceOperation {
    /// Into `buffer`, from `buffer_offset` on.
    Read {
        /// Where the bytes go. `None` for a device that reads as zeroes: only time passes.
        buffer: Option<BufferId>,
        /// Where in the buffer.
        buffer_offset: ByteLen,
    },
    /// From `buffer`, from `buffer_offset` on.
    Write {
        /// Where the bytes are.
        buffer: BufferId,
        /// Where in the buffer.
        buffer_offset: ByteLen,
        /// On stable media before the answer.
        durable: bool,
    },
    /// All completed writes are on stable media before the answer. Offset and length are ignored.
    Flush,
    /// The range reads as zeroes afterwards; `deallocate` lets the device release the blocks.
    WriteZeroes {
        /// The blocks may be released.
        deallocate: bool,
    },
    /// The range is no longer needed. It reads as zeroes or unchanged afterwards.
    Deallocate,
    /// How the run is that begins at the offset and ends with the length at the latest:
    /// [`DeviceResult::Mapped`] or [`DeviceResult::Unmapped`]; [`DeviceResult::Unsupported`] if the
    /// device does not know.
    Allocation,
}

impl DeviceOperation {
    /// Whether it ends only when bytes are on stable media.
    #[inline]
    pub fn makes_durable(self) -> bool {
        matches!(self, Self::Flush | Self::Write { durable: true, .. })
    }

    /// Whether a device that ends it so may have lost what was acknowledged before: not if it has not
    /// tried, nor if it is full and has refused this write alone.
    pub fn loses(self, result: DeviceResult) -> bool {
        match result {
            DeviceResult::Unsupported => false,
            DeviceResult::NoSpace => self == Self::Flush,
            _ => self.makes_durable() && !result.is_done(),
        }
    }
}

/// What runs are measured in: the smallest block of any device.
pub const RUN_UNIT: u64 = 512;

/// How a device operation ended. Its tag is a word, as a [`DeviceOperation`]'s.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum DeviceResult {
    /// All of it was done.
    Done,
    /// What was asked of an allocation: a run of so many units of [`RUN_UNIT`] bytes, the last one
    /// perhaps begun, with storage of its own. Never zero.
    Mapped(u32),
    /// The same for a run without, which reads as zeroes.
    Unmapped(u32),
    /// The device is full.
    NoSpace,
    /// The medium failed.
    MediumError,
    /// The device is gone.
    Gone,
    /// The device cannot do that.
    Unsupported,
}

impl DeviceResult {
    /// The answer to an allocation: a run of `len` bytes. One that is longer than can be said is
    /// said to be shorter.
    pub fn run(mapped: bool, len: ByteLen) -> Self {
        let units = len.0.div_ceil(RUN_UNIT).max(1);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        if mapped { Self::Mapped(units) } else { Self::Unmapped(units) }
    }

    /// Whether the operation was done, and what was asked is known.
    pub fn is_done(self) -> bool {
        matches!(self, Self::Done | Self::Mapped(_) | Self::Unmapped(_))
    }
}

/// What the engine and the doors need to know of a device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DeviceProperties {
    /// Its size, label included.
    pub len: ByteLen,
    /// The smallest unit that it writes whole.
    pub block_size: BlockSize,
    /// Completed writes may be lost with power until a flush.
    pub volatile_cache: bool,
    /// Every read is zeroes, so reads need no buffer.
    pub reads_as_zeroes: bool,
    /// Deallocated blocks are released.
    pub deallocates: bool,
}
