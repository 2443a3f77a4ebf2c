//! The hosts that have a PSK.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use nearflash_units::UnixTime;

use super::derive::{Derivation, DeriveError, TlsKey};
use super::identity::{IdentityError, PskIdentity};
use super::psk::Psk;
use crate::{HostName, Nqn, Previous};

/// Whether a host with a PSK must use TLS.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Demand {
    /// It cannot connect without TLS, at any address.
    #[default]
    Required,
    /// It can connect without TLS where the address permits that.
    Allowed,
}

/// The text is not a demand.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("'{0}' does not say whether a host must use TLS: use required or allowed")]
pub struct ParseDemandError(Box<str>);

impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Required => "required",
            Self::Allowed => "allowed",
        })
    }
}

impl FromStr for Demand {
    type Err = ParseDemandError;

    fn from_str(text: &str) -> Result<Self, ParseDemandError> {
        match text {
            "required" => Ok(Self::Required),
            "allowed" => Ok(Self::Allowed),
            _ => Err(ParseDemandError(text.into())),
        }
    }
}

/// The PSK of a host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsHost {
    /// The configured PSK.
    pub psk: Psk,
    /// The PSK that it has replaced, if the host may still use it.
    pub previous: Option<Previous<Psk>>,
    /// The derivation that the host uses.
    pub derivation: Derivation,
    /// Whether it must use TLS.
    pub demand: Demand,
}

impl TlsHost {
    /// A new PSK. The old one is valid until `until`, and no longer without it.
    #[must_use]
    pub fn replaced(self, psk: Psk, until: Option<UnixTime>) -> Self {
        let previous = Previous::after((self.psk, self.previous), &psk, until);
        Self { psk, previous, ..self }
    }

    /// The PSKs that are valid at `now`.
    #[must_use]
    pub fn valid_at(self, now: UnixTime) -> Self {
        let previous = self.previous.filter(|previous| previous.is_valid(now));
        Self { previous, ..self }
    }

    /// The TLS PSK of an identity at `now`, and whether it comes from the previous PSK. The digest of an identity
    /// of version 1 says which PSK is meant. Version 0 has none: the newer PSK is used if it is for the same hash.
    fn key(&self, identity: &PskIdentity, now: UnixTime) -> Result<(TlsKey, bool), DeriveError> {
        let refused = match self.psk.tls_key(self.derivation, identity) {
            Ok(key) => return Ok((key, false)),
            Err(refused) => refused,
        };
        let previous = self.previous.as_ref().filter(|previous| previous.is_valid(now));
        let key = previous.and_then(|it| it.key.tls_key(self.derivation, identity).ok());
        key.map(|key| (key, true)).ok_or(refused)
    }
}

