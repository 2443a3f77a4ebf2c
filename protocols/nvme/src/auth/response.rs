//! The value of a response. NVMe Base 2.0, 8.13.5.4 and 8.13.5.5.

use super::hash::{Digest, Hash};
use crate::Nqn;

/// SC_C in a response: there is no secure channel.
const SECURE_CHANNEL: [u8; 1] = [0];

/// The names of both ends.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Names {
    /// The host's NQN.
    pub host: Nqn,
    /// The subsystem's NQN.
    pub subsystem: Nqn,
}

/// The end that proves that it knows its key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Prover {
    Host,
    Controller,
}

/// A challenge, as the prover receives it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Challenged<'a> {
    pub(super) challenge: &'a [u8],
    pub(super) sequence: u32,
    pub(super) transaction: u16,
}

/// The hash, and the shared secret of the group if there is one.
pub(super) struct Agreed<'a> {
    pub(super) hash: Hash,
    pub(super) secret: &'a [u8],
}

impl Agreed<'_> {
    /// The response of `prover` with its own key.
    pub(super) fn response(
        &self,
        prover: Prover,
        key: &[u8],
        challenged: Challenged<'_>,
        names: &Names,
    ) -> Digest {
        let (host, subsystem) = (names.host.as_str(), names.subsystem.as_str());
        let (label, first, second): (&[u8], _, _) = match prover {
            Prover::Host => (b"HostHost", host, subsystem),
            Prover::Controller => (b"Controller", subsystem, host),
        };
        let augmented = self.augmented(challenged.challenge);
        self.hash.hmac(
            key,
            &[
                augmented.bytes(),
                &challenged.sequence.to_le_bytes(),
                &challenged.transaction.to_le_bytes(),
                &SECURE_CHANNEL,
                label,
                first.as_bytes(),
                &[0],
                second.as_bytes(),
            ],
        )
    }

    /// The augmented challenge: with a group, the HMAC of the challenge under the digest of the shared secret.
    fn augmented(&self, challenge: &[u8]) -> Digest {
        if self.secret.is_empty() {
            return Digest::new(challenge);
        }
        self.hash.hmac(self.hash.digest(self.secret).bytes(), &[challenge])
    }
}
