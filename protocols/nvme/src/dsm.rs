//! Dataset Management ranges. NVM Command Set 1.0, 3.2.3.

use nearflash_request::BlockRange;
use nearflash_session::wire;
use nearflash_units::{Blocks, Lba};
use zerocopy::little_endian::{U32, U64};

wire! {
    /// One range of a Dataset Management command. NVM Command Set 1.0, 3.2.3.
    #[derive(Default)]
    pub struct DsmRange: [u8; DsmRange::LEN] {
        /// Hints on future access; of no meaning for a deallocation.
        pub attributes: U32,
        /// Length in logical blocks, not 0's based.
        pub blocks: U32,
        /// First logical block.
        pub start: U64,
    }
}

impl DsmRange {
    /// Bytes of a range.
    pub const LEN: usize = 16;
    /// The most ranges a command can have: their count is an 8-bit 0's based field.
    pub const COUNT_MAX: usize = 256;
    /// Command dword 11, bit 2: the ranges are to be deallocated (AD).
    pub const DEALLOCATE: u32 = 1 << 2;

    /// The same range as the engine's. `None` when it has more blocks than 32 bits count.
    pub fn from_range(range: BlockRange) -> Option<Self> {
        let blocks = u32::try_from(range.count.0).ok()?;
        Some(Self { attributes: 0.into(), blocks: blocks.into(), start: range.start.0.into() })
    }

    /// As the engine's.
    pub fn to_range(self) -> BlockRange {
        BlockRange { start: Lba(self.start.get()), count: Blocks(u64::from(self.blocks.get())) }
    }
}
