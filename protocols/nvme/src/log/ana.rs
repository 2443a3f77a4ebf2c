//! The asymmetric namespace access log page. NVMe Base 2.0, 5.16.1.13 and 8.1.

use nearflash_session::wire;
use zerocopy::little_endian::{U16, U32, U64};

wire! {
    /// The header of the ANA log page. NVMe Base 2.0, 5.16.1.13.
    #[derive(Default)]
    pub struct AnaHeader: [u8; 16] {
        pub changes: U64 = "Incremented when any group changes",
        pub groups: U16 = "The number of group descriptors that follow",
        pub(crate) reserved: [u8; 6],
    }

    /// The ANA state of a group on this controller. NVMe Base 2.0, 5.16.1.13.
    pub struct AnaState(pub u8);
}

impl AnaState {
    /// ANA Optimized.
    pub const OPTIMIZED: Self = Self(0x01);
}

wire! {
    /// An ANA group descriptor; its namespace numbers follow. NVMe Base 2.0, 5.16.1.13.
    #[derive(Default)]
    pub struct AnaGroup: [u8; 32] {
        pub id: U32 = "ANAGRPID, starting at 1",
        pub namespaces: U32 = "The number of namespace numbers that follow",
        pub changes: U64 = "Incremented when this group changes",
        pub state: AnaState = "Bits 3:0",
        pub(crate) reserved: [u8; 15],
    }
}
