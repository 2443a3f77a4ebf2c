//! The catalog's record of the keys of a host. The names and meanings of these fields are permanent; a
//! field that a later version adds has a default.

use nearflash_nvme::auth::{HostKeys, Policy};
use nearflash_nvme::hosts::HostSecrets;
use nearflash_nvme::tls::TlsHost;
use serde::{Deserialize, Serialize};
use zeroize::ZeroizeOnDrop;

/// The keys of a host. Its `Debug` output hides them.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize, ZeroizeOnDrop)]
#[serde(deny_unknown_fields)]
pub(super) struct HostRecord {
    /// The host's key for DH-HMAC-CHAP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    controller_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    /// The PSK for TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    psk: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    psk_derivation: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tls: Option<String>,
}

impl std::fmt::Debug for HostRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostRecord").finish_non_exhaustive()
    }
}

impl HostRecord {
    pub(super) fn of(secrets: &HostSecrets) -> Self {
        let (keys, tls) = (secrets.dhchap.as_ref(), secrets.tls.as_ref());
        let policy = keys.map(|keys| keys.policy).unwrap_or_default();
        let controller = keys.and_then(HostKeys::controller);
        Self {
            key: keys.map(|keys| keys.host().to_text().as_str().to_owned()),
            controller_key: controller.map(|key| key.to_text().as_str().to_owned()),
            hash: policy.hash.map(|hash| hash.to_string()),
            group: policy.group.map(|group| group.to_string()),
            psk: tls.map(|tls| tls.psk.to_text().as_str().to_owned()),
            psk_derivation: tls.map(|tls| tls.derivation.to_string()),
            tls: tls.map(|tls| tls.demand.to_string()),
        }
    }

    /// The keys; `None` when a field holds a value that no version writes, or there are no keys.
    pub(super) fn secrets(&self) -> Option<HostSecrets> {
        let dhchap = match &self.key {
            Some(key) => Some(self.keys(key)?),
            None => None,
        };
        let tls = match &self.psk {
            Some(psk) => Some(self.tls(psk)?),
            None => None,
        };
        (dhchap.is_some() || tls.is_some()).then_some(HostSecrets { dhchap, tls })
    }

    fn keys(&self, key: &str) -> Option<HostKeys> {
        let controller = self.controller_key.as_deref().map(str::parse).transpose().ok()?;
        let policy = Policy {
            hash: self.hash.as_deref().map(str::parse).transpose().ok()?,
            group: self.group.as_deref().map(str::parse).transpose().ok()?,
        };
        HostKeys::new(key.parse().ok()?, controller, policy).ok()
    }

    fn tls(&self, psk: &str) -> Option<TlsHost> {
        Some(TlsHost {
            psk: psk.parse().ok()?,
            derivation: self.psk_derivation.as_deref()?.parse().ok()?,
            demand: self.tls.as_deref()?.parse().ok()?,
        })
    }
}
