//! Digests of headers and of payload: CRC-32C.

use crate::wire::Features;

/// Length of a digest, in bytes.
pub(crate) const DIGEST_LEN: usize = 4;

/// Which digests a connection uses, or may use.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Digests {
    /// In every header.
    pub header: bool,
    /// Behind all payload.
    pub data: bool,
}

impl Digests {
    /// Neither.
    pub const NONE: Self = Self { header: false, data: false };
    /// Both.
    pub const BOTH: Self = Self { header: true, data: true };

    /// As HELLO and its answer say it.
    pub fn from_features(features: Features) -> Self {
        Self {
            header: features.has(Features::HEADER_DIGEST),
            data: features.has(Features::DATA_DIGEST),
        }
    }

    /// As HELLO and its answer say it.
    pub(crate) const fn to_bits(self) -> u32 {
        let header = if self.header { Features::HEADER_DIGEST } else { 0 };
        let data = if self.data { Features::DATA_DIGEST } else { 0 };
        header | data
    }

    /// Length of what stands behind each segment of payload.
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
        assert_eq!(append(digest(b"1234"), b"56789"), 0xE306_9283);
    }

    #[test]
    fn zeroes_need_not_be_in_memory() {
        for len in [0, 1, 4096, 4097, 10_000] {
            assert_eq!(digest_of_zeroes(len), digest(&vec![0; len]), "{len}");
        }
    }
}
