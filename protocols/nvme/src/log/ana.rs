//! Asymmetric namespace access: how good each path is. NVMe Base 2.0, 5.16.1.13 and 8.1.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What the ANA log begins with. NVMe Base 2.0, 5.16.1.13.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    Eq,
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    PartialEq,
    Unaligned,
)]
#[repr(C)]
pub struct AnaHeader {
    /// Grows when any group changes.
    pub changes: U64,
    /// How many group descriptors follow.
    pub groups: U16,
    /// Reserved.
    pub reserved: [u8; 6],
}
const _: () = assert!(size_of::<AnaHeader>() == 16);

/// State of the paths to a group, over this controller. NVMe Base 2.0, 5.16.1.13.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    Eq,
    FromBytes,
    Hash,
    Immutable,
    IntoBytes,
    KnownLayout,
    PartialEq,
    Unaligned,
)]
#[repr(transparent)]
pub struct AnaState(pub u8);

impl AnaState {
    /// The best path.
    pub const OPTIMIZED: Self = Self(0x01);
    /// It works, another is better.
    pub const NON_OPTIMIZED: Self = Self(0x02);
    /// It may work later.
    pub const INACCESSIBLE: Self = Self(0x03);
    /// It will not work again.
    pub const PERSISTENT_LOSS: Self = Self(0x04);
    /// It is about to change.
    pub const CHANGE: Self = Self(0x0F);
}

/// A group; its namespaces' numbers follow, 4 bytes each. NVMe Base 2.0, 5.16.1.13.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    Eq,
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    PartialEq,
    Unaligned,
)]
#[repr(C)]
pub struct AnaGroup {
    /// ANAGRPID, from 1.
    pub id: U32,
    /// How many namespace numbers follow.
    pub namespaces: U32,
    /// Grows when this group changes.
    pub changes: U64,
    /// Bits 3:0.
    pub state: AnaState,
    /// Reserved.
    pub reserved: [u8; 15],
}
const _: () = assert!(size_of::<AnaGroup>() == 32);
