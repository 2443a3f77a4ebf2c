//! Dataset Management ranges. NVM Command Set 1.0, 3.2.3.

use nearflash_request::BlockRange;
use nearflash_session::wire;
use nearflash_units::{Blocks, Lba};
use zerocopy::little_endian::{U32, U64};

wire! {
    /// One range of a Dataset Management command. NVM Command Set 1.0, 3.2.3.
    #[derive(Default)]
    pub struct DsmRange: [u8; DsmRange::LEN] {
        pub attributes: U32 = "Hints on future access. They have no effect on a deallocation",
        pub blocks: U32 = "Length in logical blocks, not 0's based",
        pub start: U64 = "First logical block",
    }
}

impl DsmRange {
    /// Length of a range in bytes.
    pub const LEN: usize = 16;
    /// The maximum number of ranges in a command: NR is an 8-bit 0's based field.
    pub const COUNT_MAX: usize = 256;
    /// Command dword 11, bit 2 (AD): deallocate the ranges.
    pub const DEALLOCATE: u32 = 1 << 2;

    /// Converts the engine's range. `None` if the block count does not fit into 32 bits.
    pub fn from_range(range: BlockRange) -> Option<Self> {
        let blocks = u32::try_from(range.count.0).ok()?;
        Some(Self { attributes: 0.into(), blocks: blocks.into(), start: range.start.0.into() })
    }

    /// Converts to the engine's range.
    pub fn to_range(self) -> BlockRange {
        BlockRange { start: Lba(self.start.get()), count: Blocks(u64::from(self.blocks.get())) }
    }
}
