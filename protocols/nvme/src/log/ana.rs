//! Asymmetric namespace access: how good each path is. NVMe Base 2.0, 5.16.1.13 and 8.1.

use nearflash_session::wire;
use zerocopy::little_endian::{U16, U32, U64};

wire! {
    /// What the ANA log begins with. NVMe Base 2.0, 5.16.1.13.
    #[derive(Default)]
    pub struct AnaHeader: [u8; 16] {
        /// Grows when any group changes.
        pub changes: U64,
        /// How many group descriptors follow.
        pub groups: U16,
        pub(crate) reserved: [u8; 6],
    }

    /// State of the paths to a group, over this controller. NVMe Base 2.0, 5.16.1.13.
    pub struct AnaState(pub u8);
}

impl AnaState {
    /// The best path.
    pub const OPTIMIZED: Self = Self(0x01);
}

wire! {
    /// A group; its namespaces' numbers follow, 4 bytes each. NVMe Base 2.0, 5.16.1.13.
    #[derive(Default)]
    pub struct AnaGroup: [u8; 32] {
        /// ANAGRPID, from 1.
        pub id: U32,
        /// How many namespace numbers follow.
        pub namespaces: U32,
        /// Grows when this group changes.
        pub changes: U64,
        /// Bits 3:0.
        pub state: AnaState,
        pub(crate) reserved: [u8; 15],
    }
}
