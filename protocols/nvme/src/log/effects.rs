//! Commands supported and their effects. NVMe Base 2.0, 5.16.1.6.

use nearflash_session::wire;
use zerocopy::little_endian::U32;

wire! {
    /// The effects of each opcode. NVMe Base 2.0, 5.16.1.6.
    pub struct CommandEffects: [u8; 4096] {
        pub admin: [U32; 256] = "Admin commands, by opcode",
        pub io: [U32; 256] = "I/O commands, by opcode",
        pub(crate) reserved: [u8; 2048],
    }
}

impl CommandEffects {
    /// CSUPP: the command is supported.
    pub const SUPPORTED: u32 = 1;
    /// LBCC: the command may change the contents of logical blocks.
    pub const CHANGES_BLOCKS: u32 = 1 << 1;

    /// No command is supported.
    pub const NONE: Self =
        Self { admin: [U32::ZERO; 256], io: [U32::ZERO; 256], reserved: [0; 2048] };
}
