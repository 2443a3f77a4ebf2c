//! The one SGL descriptor that an NVMe/TCP command carries.
//!
//! Spec: NVMe Base 2.0, 4.1.2. Descriptor kinds that fabrics do not use (segments, keyed blocks)
//! decode as [`Sgl::Other`] and are refused by whoever needs the data.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// SGL descriptor. NVMe Base 2.0, 4.1.2.
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
pub struct SglDescriptor {
    /// Address, or offset into the capsule, by subtype.
    pub address: U64,
    /// Length in bytes.
    pub length: U32,
    /// Reserved.
    pub reserved: [u8; 3],
    /// Type in the high four bits, subtype in the low ones.
    pub identifier: u8,
}
const _: () = assert!(size_of::<SglDescriptor>() == 16);

/// What a descriptor says about where a command's data is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sgl {
    /// In the command capsule, `offset` bytes past the in-capsule data offset (ICDOFF).
    InCapsule {
        /// From the start of in-capsule data.
        offset: u64,
        /// Bytes.
        length: u32,
    },
    /// Moved by the transport with its own data PDUs.
    Transport {
        /// Bytes.
        length: u32,
    },
    /// Anything else: nothing that this transport can move.
    Other {
        /// Type and subtype as on the wire.
        identifier: u8,
    },
}

impl SglDescriptor {
    /// Data block (0h) with subtype offset (1h).
    pub const IN_CAPSULE: u8 = 0x01;
    /// Transport data block (5h) with subtype transport-specific (Ah).
    pub const TRANSPORT: u8 = 0x5A;

    /// Data within the capsule.
    pub fn in_capsule(offset: u64, length: u32) -> Self {
        Self::unkeyed(offset, length, Self::IN_CAPSULE)
    }

    /// Data that the transport moves by itself. With length 0 this is also what a command
    /// without data carries.
    pub fn transport(length: u32) -> Self {
        Self::unkeyed(0, length, Self::TRANSPORT)
    }

    fn unkeyed(address: u64, length: u32, identifier: u8) -> Self {
        Self { address: address.into(), length: length.into(), reserved: [0; 3], identifier }
    }

    /// The descriptor's meaning.
    pub fn decode(&self) -> Sgl {
        let length = self.length.get();
        match self.identifier {
            Self::IN_CAPSULE => Sgl::InCapsule { offset: self.address.get(), length },
            Self::TRANSPORT => Sgl::Transport { length },
            identifier => Sgl::Other { identifier },
        }
    }
}
