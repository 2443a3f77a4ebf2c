//! The limits of a logical unit, reported in VPD page B0h and checked.

use nearflash_units::{BlockSize, Blocks, ByteLen, MIB};

/// The highest logical unit number.
pub const LUN_MAX: u16 = 1023;

/// The length of a pool buffer. Longer data is transferred piece by piece.
pub const BUFFER_LEN_MAX: ByteLen = ByteLen(MIB);

/// The maximum data length of one command, in either direction.
pub const TRANSFER_LEN_MAX: ByteLen = ByteLen(8 * MIB);

/// The maximum number of blocks of a COMPARE AND WRITE, whose count has 8 bits.
pub const COMPARE_AND_WRITE_BLOCKS_MAX: u64 = 255;

/// The maximum length of a WRITE SAME.
pub const WRITE_SAME_LEN_MAX: ByteLen = ByteLen(16 * MIB);

/// The maximum number of blocks of an UNMAP, in one descriptor or in all of them together.
pub const UNMAP_BLOCKS_MAX: u64 = 1 << 20;

/// The maximum number of descriptors of an UNMAP.
pub const UNMAP_DESCRIPTORS_MAX: u64 = 256;

/// The maximum length of a parameter list: that of an UNMAP with all descriptors.
pub const PARAMETERS_LEN_MAX: ByteLen = ByteLen(8 + 16 * UNMAP_DESCRIPTORS_MAX);

/// The maximum number of target descriptors of an EXTENDED COPY.
pub const COPY_ENDS_MAX: usize = 8;

/// The maximum number of segment descriptors of an EXTENDED COPY.
pub const COPY_SEGMENTS_MAX: usize = 16;

/// The maximum length of all descriptors of an EXTENDED COPY.
pub const COPY_DESCRIPTORS_LEN_MAX: usize = 32 * COPY_ENDS_MAX + 28 * COPY_SEGMENTS_MAX;

/// The maximum length of a segment, which is above the maximum of its 16-bit block count.
pub const COPY_SEGMENT_LEN_MAX: ByteLen = ByteLen(256 * MIB);

/// The maximum number of copies with a record in a session, in progress or ended.
pub const COPIES_MAX: usize = 16;

/// The number of blocks of this size in one buffer.
pub const fn buffer_blocks_max(block_size: BlockSize) -> Blocks {
    block_size.blocks_in(BUFFER_LEN_MAX)
}

/// The maximum number of blocks of this size in one command.
pub const fn transfer_blocks_max(block_size: BlockSize) -> Blocks {
    block_size.blocks_in(TRANSFER_LEN_MAX)
}

/// The maximum number of blocks of this size in a COMPARE AND WRITE.
pub const fn compare_and_write_blocks_max(block_size: BlockSize) -> Blocks {
    let half = block_size.blocks_in(ByteLen(BUFFER_LEN_MAX.0 / 2));
    if half.0 < COMPARE_AND_WRITE_BLOCKS_MAX { half } else { Blocks(COMPARE_AND_WRITE_BLOCKS_MAX) }
}

/// The maximum number of blocks of this size in a WRITE SAME.
pub const fn write_same_blocks_max(block_size: BlockSize) -> Blocks {
    block_size.blocks_in(WRITE_SAME_LEN_MAX)
}
