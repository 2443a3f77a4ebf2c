//! Identities that peers prove by TLS, and the failures of connections with TLS, in every protocol with TLS.

use std::fmt;

use nearflash_nvme::auth::Hash;
use nearflash_nvme::tls::PskIdentity;

/// An identity that a peer has proved by TLS.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TlsIdentity {
    /// That of an NVMe host.
    Nvme(PskIdentity),
    /// That of a direct client.
    Direct(nearflash_direct::TlsIdentity),
}

impl TlsIdentity {
    /// The hash that it names, if it names one.
    pub fn hash(&self) -> Option<Hash> {
        match self {
            Self::Nvme(identity) => Some(identity.suite.hash()),
            Self::Direct(_) => None,
        }
    }
}

impl fmt::Display for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nvme(identity) => identity.fmt(f),
            Self::Direct(identity) => identity.fmt(f),
        }
    }
}

/// Why there is no key for an identity.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TlsKeyRefused {
    /// That of an NVMe host.
    #[error(transparent)]
    Nvme(#[from] nearflash_nvme::tls::KeyRefused),
    /// That of a direct client.
    #[error(transparent)]
    Direct(#[from] nearflash_direct::serving::TlsKeyRefused),
}

/// Why a connection to an address with TLS failed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TlsFault {
    /// The address requires TLS, and the connection does not begin with a handshake.
    #[error("the peer does not use TLS, which this address requires")]
    NotUsed,
    /// The handshake has no PSK identity.
    #[error("the peer offers no PSK identity")]
    NoIdentity,
    /// There is no key for the identity.
    #[error(transparent)]
    NoKey(TlsKeyRefused),
    /// The key of an NVMe host is another one.
    #[error(
        "the host's key is another one: compare the PSK, its hash and its derivation on both ends"
    )]
    WrongPsk,
    /// The secret of a direct client is another one.
    #[error("the client's secret is another one: compare it with that of the credential")]
    WrongSecret,
    /// The TLS library's reason.
    #[error("TLS failed: {0}")]
    Library(String),
}
