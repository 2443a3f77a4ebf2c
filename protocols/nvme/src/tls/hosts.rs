//! The hosts that have a PSK.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::derive::{Derivation, DeriveError, TlsKey};
use super::identity::{IdentityError, PskIdentity};
use super::psk::Psk;
use crate::{HostName, Nqn};

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
    /// The derivation that the host uses.
    pub derivation: Derivation,
    /// Whether it must use TLS.
    pub demand: Demand,
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

    /// The TLS PSK of the identity that a host has sent.
    ///
    /// # Errors
    /// If it is not an identity, its host has no PSK, or the PSK is not that of the identity.
    pub fn key(&self, identity: &[u8]) -> Result<(PskIdentity, TlsKey), KeyRefused> {
        let identity = PskIdentity::parse(identity)?;
        let host = self.0.get(&identity.host).ok_or(KeyRefused::Unknown)?;
        let key = host.psk.tls_key(host.derivation, &identity)?;
        Ok((identity, key))
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
            derivation: Derivation::Standard,
            demand: Demand::Required,
        };
        let hosts: TlsHosts = [(nqn("nqn.a"), host.clone())].into_iter().collect();
        let of = |name: &str, subsystem: &str| {
            let (name, subsystem) = (nqn(name), nqn(subsystem));
            host.psk.identity(host.derivation, Version::One, &name, &subsystem).unwrap()
        };
        let key = |identity: &PskIdentity| hosts.key(identity.to_string().as_bytes());
        let (one, other) = (of("nqn.a", "nqn.s"), of("nqn.a", "nqn.t"));
        assert_eq!(key(&one).unwrap().0, one);
        assert_ne!(key(&one).unwrap().1, key(&other).unwrap().1);
        assert_eq!(key(&of("nqn.b", "nqn.s")), Err(KeyRefused::Unknown));
        assert_eq!(hosts.key(b"me"), Err(KeyRefused::Identity(IdentityError::Form)));
        assert!(hosts.has(&HostName::Named(nqn("nqn.a"))) && !hosts.has(&HostName::Unnamed));
    }

    #[test]
    fn a_demand_is_read_by_its_name() {
        for demand in [Demand::Required, Demand::Allowed] {
            assert_eq!(demand.to_string().parse(), Ok(demand));
        }
        assert!("off".parse::<Demand>().is_err());
    }
}
