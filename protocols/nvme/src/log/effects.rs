//! Commands supported and their effects. NVMe Base 2.0, 5.16.1.6.

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// For each opcode what it does besides answering. NVMe Base 2.0, 5.16.1.6.
#[derive(
    Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq, Unaligned,
)]
#[repr(C)]
pub struct CommandEffects {
    /// Of admin commands, by opcode.
    pub admin: [U32; 256],
    /// Of I/O commands, by opcode.
    pub io: [U32; 256],
    /// Reserved.
    pub reserved: [u8; 2048],
}
const _: () = assert!(size_of::<CommandEffects>() == 4096);

impl CommandEffects {
    /// CSUPP: the command is supported.
    pub const SUPPORTED: u32 = 1;
    /// LBCC: it may change the contents of logical blocks.
    pub const CHANGES_BLOCKS: u32 = 1 << 1;

    /// Nothing is supported.
    pub const NONE: Self =
        Self { admin: [U32::ZERO; 256], io: [U32::ZERO; 256], reserved: [0; 2048] };
}
