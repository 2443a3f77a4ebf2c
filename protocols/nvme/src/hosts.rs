//! The hosts that have keys: for DH-HMAC-CHAP, for TLS, or for both.

use std::collections::{BTreeMap, BTreeSet};

use nearflash_units::UnixTime;

use crate::auth::{HostKeys, HostKeysError, Key};
use crate::tls::{Demand, Psk, TlsHost, TlsHosts};
use crate::{HostName, Nqn};

/// The largest number of hosts with keys.
pub const KEYED_HOSTS_MAX: usize = 1024;

/// The largest number of hosts without keys of which the node remembers that they had some.
pub const REMOVED_HOSTS_MAX: usize = 16_384;

/// The keys of a host. It has at least one of them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostSecrets {
    /// The keys with which it must authenticate.
    pub dhchap: Option<HostKeys>,
    /// Its PSK.
    pub tls: Option<TlsHost>,
}

impl HostSecrets {
    /// The keys that are valid at `now`.
    #[must_use]
    pub fn valid_at(self, now: UnixTime) -> Self {
        Self {
            dhchap: self.dhchap.map(|keys| keys.valid_at(now)),
            tls: self.tls.map(|tls| tls.valid_at(now)),
        }
    }
}

/// New keys of a host. A key that is absent stays as it is.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NewKeys {
    /// The key with which the host authenticates.
    pub dhchap: Option<Key>,
    /// Its PSK.
    pub psk: Option<Psk>,
}

impl From<HostKeys> for HostSecrets {
    fn from(keys: HostKeys) -> Self {
        Self { dhchap: Some(keys), tls: None }
    }
}

/// The hosts that have keys, without the keys.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct KeyedHosts {
    authenticating: BTreeSet<Nqn>,
    tls: BTreeMap<Nqn, Demand>,
    removed: BTreeSet<Nqn>,
}

impl KeyedHosts {
    /// Whether no host has keys.
    pub fn is_empty(&self) -> bool {
        self.authenticating.is_empty() && self.tls.is_empty()
    }

    /// Whether this host must authenticate.
    pub fn authenticates(&self, host: &HostName) -> bool {
        matches!(host, HostName::Named(host) if self.authenticating.contains(host))
    }

    /// Whether this host has keys.
    pub fn has(&self, host: &Nqn) -> bool {
        self.authenticating.contains(host) || self.tls.contains_key(host)
    }

    /// Whether this host had keys, and enters only with new ones.
    pub fn is_removed(&self, host: &HostName) -> bool {
        matches!(host, HostName::Named(host) if self.removed.contains(host))
    }

    /// Whether this host must use TLS; `None` if it has no PSK.
    pub fn tls(&self, host: &HostName) -> Option<Demand> {
        match host {
            HostName::Named(host) => self.tls.get(host).copied(),
            HostName::Unnamed => None,
        }
    }
}

impl FromIterator<(Nqn, Demand)> for KeyedHosts {
    /// Hosts that have a PSK, and do not authenticate otherwise.
    fn from_iter<I: IntoIterator<Item = (Nqn, Demand)>>(hosts: I) -> Self {
        Self { tls: hosts.into_iter().collect(), ..Self::default() }
    }
}

impl FromIterator<Nqn> for KeyedHosts {
    /// Hosts that must authenticate, and have no PSK.
    fn from_iter<I: IntoIterator<Item = Nqn>>(hosts: I) -> Self {
        Self { authenticating: hosts.into_iter().collect(), ..Self::default() }
    }
}

/// A host cannot be added, changed or removed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum HostTableError {
    /// The host has keys.
    #[error("host '{0}' has keys already: remove it first")]
    Exists(Nqn),
    /// The host has no keys.
    #[error("no host '{0}' with keys: 'nearflash host list' lists them")]
    NotFound(Nqn),
    /// The host has no key for DH-HMAC-CHAP.
    #[error(
        "host '{0}' has no key for DH-HMAC-CHAP to replace: name the file of a new PSK, or remove the host and add \
         it again with both"
    )]
    NoKey(Nqn),
    /// The host has no PSK.
    #[error("host '{0}' has no PSK to replace: remove the host and add it again with one")]
    NoPsk(Nqn),
    /// The new key is the controller's.
    #[error(transparent)]
    Same(#[from] HostKeysError),
    /// The old key would not be valid any more.
    #[error("the time until which the old key is valid has passed: choose a later one, or none")]
    Past,
    /// There are [`KEYED_HOSTS_MAX`] hosts.
    #[error("the node has {KEYED_HOSTS_MAX} hosts with keys, the maximum: remove one first")]
    TooMany,
    /// There are [`REMOVED_HOSTS_MAX`] removed hosts.
    #[error(
        "the node remembers {REMOVED_HOSTS_MAX} removed hosts, the maximum: have one forgotten with 'nearflash \
         host remove NQN --forget'"
    )]
    TooManyRemoved,
}

