//! The hosts that have keys: for DH-HMAC-CHAP, for TLS, or for both.

use std::collections::{BTreeMap, BTreeSet};

use crate::auth::HostKeys;
use crate::tls::{Demand, TlsHost, TlsHosts};
use crate::{HostName, Nqn};

/// The largest number of hosts with keys.
pub const KEYED_HOSTS_MAX: usize = 1024;

/// The keys of a host. It has at least one of them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostSecrets {
    /// The keys with which it must authenticate.
    pub dhchap: Option<HostKeys>,
    /// Its PSK.
    pub tls: Option<TlsHost>,
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
}

impl KeyedHosts {
    /// Whether this host must authenticate.
    pub fn authenticates(&self, host: &HostName) -> bool {
        matches!(host, HostName::Named(host) if self.authenticating.contains(host))
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
        Self { authenticating: BTreeSet::new(), tls: hosts.into_iter().collect() }
    }
}

impl FromIterator<Nqn> for KeyedHosts {
    /// Hosts that must authenticate, and have no PSK.
    fn from_iter<I: IntoIterator<Item = Nqn>>(hosts: I) -> Self {
        Self { authenticating: hosts.into_iter().collect(), tls: BTreeMap::new() }
    }
}

/// A host cannot be added or removed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum HostTableError {
    /// The host has keys.
    #[error("host '{0}' has keys already: remove it first")]
    Exists(Nqn),
    /// The host has no keys.
    #[error("no host '{0}' with keys: 'nearflash host list' lists them")]
    NotFound(Nqn),
    /// There are [`KEYED_HOSTS_MAX`] hosts.
    #[error("the node has {KEYED_HOSTS_MAX} hosts with keys, the maximum: remove one first")]
    TooMany,
}

/// Every host that has keys.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HostTable(BTreeMap<Nqn, HostSecrets>);

impl HostTable {
    /// Restores recorded hosts.
    pub fn restore(hosts: impl IntoIterator<Item = (Nqn, HostSecrets)>) -> Self {
        Self(hosts.into_iter().collect())
    }

    /// Every host, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Nqn, &HostSecrets)> {
        self.0.iter()
    }

    /// The same hosts, without the keys.
    pub fn keyed(&self) -> KeyedHosts {
        let authenticating = self.0.iter().filter(|(_, it)| it.dhchap.is_some());
        let tls =
            self.0.iter().filter_map(|(host, it)| Some((host.clone(), it.tls.as_ref()?.demand)));
        KeyedHosts {
            authenticating: authenticating.map(|(host, _)| host.clone()).collect(),
            tls: tls.collect(),
        }
    }

    /// The hosts that have a PSK.
    pub fn tls(&self) -> TlsHosts {
        let tls = |(host, it): (&Nqn, &HostSecrets)| Some((host.clone(), it.tls.clone()?));
        self.0.iter().filter_map(tls).collect()
    }

    /// The keys of a host.
    pub fn get(&self, host: &Nqn) -> Option<&HostSecrets> {
        self.0.get(host)
    }

    /// Adds a host.
    ///
    /// # Errors
    /// If it has keys already, or there are [`KEYED_HOSTS_MAX`] hosts.
    pub fn add(&mut self, host: &Nqn, keys: HostSecrets) -> Result<(), HostTableError> {
        if self.0.contains_key(host) {
            return Err(HostTableError::Exists(host.clone()));
        }
        if self.0.len() >= KEYED_HOSTS_MAX {
            return Err(HostTableError::TooMany);
        }
        self.0.insert(host.clone(), keys);
        Ok(())
    }

    /// Removes a host.
    ///
    /// # Errors
    /// If it has no keys.
    pub fn remove(&mut self, host: &Nqn) -> Result<HostSecrets, HostTableError> {
        self.0.remove(host).ok_or_else(|| HostTableError::NotFound(host.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Key, Policy};
    use crate::tls::{Derivation, Psk};

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
    fn hosts_with_keys_are_bounded() {
        let mut hosts = HostTable::restore((0..KEYED_HOSTS_MAX).map(|n| (nqn(n), keys(1))));
        assert_eq!(hosts.add(&nqn(KEYED_HOSTS_MAX), keys(1)), Err(HostTableError::TooMany));
    }

    #[test]
    fn a_host_authenticates_or_uses_tls_by_the_keys_that_it_has() {
        let psk = Psk::new(None, &[1; 32]).unwrap();
        let tls = TlsHost { psk, derivation: Derivation::Standard, demand: Demand::Required };
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