/// Why an identity has no key. The message continues one that names the identity.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum KeyRefused {
    /// It is not an identity.
    #[error("not a PSK identity: {0}")]
    Identity(#[from] IdentityError),
    /// The host has no PSK.
    #[error("the host has no PSK: add one with 'nearflash host add NQN --psk-file FILE'")]
    Unknown,
    /// The PSK of the host is not that of the identity.
    #[error(transparent)]
    Derive(#[from] DeriveError),
}

/// Every host that has a PSK.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TlsHosts(BTreeMap<Nqn, TlsHost>);

impl TlsHosts {
    /// Whether this host has a PSK.
    pub fn has(&self, host: &HostName) -> bool {
        self.demand(host).is_some()
    }

    /// Whether this host must use TLS; `None` if it has no PSK.
    pub fn demand(&self, host: &HostName) -> Option<Demand> {
        match host {
            HostName::Named(host) => self.0.get(host).map(|it| it.demand),
            HostName::Unnamed => None,
        }
    }

    /// The TLS PSK of the identity that a host has sent, at `now`.
    ///
    /// # Errors
    /// If it is not an identity, its host has no PSK, or no valid PSK of the host is that of the identity.
    pub fn key(&self, identity: &[u8], now: UnixTime) -> Result<(PskIdentity, TlsKey), KeyRefused> {
        let identity = PskIdentity::parse(identity)?;
        let host = self.0.get(&identity.host).ok_or(KeyRefused::Unknown)?;
        let (key, _) = host.key(&identity, now)?;
        Ok((identity, key))
    }

    /// Whether the TLS PSK of an identity comes from the previous PSK of its host, at `now`.
    pub fn is_previous(&self, identity: &PskIdentity, now: UnixTime) -> bool {
        let host = self.0.get(&identity.host);
        host.and_then(|host| host.key(identity, now).ok())
            .is_some_and(|(_, is_previous)| is_previous)
    }
}

impl FromIterator<(Nqn, TlsHost)> for TlsHosts {
    fn from_iter<I: IntoIterator<Item = (Nqn, TlsHost)>>(hosts: I) -> Self {
        Self(hosts.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::Version;

    fn nqn(name: &str) -> Nqn {
        Nqn::new(name).unwrap()
    }

    #[test]
    fn a_host_with_a_psk_has_a_key_for_each_subsystem_and_other_hosts_have_none() {
        let host = TlsHost {
            psk: Psk::new(None, &[7; 32]).unwrap(),
            previous: None,
            derivation: Derivation::Standard,
            demand: Demand::Required,
        };
        let hosts: TlsHosts = [(nqn("nqn.a"), host.clone())].into_iter().collect();
        let of = |name: &str, subsystem: &str| {
            let (name, subsystem) = (nqn(name), nqn(subsystem));
            host.psk.identity(host.derivation, Version::One, &name, &subsystem).unwrap()
        };
        let now = UnixTime(0);
        let key = |identity: &PskIdentity| hosts.key(identity.to_string().as_bytes(), now);
        let (one, other) = (of("nqn.a", "nqn.s"), of("nqn.a", "nqn.t"));
        assert_eq!(key(&one).unwrap().0, one);
        assert_ne!(key(&one).unwrap().1, key(&other).unwrap().1);
        assert_eq!(key(&of("nqn.b", "nqn.s")), Err(KeyRefused::Unknown));
        assert_eq!(hosts.key(b"me", now), Err(KeyRefused::Identity(IdentityError::Form)));
        assert!(hosts.has(&HostName::Named(nqn("nqn.a"))) && !hosts.has(&HostName::Unnamed));
    }

    #[test]
    fn while_psks_overlap_an_identity_has_the_key_of_its_digest_and_then_of_the_new_psk_alone() {
        let psk = |byte, len| Psk::new(None, &vec![byte; len]).unwrap();
        let old = |len| TlsHost {
            psk: psk(1, len),
            previous: None,
            derivation: Derivation::Standard,
            demand: Demand::Required,
        };
        let until = UnixTime(100);
        let found = |len, of: &Psk, version, now| {
            let host = old(len).replaced(psk(2, 32), Some(until));
            let (name, subsystem) = (nqn("nqn.a"), nqn("nqn.s"));
            let identity = of.identity(host.derivation, version, &name, &subsystem).unwrap();
            let own = of.tls_key(host.derivation, &identity).unwrap();
            let hosts: TlsHosts = [(name, host)].into_iter().collect();
            let is_previous = hosts.is_previous(&identity, now);
            let key = hosts.key(identity.to_string().as_bytes(), now).ok();
            key.map(|(_, key)| (key == own, is_previous))
        };
        let (one, zero) = (Version::One, Version::Zero);
        let (before, after) = (UnixTime(99), until);
        for now in [before, after] {
            assert_eq!(found(32, &psk(2, 32), one, now), Some((true, false)));
            assert_eq!(found(32, &psk(2, 32), zero, now), Some((true, false)));
            // Nothing in the identity tells the PSKs apart: the newer one is meant.
            assert_eq!(found(32, &psk(1, 32), zero, now), Some((false, false)));
        }
        assert_eq!(found(32, &psk(1, 32), one, before), Some((true, true)));
        assert_eq!(found(32, &psk(1, 32), one, after), None);
        // A PSK for the other hash is told apart by it.
        assert_eq!(found(48, &psk(1, 48), zero, before), Some((true, true)));
        assert_eq!(found(48, &psk(1, 48), zero, after), None);
        assert_eq!(found(32, &psk(3, 32), one, before), None);
    }

    #[test]
    fn a_demand_is_read_by_its_name() {
        for demand in [Demand::Required, Demand::Allowed] {
            assert_eq!(demand.to_string().parse(), Ok(demand));
        }
        assert!("off".parse::<Demand>().is_err());
    }
}
