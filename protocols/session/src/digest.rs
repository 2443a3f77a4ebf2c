//! Digests of headers and of payload: CRC-32C, as in NVMe/TCP, iSCSI and direct.
//!
//! Spec: NVMe/TCP 1.1, 3.3.1; RFC 7143, 13.1. This module does not depend on the position of the
//! bytes.

/// A digest on the wire, in bytes.
pub const DIGEST_LEN: usize = 4;

/// The digests that a connection uses, or may use.
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

    /// Those in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { header: self.header && other.header, data: self.data && other.data }
    }

    /// The length of the digest after a header, in bytes.
    pub const fn header_len(self) -> usize {
        if self.header { DIGEST_LEN } else { 0 }
    }

    /// The length of the digest after data, in bytes.
    pub const fn data_len(self) -> usize {
        if self.data { DIGEST_LEN } else { 0 }
    }
}

/// The digest of `bytes`.
#[inline]
pub fn digest(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// Continues the digest `so_far` with `bytes`.
#[inline]
pub fn append(so_far: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(so_far, bytes)
}

/// Continues the digest `so_far` with this many zero bytes.
pub fn append_zeroes(so_far: u32, len: usize) -> u32 {
    const ZEROES: [u8; 4096] = [0; 4096];
    let mut digest = so_far;
    let mut left = len;
    while left > 0 {
        let part = left.min(ZEROES.len());
        digest = append(digest, &ZEROES[..part]);
        left -= part;
    }
    digest
}

/// The digest of so many zero bytes.
pub fn digest_of_zeroes(len: usize) -> u32 {
    append_zeroes(0, len)
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
            let whole = digest(&[b"ab", &vec![0; len][..]].concat());
            assert_eq!(append_zeroes(digest(b"ab"), len), whole, "{len}");
        }
    }
}
