//! The seals and seal keys that are void.
//!
//! A core keeps one value for all its sessions. Seal keys are not among it: both ends derive them, so a
//! node has no table of the keys that it has given out. It has the generations of keys that were taken
//! away instead.
//!
//! Invariant: a seal that was revoked cannot be opened. A revocation is remembered for as long as a seal
//! that was minted before it can be opened. When there is no room to remember one, no seal of its minter is
//! opened until that time is over. Of the room, a minter takes at most as much as it leaves to the others, so
//! none of them can take it all.

use std::collections::{HashMap, VecDeque};

use nearflash_request::VolumeId;
use nearflash_units::Nanos;

use crate::error::PeerError;
use crate::wire::{BEARER_GOOD_MAX, BearerId, SALT_LEN, SEAL_GOOD_MAX, Seal, Status, is_operator};

/// The most revocations of objects that a core remembers. A minter that is alone takes half of them.
pub const REVOKED_MAX: usize = 131_072;

/// The most seal keys of which a core remembers that older generations were taken away. The node
/// remembers them until it ends.
pub const KEYS_TAKEN_MAX: usize = 65_536;

/// A minter and one of its volumes: the name of a seal key in all its generations.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct KeyName {
    /// The name of the minter's key; empty for an anonymous client.
    pub(super) minter: Box<str>,
    /// The volume's UUID.
    pub(super) volume: [u8; 16],
}

/// Which seals of a key become void.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Void {
    /// Those of an object below a version.
    Object { object: u64, version: u32 },
    /// Those of older generations of the key.
    Keys { generation: u32 },
}

/// A minter's order that seals are void.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Revocation {
    pub(super) key: KeyName,
    pub(super) volume: VolumeId,
    pub(super) void: Void,
}

impl Revocation {
    /// The seals of an object below a version.
    #[cfg(test)]
    pub(super) fn of_object(
        minter: &str,
        uuid: [u8; 16],
        volume: VolumeId,
        (object, version): (u64, u32),
    ) -> Self {
        let key = KeyName { minter: minter.into(), volume: uuid };
        Self { key, volume, void: Void::Object { object, version } }
    }

    /// The volume whose requests may be concerned.
    pub const fn volume(&self) -> VolumeId {
        self.volume
    }

    /// Whether it concerns a seal.
    pub(super) fn voids(&self, seal: &Seal) -> bool {
        let is_of_key = *self.key.minter == *seal.minter() && self.key.volume == seal.volume();
        is_of_key
            && match self.void {
                Void::Object { object, version } => {
                    object == seal.terms().object && seal.terms().version < version
                }
                Void::Keys { generation } => seal.generation() < generation,
            }
    }
}

/// The void seals and keys, as a core knows them.
#[derive(Debug)]
pub struct Revoked {
    salt: [u8; SALT_LEN],
    /// The lowest version of an object's seals that is not void, and the second after which it is
    /// forgotten.
    objects: HashMap<(KeyName, u64), (u32, u64)>,
    /// Every revocation of an object, oldest first.
    until: VecDeque<(u64, KeyName, u64)>,
    /// The present generation of keys; 1 for all others.
    generations: HashMap<KeyName, u32>,
    /// The room that each minter takes.
    shares: HashMap<Box<str>, Share>,
}

/// The revocations of one minter that a core remembers.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    /// The revocations of its objects.
    remembered: usize,
    /// Until this second, none of its seals is opened: one that was revoked may not be remembered.
    crowded_until: u64,
}

impl Revoked {
    /// Nothing is void. All cores of a node have the same salt, and the node another one after each
    /// start, with which all seals from before are void.
    pub fn new(salt: [u8; SALT_LEN]) -> Self {
        Self {
            salt,
            objects: HashMap::new(),
            until: VecDeque::new(),
            generations: HashMap::new(),
            shares: HashMap::new(),
        }
    }

    /// The salt of the node's seal keys.
    pub(super) const fn salt(&self) -> [u8; SALT_LEN] {
        self.salt
    }

    /// The generation of a key: never 0.
    pub(super) fn generation(&self, key: &KeyName) -> u32 {
        self.generations.get(key).copied().unwrap_or(1)
    }

