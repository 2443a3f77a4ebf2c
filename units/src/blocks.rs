//! Logical blocks: their index, their count, and the size that turns both into bytes.

use crate::{ByteLen, ByteOffset};

/// Index of a logical block, from the start of the object that holds it. Never a length.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Lba(pub u64);

/// A count of logical blocks.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Blocks(pub u64);

impl Lba {
    /// The block `count` blocks later; `None` past the end of the address space.
    pub fn checked_add(self, count: Blocks) -> Option<Self> {
        self.0.checked_add(count.0).map(Self)
    }
}

impl Blocks {
    /// Converts from the 0's based form of NVMe and SCSI: 0 means one block.
    pub fn from_zero_based(raw: u16) -> Self {
        Self(u64::from(raw) + 1)
    }

    /// Whether `count` blocks from `start` lie within this number of blocks.
    pub fn contains(self, start: Lba, count: Self) -> bool {
        start.checked_add(count).is_some_and(|end| end.0 <= self.0)
    }
}

/// Size of a logical block: a power of two from 512 B to 64 KiB.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BlockSize {
    shift: u8,
}

impl BlockSize {
    /// 512 bytes.
    pub const B512: Self = Self { shift: 9 };
    /// 4096 bytes.
    pub const B4096: Self = Self { shift: 12 };

    /// The block size of this number of bytes; `None` unless it is a power of two in range.
    pub fn from_bytes(bytes: u32) -> Option<Self> {
        let shift = u8::try_from(bytes.checked_ilog2()?).ok()?;
        (bytes.is_power_of_two() && (9..=16).contains(&shift)).then_some(Self { shift })
    }

    /// The size in bytes.
    pub const fn bytes(self) -> u32 {
        1 << self.shift
    }

    /// The size as an exponent of two, which NVMe calls LBADS.
    pub const fn shift(self) -> u8 {
        self.shift
    }

    /// The offset of a block; `None` past the end of the address space.
    pub fn offset(self, lba: Lba) -> Option<ByteOffset> {
        lba.0.checked_mul(1 << self.shift).map(ByteOffset)
    }

    /// The length of `count` blocks in bytes; `None` if it exceeds 64 bits.
    pub fn len(self, count: Blocks) -> Option<ByteLen> {
        count.0.checked_mul(1 << self.shift).map(ByteLen)
    }

    /// The number of whole blocks in a length.
    pub const fn blocks_in(self, len: ByteLen) -> Blocks {
        Blocks(len.0 >> self.shift)
    }

    /// Whether a length is a whole number of blocks.
    pub const fn divides(self, len: ByteLen) -> bool {
        len.0 & ((1 << self.shift) - 1) == 0
    }
}

impl std::fmt::Display for BlockSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_sizes_are_powers_of_two_from_512_to_64_kib() {
        assert_eq!(BlockSize::from_bytes(512), Some(BlockSize::B512));
        assert_eq!(BlockSize::from_bytes(4096), Some(BlockSize::B4096));
        for refused in [0, 1, 256, 513, 4095, 131_072] {
            assert_eq!(BlockSize::from_bytes(refused), None, "{refused}");
        }
    }

    #[test]
    fn a_range_that_wraps_the_address_space_is_not_contained() {
        assert!(Blocks(8).contains(Lba(7), Blocks(1)));
        assert!(!Blocks(8).contains(Lba(7), Blocks(2)));
        assert!(!Blocks(8).contains(Lba(u64::MAX), Blocks(2)));
    }

    #[test]
    fn an_offset_past_the_address_space_is_none() {
        assert_eq!(BlockSize::B4096.offset(Lba(2)), Some(ByteOffset(8192)));
        assert_eq!(BlockSize::B4096.offset(Lba(u64::MAX / 2)), None);
    }
}
