//! The place of blocks: a device, and a run of bytes on it.

use nearflash_device::DeviceId;
use nearflash_units::{ByteLen, ByteOffset, MIB};

/// Extents begin and end on multiples of this length. It is 1 MiB, the length of the largest
/// transfer, so that a transfer touches at most two extents. It is also a multiple of every block
/// size and flash page.
pub const GRANULE: ByteLen = ByteLen(MIB);

/// A contiguous run of bytes of one device.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Extent {
    /// Which device.
    pub device: DeviceId,
    /// Its offset from the start of the device.
    pub start: ByteOffset,
    /// How long it is.
    pub len: ByteLen,
}

impl Extent {
    /// The first byte after it; `None` past the end of the address space.
    pub fn end(&self) -> Option<ByteOffset> {
        self.start.checked_add(self.len)
    }

    /// Whether it begins and ends on a granule, holds at least one and ends in the address space.
    pub fn is_whole_granules(&self) -> bool {
        self.len.0 != 0
            && self.start.0.is_multiple_of(GRANULE.0)
            && self.len.0.is_multiple_of(GRANULE.0)
            && self.end().is_some()
    }

    /// Whether a byte belongs to both.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.device == other.device
            && self.start.0 < other.start.0.saturating_add(other.len.0)
            && other.start.0 < self.start.0.saturating_add(self.len.0)
    }
}
