//! The key under which a client mints seals.

use std::time::{Duration, Instant};

use nearflash_direct::client::GrantedKey;
use nearflash_direct::{Bearer, Seal, SealError, SealTerms, wire};

/// A key for the seals of one volume, from [`QueuePair::seal_key`](crate::QueuePair::seal_key). It mints
/// without the node. A node that was started anew does not know the seals of earlier keys.
#[derive(Clone, Debug)]
pub struct SealKey {
    granted: GrantedKey,
    at: Instant,
}

impl SealKey {
    pub(super) const fn new(granted: GrantedKey, at: Instant) -> Self {
        Self { granted, at }
    }

    /// The generation of the key, which [`QueuePair::revoke_keys`](crate::QueuePair::revoke_keys) raises.
    pub const fn generation(&self) -> u32 {
        self.granted.key.generation()
    }

    /// The value of [`SealTerms::good_until`] for a seal that can be opened for this long from now: 60
    /// seconds at most, and in whole seconds of the node.
    pub fn good_for(&self, span: Duration) -> u64 {
        self.seconds() + span.as_secs().min(wire::SEAL_GOOD_MAX)
    }

    /// The node's second now.
    fn seconds(&self) -> u64 {
        self.granted.seconds + self.at.elapsed().as_secs()
    }

    /// A bearer, with which a client without a credential can enter for this long from now: a day at most. It is handed
    /// over with a seal ([`Bearer::encode`]), and the client connects with it:
    /// `Client::connect(url, Credentials::from(bearer))`. The client can open the seals of this key, and
    /// nothing else. It stays connected after that time.
    ///
    /// A node without credentials needs no bearer, but takes it wherever it serves anonymous clients.
    pub fn bearer(&self, span: Duration) -> Bearer {
        self.granted.key.bearer(self.seconds() + span.as_secs().min(wire::BEARER_GOOD_MAX))
    }

    /// Mints a seal. It can be sent to any process that is to use the object: [`Seal::encode`].
    ///
    /// # Errors
    /// When the terms are not those of any seal.
    pub fn mint(&self, terms: SealTerms) -> Result<Seal, SealError> {
        self.granted.key.mint(terms)
    }
}
