//! Header and data digests: CRC-32C, as the initiator and the target of iSCSI also use it.
//!
//! Spec: NVMe/TCP 1.1, 3.3.1. Knows nothing of where the bytes stand.

use crate::pdu::DigestBits;

/// A digest on the wire, in bytes.
pub const DIGEST_LEN: usize = 4;

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

/// The digest of `bytes`.
#[inline]
pub(crate) fn digest(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// The digest of what `so_far` is the digest of, and `bytes` after it.
#[inline]
pub(crate) fn append(so_far: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(so_far, bytes)
}

/// The digest of so many zero bytes.
pub(crate) fn digest_of_zeroes(len: usize) -> u32 {
    const ZEROES: [u8; 4096] = [0; 4096];
    let mut digest = 0;
    let mut left = len;
    while left > 0 {
        let part = left.min(ZEROES.len());
        digest = append(digest, &ZEROES[..part]);
        left -= part;
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_crc_32c_with_its_published_check_value() {
        assert_eq!(digest(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn a_digest_made_in_parts_is_the_digest_of_the_whole() {
        assert_eq!(append(digest(b"1234"), b"56789"), digest(b"123456789"));
    }

    #[test]
    fn zeroes_need_not_be_in_memory() {
        for len in [0, 1, 4096, 4097, 10_000] {
            assert_eq!(digest_of_zeroes(len), digest(&vec![0; len]), "{len}");
        }
    }
}
