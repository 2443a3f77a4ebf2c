//! Which digests a connection uses. RFC 7143, 13.1.

use nearflash_session::digest::DIGEST_LEN;

/// The digests of a connection in full feature phase: CRC-32C or none.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Digests {
    /// HeaderDigest: behind the basic and additional headers.
    pub header: bool,
    /// DataDigest: behind the data and its padding.
    pub data: bool,
}

impl Digests {
    /// No digests: how every connection begins.
    pub const NONE: Self = Self { header: false, data: false };

    /// Bytes behind a header.
    #[inline]
    pub(crate) const fn header_len(self) -> usize {
        if self.header { DIGEST_LEN } else { 0 }
    }
}
