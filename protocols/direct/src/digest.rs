//! Which digests of headers and of payload there are.

pub(crate) use nearflash_session::digest::{DIGEST_LEN, append, digest, digest_of_zeroes};

use crate::wire::Features;

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
