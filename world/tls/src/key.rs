//! Keys and their identities.

use std::fmt;

use zeroize::Zeroizing;

/// A cipher suite. RFC 8446, B.4.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Suite {
    /// TLS_AES_128_GCM_SHA256.
    Aes128Sha256,
    /// TLS_AES_256_GCM_SHA384.
    Aes256Sha384,
}

impl Suite {
    /// Its name in RFC 8446.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes128Sha256 => "TLS_AES_128_GCM_SHA256",
            Self::Aes256Sha384 => "TLS_AES_256_GCM_SHA384",
        }
    }

    /// The length of the keys of records.
    #[cfg(not(target_env = "musl"))]
    pub(crate) const fn key_len(self) -> usize {
        match self {
            Self::Aes128Sha256 => 16,
            Self::Aes256Sha384 => 32,
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A pre-shared key, and the suite whose hash it is for.
#[derive(Clone)]
pub struct PskKey {
    suite: Suite,
    #[cfg_attr(target_env = "musl", allow(dead_code, reason = "such programs have no TLS"))]
    secret: Zeroizing<Vec<u8>>,
}

impl PskKey {
    /// A key of these bytes.
    pub fn new(suite: Suite, secret: &[u8]) -> Self {
        Self { suite, secret: Zeroizing::new(secret.to_vec()) }
    }

    /// Its suite.
    pub const fn suite(&self) -> Suite {
        self.suite
    }

    #[cfg(not(target_env = "musl"))]
    pub(crate) fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// Whether both are the same key. The time does not depend on their bytes.
    #[cfg(not(target_env = "musl"))]
    pub(crate) fn is(&self, other: &Self) -> bool {
        let pairs = self.secret.iter().zip(other.secret.iter());
        self.suite == other.suite
            && self.secret.len() == other.secret.len()
            && pairs.fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
    }
}

impl fmt::Debug for PskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PskKey").field("suite", &self.suite).finish_non_exhaustive()
    }
}

/// The length of an initialization vector. RFC 8446, 5.3.
pub const IV_LEN: usize = 12;

/// The keys of an open connection's records. Both directions are at record 0.
#[derive(Debug)]
pub struct TrafficKeys {
    /// The suite.
    pub suite: Suite,
    /// For records to the peer.
    pub send: DirectionKeys,
    /// For records of the peer.
    pub receive: DirectionKeys,
}

/// The keys of one direction.
pub struct DirectionKeys {
    /// The key: 16 or 32 bytes.
    pub key: Zeroizing<Vec<u8>>,
    /// The initialization vector.
    pub iv: Zeroizing<[u8; IV_LEN]>,
}

impl fmt::Debug for DirectionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DirectionKeys(…)")
    }
}

/// Finds the keys of identities, in the thread of the handshake.
pub trait KeySource: fmt::Debug + Send + Sync {
    /// The key of the identity that a client has sent; `None` if there is no such key.
    fn key(&self, identity: &[u8]) -> Option<PskKey>;
}

/// The identity that a client has sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity {
    /// Its bytes.
    pub bytes: Box<[u8]>,
    /// Whether the key source has a key for it.
    pub has_key: bool,
}
