//! What a logical unit takes at most: told to initiators in VPD page B0h, and checked.

use nearflash_units::{BlockSize, Blocks, ByteLen, MIB};

/// The highest logical unit number.
pub const LUN_MAX: u16 = 1023;

/// What one buffer of the pool holds: data of a command that is longer goes piece by piece.
pub const BUFFER_LEN_MAX: ByteLen = ByteLen(MIB);

/// Data of one command, either way.
pub const TRANSFER_LEN_MAX: ByteLen = ByteLen(8 * MIB);

/// What one COMPARE AND WRITE changes at most: it brings twice as much, and its count has 8 bits.
pub const COMPARE_AND_WRITE_BLOCKS_MAX: u64 = 255;

/// What one WRITE SAME covers at most.
pub const WRITE_SAME_LEN_MAX: ByteLen = ByteLen(16 * MIB);

/// What one UNMAP descriptor, and all of a command's together, cover at most.
pub const UNMAP_BLOCKS_MAX: u64 = 1 << 20;

/// Descriptors of one UNMAP.
pub const UNMAP_DESCRIPTORS_MAX: u64 = 256;

/// Bytes of a parameter list: the longest is that of a full UNMAP.
pub const PARAMETERS_LEN_MAX: ByteLen = ByteLen(8 + 16 * UNMAP_DESCRIPTORS_MAX);

/// Target descriptors of one EXTENDED COPY.
pub const COPY_ENDS_MAX: usize = 8;

/// Segment descriptors of one EXTENDED COPY.
pub const COPY_SEGMENTS_MAX: usize = 16;

/// Bytes of all descriptors of one EXTENDED COPY: as many as there may be of each.
pub const COPY_DESCRIPTORS_LEN_MAX: usize = 32 * COPY_ENDS_MAX + 28 * COPY_SEGMENTS_MAX;

/// What one segment copies at most: more than its count of 16 bits can say.
pub const COPY_SEGMENT_LEN_MAX: ByteLen = ByteLen(256 * MIB);

/// Copies that a session has under way, and those that ended and are remembered.
pub const COPIES_MAX: usize = 16;

/// How many blocks of that size one buffer holds.
pub const fn buffer_blocks_max(block_size: BlockSize) -> Blocks {
    block_size.blocks_in(BUFFER_LEN_MAX)
}

/// How many blocks of that size one command moves at most.
pub const fn transfer_blocks_max(block_size: BlockSize) -> Blocks {
    block_size.blocks_in(TRANSFER_LEN_MAX)
}

/// How many blocks of that size one COMPARE AND WRITE changes at most.
pub const fn compare_and_write_blocks_max(block_size: BlockSize) -> Blocks {
    let half = block_size.blocks_in(ByteLen(BUFFER_LEN_MAX.0 / 2));
    if half.0 < COMPARE_AND_WRITE_BLOCKS_MAX { half } else { Blocks(COMPARE_AND_WRITE_BLOCKS_MAX) }
}

/// How many blocks of that size one WRITE SAME covers at most.
pub const fn write_same_blocks_max(block_size: BlockSize) -> Blocks {
    block_size.blocks_in(WRITE_SAME_LEN_MAX)
}
