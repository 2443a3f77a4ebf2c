//! The catalog's record of the keys of a host. The names and meanings of these fields are permanent; a
//! field that a later version adds has a default.

use std::str::FromStr;

use nearflash_nvme::Previous;
use nearflash_nvme::auth::{HostKeys, Policy};
use nearflash_nvme::hosts::HostSecrets;
use nearflash_nvme::tls::TlsHost;
use nearflash_units::UnixTime;
use serde::{Deserialize, Serialize};
use zeroize::ZeroizeOnDrop;

/// The keys of a host. Its `Debug` output hides them.
#[derive(Clone, Default, Deserialize, Eq, PartialEq, Serialize, ZeroizeOnDrop)]
#[serde(deny_unknown_fields)]
pub(super) struct HostRecord {
    /// The host's key for DH-HMAC-CHAP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    controller_key: Option<String>,
    /// The key that `key` has replaced, and the time until which it is valid, in seconds since 1970. A record has
    /// both or neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous_key_until: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    /// The PSK for TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    psk: Option<String>,
    /// The PSK that `psk` has replaced, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous_psk: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous_psk_until: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    psk_derivation: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tls: Option<String>,
    /// The host had keys, which were removed. Then there is no other field.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    removed: bool,
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
        let previous_key = keys.and_then(HostKeys::previous);
        let previous_psk = tls.and_then(|tls| tls.previous.as_ref());
        Self {
            key: keys.map(|keys| keys.host().to_text().as_str().to_owned()),
            controller_key: controller.map(|key| key.to_text().as_str().to_owned()),
            previous_key: previous_key.map(|it| it.key.to_text().as_str().to_owned()),
            previous_key_until: previous_key.map(|it| it.until.0),
            hash: policy.hash.map(|hash| hash.to_string()),
            group: policy.group.map(|group| group.to_string()),
            psk: tls.map(|tls| tls.psk.to_text().as_str().to_owned()),
            previous_psk: previous_psk.map(|it| it.key.to_text().as_str().to_owned()),
            previous_psk_until: previous_psk.map(|it| it.until.0),
            psk_derivation: tls.map(|tls| tls.derivation.to_string()),
            tls: tls.map(|tls| tls.demand.to_string()),
            removed: false,
        }
    }

    /// The record of a host whose keys were removed.
    pub(super) fn of_removed() -> Self {
        let mut record = Self::default();
        record.removed = true;
        record
    }

    /// Whether the keys of the host were removed.
    pub(super) fn is_removed(&self) -> bool {
        *self == Self::of_removed()
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
        (!self.removed && (dhchap.is_some() || tls.is_some()))
            .then_some(HostSecrets { dhchap, tls })
    }

    fn keys(&self, key: &str) -> Option<HostKeys> {
        let controller = self.controller_key.as_deref().map(str::parse).transpose().ok()?;
        let policy = Policy {
            hash: self.hash.as_deref().map(str::parse).transpose().ok()?,
            group: self.group.as_deref().map(str::parse).transpose().ok()?,
        };
        let previous = previous(self.previous_key.as_deref(), self.previous_key_until)?;
        let keys = HostKeys::new(key.parse().ok()?, controller, policy).ok()?;
        Some(keys.with_previous(previous))
    }

    fn tls(&self, psk: &str) -> Option<TlsHost> {
        Some(TlsHost {
            psk: psk.parse().ok()?,
            previous: previous(self.previous_psk.as_deref(), self.previous_psk_until)?,
            derivation: self.psk_derivation.as_deref()?.parse().ok()?,
            demand: self.tls.as_deref()?.parse().ok()?,
        })
    }
}

/// The previous key of two fields. The outer `None` means that no version writes them so.
fn previous<K: FromStr>(key: Option<&str>, until: Option<u64>) -> Option<Option<Previous<K>>> {
    match (key, until) {
        (None, None) => Some(None),
        (Some(key), Some(until)) => {
            Some(Some(Previous { key: key.parse().ok()?, until: UnixTime(until) }))
        }
        _ => None,
    }
}
