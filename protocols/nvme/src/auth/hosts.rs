//! The keys of a host that must authenticate, and the random bytes of an end.

use std::fmt;

use nearflash_units::UnixTime;
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::group::{DhGroup, PRIVATE_LEN, PrivateValue};
use super::hash::{DIGEST_LEN_MAX, Digest, Hash};
use super::key::Key;
use crate::Previous;

/// The number of random bytes of one end of a transaction.
pub const RANDOM_LEN: usize = DIGEST_LEN_MAX + PRIVATE_LEN + 4;

/// Random bytes for one end of one transaction: its challenge, its private value and its sequence number.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Random(pub [u8; RANDOM_LEN]);

impl Random {
    pub(super) fn challenge(&self, hash: Hash) -> Digest {
        Digest::new(&self.0[..hash.digest_len()])
    }

    pub(super) fn private_value(&self) -> PrivateValue {
        let mut bytes = [0; PRIVATE_LEN];
        bytes.copy_from_slice(&self.0[DIGEST_LEN_MAX..DIGEST_LEN_MAX + PRIVATE_LEN]);
        PrivateValue(bytes)
    }

    /// SEQNUM, which is never 0.
    pub(super) fn sequence(&self) -> u32 {
        let bytes = *self.0.last_chunk().expect("it is longer than a number");
        u32::from_le_bytes(bytes).max(1)
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random")
    }
}

/// The hash and the group that a controller selects for a host.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Policy {
    /// The only hash that is selected; by default the first that the host supports of SHA-256, SHA-384 and
    /// SHA-512.
    pub hash: Option<Hash>,
    /// The only group that is selected; by default the first that the host supports of ffdhe3072, ffdhe4096
    /// and ffdhe2048.
    pub group: Option<DhGroup>,
}

impl Policy {
    /// The groups by preference: ffdhe3072 costs a few milliseconds, and its strength is that of SHA-256. A host
    /// that has proved nothing could make the node compute for tens of milliseconds with the larger ones, and
    /// NULL adds nothing to the response.
    const GROUPS: [DhGroup; 3] = [DhGroup::Ffdhe3072, DhGroup::Ffdhe4096, DhGroup::Ffdhe2048];

    pub(super) fn hash_of(&self, supported: &[u8]) -> Option<Hash> {
        let allowed = |hash: &Hash| self.hash.is_none_or(|only| only == *hash);
        Hash::ALL.into_iter().filter(allowed).find(|hash| supported.contains(&hash.id()))
    }

    pub(super) fn group_of(&self, supported: &[u8]) -> Option<DhGroup> {
        let groups = self.group.as_ref().map_or(&Self::GROUPS[..], std::slice::from_ref);
        groups.iter().copied().find(|group| supported.contains(&group.id()))
    }
}

/// Both keys are the same.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the two keys are the same: each direction needs its own")]
pub struct HostKeysError;

/// The keys of a host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostKeys {
    host: Key,
    previous: Option<Previous<Key>>,
    controller: Option<Key>,
    /// The hash and group of its authentications.
    pub policy: Policy,
}

impl HostKeys {
    /// The key of the host and, for authentication in both directions, of the controller.
    ///
    /// # Errors
    /// If both keys are the same: one end could then return the response of the other.
    pub fn new(host: Key, controller: Option<Key>, policy: Policy) -> Result<Self, HostKeysError> {
        match controller {
            Some(same) if same == host => Err(HostKeysError),
            controller => Ok(Self { host, previous: None, controller, policy }),
        }
    }

    /// The same keys, and another one that the host may still use.
    #[must_use]
    pub fn with_previous(self, previous: Option<Previous<Key>>) -> Self {
        Self { previous, ..self }
    }

    /// A new key of the host. The old one is valid until `until`, and no longer without it. The controller's key
    /// stays: the controller proves one key, and cannot know which one a host expects.
    ///
    /// # Errors
    /// If the controller has the same key.
    pub fn replaced(self, key: Key, until: Option<UnixTime>) -> Result<Self, HostKeysError> {
        let Self { host, previous, controller, policy } = self;
        let previous = Previous::after((host, previous), &key, until);
        Ok(Self::new(key, controller, policy)?.with_previous(previous))
    }

    /// The keys that are valid at `now`.
    #[must_use]
    pub fn valid_at(self, now: UnixTime) -> Self {
        let previous = self.previous.filter(|previous| previous.is_valid(now));
        Self { previous, ..self }
    }

    /// The host's key.
    pub const fn host(&self) -> &Key {
        &self.host
    }

    /// The key that the host's key has replaced, if the host may still use it.
    pub const fn previous(&self) -> Option<&Previous<Key>> {
        self.previous.as_ref()
    }

    /// The controller's key.
    pub const fn controller(&self) -> Option<&Key> {
        self.controller.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_for_both_directions_is_refused() {
        let key = |byte| Key::new(None, &[byte; 32]).unwrap();
        let made = |controller| HostKeys::new(key(1), Some(key(controller)), Policy::default());
        assert_eq!(made(1), Err(HostKeysError));
        assert!(made(2).is_ok());
    }

    #[test]
    fn a_sequence_number_is_never_zero() {
        assert_eq!(Random([0; RANDOM_LEN]).sequence(), 1);
        assert_eq!(Random([0xFF; RANDOM_LEN]).sequence(), u32::MAX);
    }

    #[test]
    fn the_policy_selects_what_both_support_or_nothing() {
        let any = Policy::default();
        assert_eq!(any.hash_of(&[3, 9, 2]), Some(Hash::Sha384));
        assert_eq!(any.group_of(&[0, 1, 2, 3, 4, 5]), Some(DhGroup::Ffdhe3072));
        assert_eq!(any.group_of(&[0, 4, 5]), None, "only if an operator wants them");
        assert_eq!((any.hash_of(&[]), any.group_of(&[7])), (None, None));
        let only = Policy { hash: Some(Hash::Sha512), group: Some(DhGroup::Null) };
        assert_eq!((only.hash_of(&[1, 2]), only.group_of(&[1, 2])), (None, None));
        assert_eq!(only.hash_of(&[1, 3]), Some(Hash::Sha512));
        assert_eq!(only.group_of(&[1, 0]), Some(DhGroup::Null));
    }
}
