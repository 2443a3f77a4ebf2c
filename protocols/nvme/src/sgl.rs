//! The single SGL descriptor of an NVMe/TCP command.
//!
//! Spec: NVMe Base 2.0, 4.1.2. Descriptor types that NVMe/TCP does not use (segments, keyed blocks)
//! decode as [`Sgl::Other`] and are refused where the data is needed.

use std::ops::RangeInclusive;

use nearflash_session::wire;
use nearflash_units::ByteLen;
use zerocopy::little_endian::{U32, U64};

use crate::Status;

wire! {
    /// SGL descriptor. NVMe Base 2.0, 4.1.2.
    #[derive(Default)]
    pub struct SglDescriptor: [u8; 16] {
        pub address: U64 = "Address, or offset into the capsule, depending on the subtype",
        pub length: U32 = "Length in bytes",
        pub reserved: [u8; 3] = "Reserved",
        pub identifier: u8 = "Type in the high four bits, subtype in the low ones",
    }
}

/// The location of a command's data from the host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Placement {
    /// No data.
    None,
    /// All of the data is in the command's capsule.
    InCapsule,
    /// The transport's data PDUs move the data.
    Transport,
}

/// The meaning of a descriptor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(missing_docs, reason = "the names say what the fields are")]
pub enum Sgl {
    /// In the command capsule, `offset` bytes past the in-capsule data offset (ICDOFF).
    InCapsule { offset: u64, length: u32 },
    /// The transport's data PDUs move the data.
    Transport { length: u32 },
    /// A descriptor that this transport does not support.
    Other { identifier: u8 },
}

impl SglDescriptor {
    /// Data block (0h) with subtype offset (1h).
    pub const IN_CAPSULE: u8 = 0x01;
    /// Transport data block (5h) with subtype transport-specific (Ah).
    pub const TRANSPORT: u8 = 0x5A;

    /// A descriptor for data in the capsule.
    pub fn in_capsule(offset: u64, length: u32) -> Self {
        Self::unkeyed(offset, length, Self::IN_CAPSULE)
    }

    /// For data that the transport moves. A command without data carries it with length 0.
    pub fn transport(length: u32) -> Self {
        Self::unkeyed(0, length, Self::TRANSPORT)
    }

    fn unkeyed(address: u64, length: u32, identifier: u8) -> Self {
        Self { address: address.into(), length: length.into(), reserved: [0; 3], identifier }
    }

    /// Checks that the host's buffer has `len` bytes, and the capsule none. NVMe Base 2.0, 4.1.2.
    ///
    /// # Errors
    /// If the length differs, or the descriptor is not a transport data block.
    #[inline]
    pub fn check_to_host(&self, len: u64, in_capsule: usize) -> Result<(), Status> {
        match self.decode() {
            Sgl::Transport { length } if in_capsule == 0 => check_len(u64::from(length) == len),
            _ => Err(Status::SGL_TYPE_INVALID.dnr()),
        }
    }

    /// Locates data from the host and returns its length, which must be in `expected`. In-capsule
    /// data must have all `in_capsule` bytes of the capsule. NVMe Base 2.0, 4.1.2.
    ///
    /// # Errors
    /// If the length differs, or the data is neither in the capsule nor moved by the transport.
    #[inline]
    pub fn locate_from_host(
        &self,
        expected: RangeInclusive<u32>,
        in_capsule: usize,
    ) -> Result<(Placement, u32), Status> {
        let (placement, len) = match self.decode() {
            Sgl::InCapsule { offset, .. } if offset != 0 => {
                return Err(Status::SGL_OFFSET_INVALID.dnr());
            }
            Sgl::InCapsule { length, .. } => {
                check_len(ByteLen::from_usize(in_capsule) == ByteLen(u64::from(length)))?;
                (Placement::InCapsule, length)
            }
            Sgl::Transport { length } if in_capsule == 0 => (Placement::Transport, length),
            Sgl::Transport { .. } | Sgl::Other { .. } => {
                return Err(Status::SGL_TYPE_INVALID.dnr());
            }
        };
        check_len(expected.contains(&len))?;
        Ok((placement, len))
    }

    /// The descriptor's meaning.
    #[inline]
    pub fn decode(&self) -> Sgl {
        let length = self.length.get();
        match self.identifier {
            Self::IN_CAPSULE => Sgl::InCapsule { offset: self.address.get(), length },
            Self::TRANSPORT => Sgl::Transport { length },
            identifier => Sgl::Other { identifier },
        }
    }
}

fn check_len(holds: bool) -> Result<(), Status> {
    if holds { Ok(()) } else { Err(Status::SGL_LENGTH_INVALID.dnr()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u32 = 4096;

    fn other() -> SglDescriptor {
        SglDescriptor { identifier: 0x30, ..SglDescriptor::transport(LEN) }
    }

    #[test]
    fn data_from_the_host_is_where_the_descriptor_says_or_nowhere() {
        let located = |sgl: SglDescriptor, came| sgl.locate_from_host(LEN..=LEN, came);
        let refused = |status: Status| Err(status.dnr());
        assert_eq!(located(SglDescriptor::transport(LEN), 0), Ok((Placement::Transport, LEN)));
        let in_capsule = SglDescriptor::in_capsule(0, LEN);
        assert_eq!(located(in_capsule, 4096), Ok((Placement::InCapsule, LEN)));
        for came in [0, 4095, 4097] {
            assert_eq!(located(in_capsule, came), refused(Status::SGL_LENGTH_INVALID), "{came}");
        }
        let short = SglDescriptor::transport(512);
        assert_eq!(located(short, 0), refused(Status::SGL_LENGTH_INVALID));
        for offset in [1, u64::MAX] {
            let far = SglDescriptor::in_capsule(offset, LEN);
            assert_eq!(located(far, 8192), refused(Status::SGL_OFFSET_INVALID));
        }
        assert_eq!(located(other(), 0), refused(Status::SGL_TYPE_INVALID));
        let both = SglDescriptor::transport(LEN);
        assert_eq!(located(both, 512), refused(Status::SGL_TYPE_INVALID));
    }

    #[test]
    fn room_for_data_to_the_host_is_the_transports_and_exactly_as_large() {
        let checked = |sgl: SglDescriptor, came| sgl.check_to_host(u64::from(LEN), came);
        assert_eq!(checked(SglDescriptor::transport(LEN), 0), Ok(()));
        let refused = Err(Status::SGL_LENGTH_INVALID.dnr());
        assert_eq!(checked(SglDescriptor::transport(512), 0), refused);
        let refused = Err(Status::SGL_TYPE_INVALID.dnr());
        assert_eq!(checked(SglDescriptor::in_capsule(0, LEN), 4096), refused);
        assert_eq!(checked(SglDescriptor::transport(LEN), 512), refused);
        assert_eq!(checked(other(), 0), refused);
    }

    #[test]
    fn a_list_may_be_sent_in_a_greater_length_than_it_has() {
        let sgl = SglDescriptor::transport(LEN);
        assert_eq!(sgl.locate_from_host(16..=LEN, 0), Ok((Placement::Transport, LEN)));
        assert!(sgl.locate_from_host(16..=LEN - 1, 0).is_err());
    }
}