    /// Whether there is room for a revocation. The core that is asked for it looks; the others follow.
    pub fn has_room(&self, revocation: &Revocation) -> bool {
        match revocation.void {
            Void::Object { .. } => true,
            Void::Keys { .. } => {
                self.generations.contains_key(&revocation.key)
                    || self.generations.len() < KEYS_TAKEN_MAX
            }
        }
    }

    /// Remembers a revocation.
    pub fn revoke(&mut self, revocation: &Revocation, now: Nanos) {
        self.forget(now);
        let key = &revocation.key;
        match revocation.void {
            Void::Keys { generation } => {
                let present = self.generation(key);
                self.generations.insert(key.clone(), generation.max(present));
            }
            Void::Object { object, version } => {
                let end = seconds(now) + SEAL_GOOD_MAX;
                let left = REVOKED_MAX - self.until.len();
                let share = self.shares.entry(key.minter.clone()).or_default();
                if share.remembered >= left {
                    share.crowded_until = end;
                    return;
                }
                share.remembered += 1;
                let least = self.objects.entry((key.clone(), object)).or_default();
                *least = (version.max(least.0), end);
                self.until.push_back((end, key.clone(), object));
            }
        }
    }

    /// Forgets what no seal can break any more.
    fn forget(&mut self, now: Nanos) {
        let second = seconds(now);
        if self.until.front().is_none_or(|(end, ..)| *end >= second) {
            return;
        }
        while self.until.front().is_some_and(|(end, ..)| *end < second) {
            let Some((end, key, object)) = self.until.pop_front() else { return };
            if let Some(share) = self.shares.get_mut(&key.minter) {
                share.remembered -= 1;
            }
            let name = (key, object);
            // A later revocation of the same object is remembered for longer.
            if self.objects.get(&name).is_some_and(|(_, until)| *until == end) {
                self.objects.remove(&name);
            }
        }
        self.shares.retain(|_, share| share.remembered > 0 || share.crowded_until >= second);
    }

    /// Whether a client can enter now with a bearer that its key has made.
    pub(super) fn check_bearer(&self, id: &BearerId, now: Nanos) -> Result<(), PeerError> {
        let key = KeyName { minter: id.minter.clone(), volume: id.volume };
        let (present, second) = (self.generation(&key), seconds(now));
        let is_too_long = id.until > second + BEARER_GOOD_MAX && !is_operator(&id.minter);
        if id.generation > present || is_too_long {
            return Err(PeerError::Unauthenticated);
        }
        if id.generation < present || id.until < second {
            return Err(PeerError::CredentialExpired);
        }
        Ok(())
    }

    /// Whether a seal that its key has minted can be opened now.
    pub(super) fn check(&mut self, seal: &Seal, now: Nanos) -> Result<(), (Status, u64)> {
        self.forget(now);
        let second = seconds(now);
        let share = self.shares.get(seal.minter());
        if share.is_some_and(|it| second <= it.crowded_until && it.crowded_until > 0) {
            return Err((Status::BUSY, 0));
        }
        let terms = seal.terms();
        // An operator's seal ends with its key, and its object is never revoked.
        if terms.good_until > second + SEAL_GOOD_MAX && !is_operator(seal.minter()) {
            return Err((Status::INVALID_FIELD, 0));
        }
        let key = KeyName { minter: seal.minter().into(), volume: seal.volume() };
        let is_old = seal.generation() < self.generation(&key) || terms.good_until < second;
        if is_old {
            return Err((Status::STALE_EPOCH, 0));
        }
        if seal.generation() > self.generation(&key) {
            return Err((Status::NOT_GRANTED, 0));
        }
        match self.objects.get(&(key, terms.object)) {
            Some((least, _)) if terms.version < *least => {
                Err((Status::STALE_EPOCH, u64::from(*least)))
            }
            _ => Ok(()),
        }
    }
}

/// The node's time in seconds.
pub(super) const fn seconds(now: Nanos) -> u64 {
    now.0 / Nanos::from_secs(1).0
}
