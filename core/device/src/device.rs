//! Requests to devices, their results, and the properties of a device.

use nearflash_request::{BufferId, Outcome};
use nearflash_units::{BlockSize, ByteLen, ByteOffset};

/// A device's index in the node's table, for one run; across runs, its UUID identifies it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct DeviceId(pub u32);

/// The id of a device operation in flight; its [`DeviceResult`] comes back with the same id.
///
/// An IO's number is reused as soon as the IO has ended. The generation distinguishes the uses, so
/// that a late or repeated completion matches no operation instead of ending another one.
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
    /// The operation's id.
    pub id: OperationId,
    /// The device.
    pub device: DeviceId,
    /// The operation.
    pub operation: DeviceOperation,
    /// The first byte, from the start of the device.
    pub offset: ByteOffset,
    /// The length of the range.
    pub len: ByteLen,
}

/// An operation on a range of a device.
///
/// `repr(u32)` makes the tag as wide as the fields, so that a copy moves whole words. With a tag of
/// one byte, a copy starts at an odd address and stalls on overlapping stores.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names say what the fields are")]
pub enum DeviceOperation {
    /// Reads into `buffer`, from `buffer_offset` on.
    Read {
        /// The destination. `None` for a device that reads as zeroes: the read only takes time.
        buffer: Option<BufferId>,
        buffer_offset: ByteLen,
    },
    /// Writes from `buffer`, from `buffer_offset` on.
    Write {
        buffer: BufferId,
        buffer_offset: ByteLen,
        /// The bytes are on stable media before the result.
        durable: bool,
    },
    /// All completed writes are on stable media before the result. Offset and length are ignored.
    Flush,
    /// The range reads as zeroes afterwards; `deallocate` lets the device release the blocks.
    WriteZeroes { deallocate: bool },
    /// The range is no longer needed. It reads as zeroes or unchanged afterwards.
    Deallocate,
    /// Asks for the allocation state of the run that begins at `offset` and ends within `len`:
    /// [`DeviceResult::Mapped`] or [`DeviceResult::Unmapped`]; [`DeviceResult::Unsupported`] if the
    /// device does not know.
    Allocation,
}

impl DeviceOperation {
    /// Whether it changes data.
    pub fn changes_data(self) -> bool {
        matches!(self, Self::Write { .. } | Self::WriteZeroes { .. } | Self::Deallocate)
    }

    /// Whether a successful result promises that bytes are on stable media.
    pub fn makes_durable(self) -> bool {
        matches!(self, Self::Flush | Self::Write { durable: true, .. })
    }

    /// Whether data acknowledged earlier may be lost after this result. It is not if the device did
    /// not try the operation, or if it is full or worn out and refused only this write. Another node itself keeps
    /// in mind that its device has lost data.
    pub fn loses(self, result: DeviceResult) -> bool {
        match result {
            DeviceResult::Unsupported | DeviceResult::WornOut | DeviceResult::Remote(_) => false,
            DeviceResult::NoSpace => self == Self::Flush,
            _ => self.makes_durable() && !result.is_done(),
        }
    }
}

/// The unit of run lengths in bytes: the smallest block size of any device.
pub const RUN_UNIT: u64 = 512;

/// The result of a device operation. Its tag is a word, as in [`DeviceOperation`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum DeviceResult {
    /// The whole operation was done.
    Done,
    /// Allocation: the range begins with this many units of [`RUN_UNIT`] bytes, the last one
    /// possibly partial, that have storage of their own. Never zero.
    Mapped(u32),
    /// Allocation: the same for a run without storage, which reads as zeroes.
    Unmapped(u32),
    /// The device is full.
    NoSpace,
    /// The medium failed.
    MediumError,
    /// The device is at the end of its life, and can only be read: it refused the operation, and has
    /// lost nothing.
    WornOut,
    /// The device is gone.
    Gone,
    /// The device does not support the operation.
    Unsupported,
    /// The device is a volume of another node, which answered so, or cannot be reached.
    Remote(Outcome),
}

impl DeviceResult {
    /// The result of an allocation query: a run of `len` bytes, shortened to a `u32` of units.
    pub fn run(mapped: bool, len: ByteLen) -> Self {
        let units = len.0.div_ceil(RUN_UNIT).max(1);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        if mapped { Self::Mapped(units) } else { Self::Unmapped(units) }
    }

    /// Whether the operation succeeded.
    pub fn is_done(self) -> bool {
        matches!(self, Self::Done | Self::Mapped(_) | Self::Unmapped(_))
    }
}

/// The properties of a device that the engine and the protocol front ends use.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DeviceProperties {
    /// The device's size, label included.
    pub len: ByteLen,
    /// The smallest unit that the device writes atomically.
    pub block_size: BlockSize,
    /// Completed writes may be lost at a power failure until a flush.
    pub volatile_cache: bool,
    /// Every read is zeroes, so reads need no buffer.
    pub reads_as_zeroes: bool,
    /// Deallocated blocks are released.
    pub deallocates: bool,
}
