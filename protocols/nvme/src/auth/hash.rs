//! The hashes of responses and keys. NVMe Base 2.0, 8.13.5.

use std::fmt;
use std::str::FromStr;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use zeroize::{Zeroize, ZeroizeOnDrop};

pub(super) const DIGEST_LEN_MAX: usize = 64;

/// HashID: the hash of an authentication, or of the transformation of a key.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Hash {
    /// 1: SHA-256.
    Sha256,
    /// 2: SHA-384.
    Sha384,
    /// 3: SHA-512.
    Sha512,
}

/// The text is not the name of a hash.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("'{0}' is not a hash of DH-HMAC-CHAP: use sha256, sha384 or sha512")]
pub struct ParseHashError(Box<str>);

impl Hash {
    /// Every hash, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Sha256, Self::Sha384, Self::Sha512];

    /// Its number.
    pub const fn id(self) -> u8 {
        match self {
            Self::Sha256 => 1,
            Self::Sha384 => 2,
            Self::Sha512 => 3,
        }
    }

    /// The hash with this number.
    pub fn of(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|hash| hash.id() == id)
    }

    /// The length of a digest in bytes.
    pub const fn digest_len(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    /// Its name in commands and configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        }
    }

    pub(super) fn digest(self, bytes: &[u8]) -> Digest {
        match self {
            Self::Sha256 => Digest::new(&Sha256::digest(bytes)),
            Self::Sha384 => Digest::new(&Sha384::digest(bytes)),
            Self::Sha512 => Digest::new(&Sha512::digest(bytes)),
        }
    }

    /// The HMAC of the parts, one after the other.
    pub(crate) fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Digest {
        match self {
            Self::Sha256 => hmac_of::<Hmac<Sha256>>(key, parts),
            Self::Sha384 => hmac_of::<Hmac<Sha384>>(key, parts),
            Self::Sha512 => hmac_of::<Hmac<Sha512>>(key, parts),
        }
    }
}

fn hmac_of<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Digest {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    Digest::new(&mac.finalize().into_bytes())
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Hash {
    type Err = ParseHashError;

    fn from_str(text: &str) -> Result<Self, ParseHashError> {
        let found = Self::ALL.into_iter().find(|hash| hash.name() == text);
        found.ok_or_else(|| ParseHashError(text.into()))
    }
}

/// A digest, a response or a challenge: at most 64 bytes.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct Digest {
    bytes: [u8; DIGEST_LEN_MAX],
    len: usize,
}

impl Digest {
    /// These bytes, at most [`DIGEST_LEN_MAX`].
    pub(super) fn new(from: &[u8]) -> Self {
        let mut bytes = [0; DIGEST_LEN_MAX];
        bytes[..from.len()].copy_from_slice(from);
        Self { bytes, len: from.len() }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Whether the other bytes are the same, compared in constant time.
    pub(super) fn is(&self, other: &[u8]) -> bool {
        are_equal(self.bytes(), other)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({} bytes)", self.len)
    }
}

/// Whether both are the same, compared in a time that only depends on their lengths.
pub(crate) fn are_equal(these: &[u8], those: &[u8]) -> bool {
    let differing = these.iter().zip(those).fold(0, |sum, (a, b)| sum | (a ^ b));
    std::hint::black_box(differing) == 0 && these.len() == those.len()
}
