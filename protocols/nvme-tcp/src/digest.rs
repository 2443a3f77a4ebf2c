//! Header and data digests: CRC-32C, as the initiator and the target of iSCSI also use it.
//!
//! Spec: NVMe/TCP 1.1, 3.3.1. Knows nothing of where the bytes stand.

pub use nearflash_session::digest::DIGEST_LEN;
pub(crate) use nearflash_session::digest::{append, append_zeroes, digest, digest_of_zeroes};

use crate::pdu::DigestBits;

/// Which digests a connection uses, or may use.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Digests {
    /// Over every header.
    pub header: bool,
    /// Over all data.
    pub data: bool,
}

impl Digests {
    /// Neither.
    pub const NONE: Self = Self { header: false, data: false };
    /// Both.
    pub const BOTH: Self = Self { header: true, data: true };

    /// As ICReq and ICResp say it. Reserved bits are ignored.
    pub const fn from_bits(bits: DigestBits) -> Self {
        Self { header: bits.0 & DigestBits::HEADER != 0, data: bits.0 & DigestBits::DATA != 0 }
    }

    /// As ICReq and ICResp say it.
    pub const fn to_bits(self) -> DigestBits {
        let header = if self.header { DigestBits::HEADER } else { 0 };
        let data = if self.data { DigestBits::DATA } else { 0 };
        DigestBits(header | data)
    }

    /// Those in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { header: self.header && other.header, data: self.data && other.data }
    }

    /// How long the header digest is.
    #[inline]
    pub(crate) const fn header_len(self) -> usize {
        if self.header { DIGEST_LEN } else { 0 }
    }

    /// How long the data digest is, behind data.
    #[inline]
    pub(crate) const fn data_len(self) -> usize {
        if self.data { DIGEST_LEN } else { 0 }
    }
}
