//! The values of this crate, and the keys of hosts, as records of a store, and back.

use std::str::FromStr;

use nearflash_nvme::Previous;
use nearflash_nvme::auth::{HostKeys, Policy};
use nearflash_nvme::hosts::HostSecrets;
use nearflash_nvme::tls::TlsHost;
use nearflash_records::local::{
    ChapRecord, CredentialRecord, GrantRecord, HostRecord, HostVolumesRecord,
};
use nearflash_space::Name;
use nearflash_units::{ByteOffset, UnixTime};

use crate::chap::{ChapAccount, ChapUser, Mutual};
use crate::grant::{Covered, Credential, Grant, GrantNumber, GrantRange, Holder, Rights, Secret};
use crate::hosts::VolumeList;

/// The record of a credential.
pub fn credential_record(credential: &Credential) -> CredentialRecord {
    let expires_at = credential.expires.map(|at| at.0);
    CredentialRecord { secret: credential.secret.to_hex(), expires_at }
}

/// The credential of a record; `None` when a field holds a value that no version writes.
pub fn credential(id: &Name, record: &CredentialRecord) -> Option<Credential> {
    let secret: Secret = record.secret.parse().ok()?;
    Some(Credential { id: id.clone(), secret, expires: record.expires_at.map(UnixTime) })
}

/// The record of a grant.
pub fn grant_record(grant: &Grant) -> GrantRecord {
    let (credential, seal) = match &grant.holder {
        Holder::Credential(id) => (id.to_string(), None),
        Holder::Seal(secret) => (String::new(), Some(secret.to_hex())),
    };
    let (path, range) = match &grant.covers {
        Covered::Range(range) => (None, *range),
        Covered::Files(path) => (Some(path.to_string()), GrantRange::WHOLE),
    };
    GrantRecord {
        credential,
        seal,
        volume: grant.volume,
        path,
        start: range.start().0,
        end: range.end().map(|end| end.0),
        rights: grant.rights.to_string(),
        expires_at: grant.expires.map(|at| at.0),
    }
}

/// The grant of a record; `None` when a field holds a value that no version writes.
pub fn grant(number: u64, record: &GrantRecord) -> Option<Grant> {
    let rights: Rights = record.rights.parse().ok()?;
    let holder = match &record.seal {
        None => Holder::Credential(record.credential.parse().ok()?),
        Some(secret) => Holder::Seal(secret.parse().ok()?),
    };
    let range = GrantRange::new(ByteOffset(record.start), record.end.map(ByteOffset)).ok()?;
    let covers = match &record.path {
        None => Covered::Range(range),
        Some(path) if range == GrantRange::WHOLE && record.seal.is_none() => {
            Covered::Files(path.parse().ok()?)
        }
        Some(_) => return None,
    };
    Some(Grant {
        number: GrantNumber(number),
        holder,
        volume: record.volume,
        covers,
        rights,
        expires: record.expires_at.map(UnixTime),
    })
}

/// The record of an account.
pub fn chap_record(account: &ChapAccount) -> ChapRecord {
    let mutual = account.mutual.as_ref();
    ChapRecord {
        secret: account.secret.as_str().to_owned(),
        mutual_user: mutual.map(|mutual| mutual.user.to_string()),
        mutual_secret: mutual.map(|mutual| mutual.secret.as_str().to_owned()),
        initiators: account.initiators.iter().map(ToString::to_string).collect(),
    }
}

/// The account of a record; `None` when a field holds a value that no version writes.
pub fn account(user: &ChapUser, record: &ChapRecord) -> Option<ChapAccount> {
    let mutual = match (&record.mutual_user, &record.mutual_secret) {
        (None, None) => None,
        (Some(user), Some(secret)) => {
            Some(Mutual { user: user.parse().ok()?, secret: secret.parse().ok()? })
        }
        _ => return None,
    };
    let initiators =
        record.initiators.iter().map(|name| name.parse().ok()).collect::<Option<_>>()?;
    Some(ChapAccount {
        user: user.clone(),
        secret: record.secret.parse().ok()?,
        mutual,
        initiators,
    })
}

/// The record of the volumes of a host.
pub fn list_record(list: &VolumeList) -> HostVolumesRecord {
    let volumes = list.iter().map(|(volume, rights)| (*volume, rights.to_string())).collect();
    HostVolumesRecord { volumes }
}

/// The volumes of a record; `None` when a field holds a value that no version writes.
pub fn list(record: &HostVolumesRecord) -> Option<VolumeList> {
    let volume = |(volume, rights): (&uuid::Uuid, &String)| Some((*volume, rights.parse().ok()?));
    record.volumes.iter().map(volume).collect()
}

/// The record of the keys of a host.
pub fn host_record(secrets: &HostSecrets) -> HostRecord {
    let (keys, tls) = (secrets.dhchap.as_ref(), secrets.tls.as_ref());
    let policy = keys.map(|keys| keys.policy).unwrap_or_default();
    let controller = keys.and_then(HostKeys::controller);
    let previous_key = keys.and_then(HostKeys::previous);
    let previous_psk = tls.and_then(|tls| tls.previous.as_ref());
    HostRecord {
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

/// The keys of a record; `None` when a field holds a value that no version writes, or there are no keys.
pub fn host_secrets(record: &HostRecord) -> Option<HostSecrets> {
    let dhchap = match &record.key {
        Some(key) => Some(host_keys(record, key)?),
        None => None,
    };
    let tls = match &record.psk {
        Some(psk) => Some(tls_host(record, psk)?),
        None => None,
    };
    (!record.removed && (dhchap.is_some() || tls.is_some())).then_some(HostSecrets { dhchap, tls })
}

fn host_keys(record: &HostRecord, key: &str) -> Option<HostKeys> {
    let controller = record.controller_key.as_deref().map(str::parse).transpose().ok()?;
    let policy = Policy {
        hash: record.hash.as_deref().map(str::parse).transpose().ok()?,
        group: record.group.as_deref().map(str::parse).transpose().ok()?,
    };
    let previous = previous(record.previous_key.as_deref(), record.previous_key_until)?;
    let keys = HostKeys::new(key.parse().ok()?, controller, policy).ok()?;
    Some(keys.with_previous(previous))
}

fn tls_host(record: &HostRecord, psk: &str) -> Option<TlsHost> {
    Some(TlsHost {
        psk: psk.parse().ok()?,
        previous: previous(record.previous_psk.as_deref(), record.previous_psk_until)?,
        derivation: record.psk_derivation.as_deref()?.parse().ok()?,
        demand: record.tls.as_deref()?.parse().ok()?,
    })
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