/// Every host that has keys, and those that had some.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HostTable {
    keyed: BTreeMap<Nqn, HostSecrets>,
    /// A host whose keys are gone does not enter without keys, wherever hosts without keys do.
    removed: BTreeSet<Nqn>,
}

impl HostTable {
    /// Restores recorded hosts.
    pub fn restore(
        hosts: impl IntoIterator<Item = (Nqn, HostSecrets)>,
        removed: impl IntoIterator<Item = Nqn>,
    ) -> Self {
        Self { keyed: hosts.into_iter().collect(), removed: removed.into_iter().collect() }
    }

    /// Every host, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Nqn, &HostSecrets)> {
        self.keyed.iter()
    }

    /// The hosts whose keys were removed, by name.
    pub fn removed(&self) -> impl ExactSizeIterator<Item = &Nqn> {
        self.removed.iter()
    }

    /// The same hosts, without the keys.
    pub fn keyed(&self) -> KeyedHosts {
        let authenticating = self.keyed.iter().filter(|(_, it)| it.dhchap.is_some());
        let tls = self
            .keyed
            .iter()
            .filter_map(|(host, it)| Some((host.clone(), it.tls.as_ref()?.demand)));
        KeyedHosts {
            authenticating: authenticating.map(|(host, _)| host.clone()).collect(),
            tls: tls.collect(),
            removed: self.removed.clone(),
        }
    }

    /// The hosts that have a PSK.
    pub fn tls(&self) -> TlsHosts {
        let tls = |(host, it): (&Nqn, &HostSecrets)| Some((host.clone(), it.tls.clone()?));
        self.keyed.iter().filter_map(tls).collect()
    }

    /// The keys of a host.
    pub fn get(&self, host: &Nqn) -> Option<&HostSecrets> {
        self.keyed.get(host)
    }

    /// Adds a host.
    ///
    /// # Errors
    /// If it has keys already, or there are [`KEYED_HOSTS_MAX`] hosts.
    pub fn add(&mut self, host: &Nqn, keys: HostSecrets) -> Result<(), HostTableError> {
        if self.keyed.contains_key(host) {
            return Err(HostTableError::Exists(host.clone()));
        }
        if self.keyed.len() >= KEYED_HOSTS_MAX {
            return Err(HostTableError::TooMany);
        }
        self.keyed.insert(host.clone(), keys);
        self.removed.remove(host);
        Ok(())
    }

    /// Gives a host new keys at `now`. The old ones are valid until `until`, and no longer without it.
    ///
    /// # Errors
    /// If the host has no such keys, the controller has the same key, or `until` has passed.
    pub fn rotate(
        &mut self,
        host: &Nqn,
        new: NewKeys,
        until: Option<UnixTime>,
        now: UnixTime,
    ) -> Result<(), HostTableError> {
        if until.is_some_and(|until| until <= now) {
            return Err(HostTableError::Past);
        }
        let found =
            self.keyed.get_mut(host).ok_or_else(|| HostTableError::NotFound(host.clone()))?;
        let mut fresh = found.clone().valid_at(now);
        if let Some(key) = new.dhchap {
            let keys = fresh.dhchap.ok_or_else(|| HostTableError::NoKey(host.clone()))?;
            fresh.dhchap = Some(keys.replaced(key, until)?);
        }
        if let Some(psk) = new.psk {
            let tls = fresh.tls.ok_or_else(|| HostTableError::NoPsk(host.clone()))?;
            fresh.tls = Some(tls.replaced(psk, until));
        }
        *found = fresh;
        Ok(())
    }

    /// Forgets the previous keys that are not valid any more; returns their hosts.
    pub fn forget_expired(&mut self, now: UnixTime) -> Vec<Nqn> {
        let mut hosts = Vec::new();
        for (host, secrets) in &mut self.keyed {
            let valid = secrets.clone().valid_at(now);
            if valid != *secrets {
                *secrets = valid;
                hosts.push(host.clone());
            }
        }
        hosts
    }

    /// The time at which the next previous key expires.
    pub fn next_expiry(&self) -> Option<UnixTime> {
        let ends = self.keyed.values().flat_map(|it| {
            let key = it.dhchap.as_ref().and_then(HostKeys::previous).map(|it| it.until);
            let psk = it.tls.as_ref().and_then(|tls| tls.previous.as_ref()).map(|it| it.until);
            [key, psk]
        });
        ends.flatten().min()
    }

    /// Removes the keys of a host, which does not enter without keys from then on.
    ///
    /// # Errors
    /// If it has no keys, or too many hosts are remembered.
    pub fn remove(&mut self, host: &Nqn) -> Result<HostSecrets, HostTableError> {
        let has_room = self.removed.len() < REMOVED_HOSTS_MAX || self.removed.contains(host);
        let keys = self.keyed.get(host).ok_or_else(|| HostTableError::NotFound(host.clone()))?;
        let keys = has_room.then(|| keys.clone()).ok_or(HostTableError::TooManyRemoved)?;
        self.keyed.remove(host);
        self.removed.insert(host.clone());
        Ok(keys)
    }

    /// Forgets a host and its keys: it is like every host that never had any. Returns whether there was something
    /// to forget.
    pub fn forget(&mut self, host: &Nqn) -> (Option<HostSecrets>, bool) {
        let keys = self.keyed.remove(host);
        let was_removed = self.removed.remove(host);
        let is_forgotten = keys.is_some() || was_removed;
        (keys, is_forgotten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Policy;
    use crate::tls::Derivation;

    fn keys(byte: u8) -> HostSecrets {
        let key = Key::new(None, &[byte; 32]).unwrap();
        HostKeys::new(key, None, Policy::default()).unwrap().into()
    }

    fn nqn(number: usize) -> Nqn {
        Nqn::new(&format!("nqn.2026-11.test:{number}")).unwrap()
    }

    #[test]
    fn a_host_is_there_once_until_removed() {
        let mut hosts = HostTable::default();
        hosts.add(&nqn(1), keys(1)).unwrap();
        assert_eq!(hosts.add(&nqn(1), keys(2)), Err(HostTableError::Exists(nqn(1))));
        assert_eq!(hosts.get(&nqn(1)), Some(&keys(1)));
        assert_eq!(hosts.remove(&nqn(1)), Ok(keys(1)));
        assert_eq!(hosts.remove(&nqn(1)), Err(HostTableError::NotFound(nqn(1))));
    }

    #[test]
    fn a_host_that_had_keys_is_remembered_until_it_has_some_again_or_is_forgotten() {
        let is_removed = |hosts: &HostTable| hosts.keyed().is_removed(&HostName::Named(nqn(1)));
        let mut hosts = HostTable::default();
        assert_eq!(hosts.forget(&nqn(1)), (None, false));
        hosts.add(&nqn(1), keys(1)).unwrap();
        assert!(!is_removed(&hosts));
        hosts.remove(&nqn(1)).unwrap();
        assert!(is_removed(&hosts));
        assert_eq!(HostTable::restore([], hosts.removed().cloned()), hosts);
        hosts.add(&nqn(1), keys(2)).unwrap();
        assert!(!is_removed(&hosts));
        hosts.remove(&nqn(1)).unwrap();
        assert_eq!(hosts.forget(&nqn(1)), (None, true));
        assert_eq!(hosts, HostTable::default());
        hosts.add(&nqn(1), keys(3)).unwrap();
        assert_eq!(hosts.forget(&nqn(1)), (Some(keys(3)), true));
        assert!(!is_removed(&hosts));
    }

    #[test]
    fn the_hosts_that_are_remembered_are_bounded_and_none_is_forgotten_for_another() {
        let mut hosts = HostTable::restore([(nqn(0), keys(1))], (1..=REMOVED_HOSTS_MAX).map(nqn));
        assert_eq!(hosts.remove(&nqn(0)), Err(HostTableError::TooManyRemoved));
        assert_eq!(hosts.get(&nqn(0)), Some(&keys(1)));
        hosts.forget(&nqn(1));
        assert_eq!(hosts.remove(&nqn(0)), Ok(keys(1)));
    }

    #[test]
    fn a_replaced_key_is_valid_until_its_time_and_a_third_key_ends_it() {
        let key = |byte| Key::new(None, &[byte; 32]).unwrap();
        let mut hosts = HostTable::default();
        let both = HostKeys::new(key(1), Some(key(9)), Policy::default()).unwrap();
        hosts.add(&nqn(1), both.into()).unwrap();
        let mut rotate = |byte, until: u64, now| -> Result<_, HostTableError> {
            let new = NewKeys { dhchap: Some(key(byte)), psk: None };
            let until = (until > 0).then_some(UnixTime(until));
            hosts.rotate(&nqn(1), new, until, UnixTime(now))?;
            let keys = hosts.get(&nqn(1)).unwrap().dhchap.clone().unwrap();
            let previous = keys.previous().map(|it| (it.key.clone(), it.until.0));
            assert_eq!((keys.host(), keys.controller()), (&key(byte), Some(&key(9))));
            Ok(previous)
        };
        assert_eq!(rotate(9, 100, 0), Err(HostTableError::Same(HostKeysError)));
        assert_eq!(rotate(2, 50, 50), Err(HostTableError::Past));
        assert_eq!(rotate(2, 100, 0), Ok(Some((key(1), 100))));
        // Again with the same key: only the time changes.
        assert_eq!(rotate(2, 50, 0), Ok(Some((key(1), 50))));
        assert_eq!(rotate(3, 100, 0), Ok(Some((key(2), 100))));
        // An expired key does not come back.
        assert_eq!(rotate(3, 300, 200), Ok(None));
        assert_eq!(rotate(4, 300, 200), Ok(Some((key(3), 300))));
        assert_eq!(rotate(4, 0, 200), Ok(None));
    }

    #[test]
    fn only_keys_that_a_host_has_are_replaced_and_the_others_stay() {
        let key = Key::new(None, &[5; 32]).unwrap();
        let psk = |byte| Psk::new(None, &[byte; 32]).unwrap();
        let (derivation, demand) = (Derivation::Legacy, Demand::Allowed);
        let tls = TlsHost { psk: psk(1), previous: None, derivation, demand };
        let mut hosts = HostTable::default();
        hosts.add(&nqn(1), keys(1)).unwrap();
        hosts.add(&nqn(2), HostSecrets { dhchap: None, tls: Some(tls.clone()) }).unwrap();
        let (until, now) = (Some(UnixTime(9)), UnixTime(1));
        let of_key = || NewKeys { dhchap: Some(key.clone()), psk: None };
        let of_psk = || NewKeys { dhchap: None, psk: Some(psk(2)) };
        let before = hosts.clone();
        for (host, new, error) in [
            (nqn(1), of_psk(), HostTableError::NoPsk(nqn(1))),
            (nqn(2), of_key(), HostTableError::NoKey(nqn(2))),
            (nqn(3), of_key(), HostTableError::NotFound(nqn(3))),
        ] {
            assert_eq!(hosts.rotate(&host, new, until, now), Err(error));
        }
        assert_eq!(hosts, before);
        hosts.rotate(&nqn(2), of_psk(), until, now).unwrap();
        let both = tls.replaced(psk(2), until);
        assert_eq!((both.derivation, both.demand), (derivation, demand));
        assert_eq!(hosts.get(&nqn(2)), Some(&HostSecrets { dhchap: None, tls: Some(both) }));
        assert_eq!(hosts.next_expiry(), until);
        assert!(hosts.forget_expired(UnixTime(8)).is_empty());
        assert_eq!(hosts.forget_expired(UnixTime(9)), [nqn(2)]);
        assert_eq!(hosts.next_expiry(), None);
    }

    #[test]
    fn hosts_with_keys_are_bounded() {
        let mut hosts = HostTable::restore((0..KEYED_HOSTS_MAX).map(|n| (nqn(n), keys(1))), []);
        assert_eq!(hosts.add(&nqn(KEYED_HOSTS_MAX), keys(1)), Err(HostTableError::TooMany));
    }

    #[test]
    fn a_host_authenticates_or_uses_tls_by_the_keys_that_it_has() {
        let psk = Psk::new(None, &[1; 32]).unwrap();
        let (derivation, demand) = (Derivation::Standard, Demand::Required);
        let tls = TlsHost { psk, previous: None, derivation, demand };
        let mut hosts = HostTable::default();
        hosts.add(&nqn(1), keys(1)).unwrap();
        hosts.add(&nqn(2), HostSecrets { dhchap: None, tls: Some(tls) }).unwrap();
        let keyed = hosts.keyed();
        let of = |number| {
            let host = HostName::Named(nqn(number));
            (keyed.authenticates(&host), keyed.tls(&host), hosts.tls().has(&host))
        };
        assert_eq!(of(1), (true, None, false));
        assert_eq!(of(2), (false, Some(Demand::Required), true));
        assert_eq!(of(3), (false, None, false));
        assert!(!keyed.authenticates(&HostName::Unnamed));
    }
}
