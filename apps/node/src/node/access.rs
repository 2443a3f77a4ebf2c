//! Credentials and grants, as the control socket changes and lists them. A change is effective when
//! it is answered: every core has adopted it, and no request that it forbids is under way.

use std::sync::Arc;

use nearflash_access::{
    Covered, Credential, Grant, GrantError, GrantNumber, GrantRange, GrantRequest, Grants, Holder,
    Rights, SECRET_LEN, Secret, UnixTime, is_expired,
};
use nearflash_api::{CredentialInfo, Credentials, GrantInfo, NewCredential, NewSeal, SecretText};
use nearflash_direct::wire::{self, SealKey, SealToken};
use nearflash_direct::{Run, SealTerms};
use nearflash_space::{Name, Space, VolumeError};
use nearflash_units::ByteOffset;

use super::quiesce::PATIENCE;
use super::{Node, now};
use crate::Update;
use crate::error::NodeError;
use crate::exports::direct_access;
use crate::records::Records;
use nearflash_config::ValueError;

impl Node {
    pub(super) fn credential_create(
        &self,
        id: &str,
        expires_at: Option<u64>,
    ) -> Result<NewCredential, NodeError> {
        let id = name(id)?;
        let secret = fresh_secret()?;
        let text = SecretText(secret.to_hex());
        let expires = expires_at.map(UnixTime);
        let credential = self.change_grants(|grants, _| {
            let made = grants.create(&id, secret, expires, now())?.clone();
            Ok(credential_info(&made, grants, now()))
        })?;
        tracing::debug!(credential = credential.id, "credential created");
        Ok(NewCredential { credential, secret: text })
    }

    pub(super) fn credential_list(&self) -> Credentials {
        let grants = &self.served().recorded.grants;
        let info = |credential| credential_info(credential, grants, now());
        Credentials { credentials: grants.credentials().map(info).collect() }
    }

    pub(super) fn credential_remove(&self, id: &str) -> Result<CredentialInfo, NodeError> {
        let id = name(id)?;
        let credential = self.change_grants(|grants, _| {
            let had = grants.grants_of(&id).count();
            let removed = grants.remove(&id)?;
            Ok(CredentialInfo { grants: had, ..credential_info(&removed, grants, now()) })
        })?;
        tracing::debug!(credential = credential.id, "credential removed");
        if !self.served().recorded.closes_direct() {
            tracing::warn!("no credential is left: direct clients enter without one");
        }
        self.report_closed();
        Ok(credential)
    }

    pub(super) fn grant_add(
        &self,
        credential: &str,
        volume: &str,
        covers: Covered,
        rights: &str,
        expires_at: Option<u64>,
    ) -> Result<GrantInfo, NodeError> {
        let rights = rights.parse().map_err(ValueError::from)?;
        let (credential, volume) = (name(credential)?, name(volume)?);
        if matches!(covers, Covered::Files(_)) && !self.owns_files_of(&volume) {
            return Err(GrantError::NoFiles(volume).into());
        }
        let expires = expires_at.map(UnixTime);
        let grant = self.change_grants(|grants, space| {
            let found = space.volume(&volume).filter(|volume| volume.home.is_public());
            let volume = found.ok_or(VolumeError::NotFound(volume))?;
            let holder = Holder::Credential(credential);
            let asked = GrantRequest { holder, covers, rights, expires };
            let made = grants.add(asked, volume, now())?;
            Ok(grant_info(made, space, now()))
        })?;
        tracing::debug!(
            grant = grant.number,
            credential = grant.credential,
            volume = grant.volume,
            "grant added"
        );
        Ok(grant)
    }

    fn owns_files_of(&self, volume: &Name) -> bool {
        let served = self.served();
        let files = served.recorded.files.as_ref();
        files.is_some_and(|files| files.volumes.contains(volume))
    }

    /// Mints a seal, under a key of its own. The grant is the key: without it, the seal is void.
    pub(super) fn grant_seal(
        &self,
        volume: &str,
        range: GrantRange,
        rights: &str,
        expires_at: u64,
    ) -> Result<NewSeal, NodeError> {
        let rights = rights.parse().map_err(ValueError::from)?;
        let volume = name(volume)?;
        let secret = fresh_secret()?;
        let (grant, token) = self.change_grants(|grants, space| {
            let found = space.volume(&volume).filter(|volume| volume.home.is_public());
            let volume = found.ok_or(VolumeError::NotFound(volume))?;
            let (holder, expires) = (Holder::Seal(secret.clone()), Some(UnixTime(expires_at)));
            let covers = Covered::Range(range);
            let made =
                grants.add(GrantRequest { holder, covers, rights, expires }, volume, now())?;
            Ok((grant_info(made, space, now()), token(made, &secret)))
        })?;
        tracing::debug!(grant = grant.number, volume = grant.volume, "seal minted");
        Ok(NewSeal { grant, token: SecretText(token.to_string()) })
    }

    pub(super) fn grant_list(&self, credential: Option<&str>) -> Result<Vec<GrantInfo>, NodeError> {
        let credential = credential.map(name).transpose()?;
        let Records { space, grants, .. } = &self.served().recorded;
        let is_meant =
            |grant: &&Grant| credential.as_ref().is_none_or(|id| grant.credential() == Some(id));
        let grants = grants.grants().filter(is_meant);
        Ok(grants.map(|grant| grant_info(grant, space, now())).collect())
    }

    pub(super) fn grant_revoke(&self, number: u64) -> Result<GrantInfo, NodeError> {
        let grant = self.change_grants(|grants, space| {
            let revoked = grants.revoke(GrantNumber(number))?;
            Ok(grant_info(&revoked, space, now()))
        })?;
        tracing::debug!(grant = grant.number, credential = grant.credential, "grant revoked");
        Ok(grant)
    }

    /// Makes a change on a copy; if that succeeds, records it and publishes it to the cores.
    fn change_grants<T>(
        &self,
        change: impl FnOnce(&mut Grants, &Space) -> Result<T, NodeError>,
    ) -> Result<T, NodeError> {
        let one = self.one_change_of_a_caller()?;
        let mut fresh = self.copy();
        let changed = change(&mut fresh.grants, &fresh.space)?;
        self.record(&mut fresh)?;
        let direct = Arc::new(direct_access(&fresh, now()));
        let shown = Some(Arc::clone(&direct));
        let ticket = self.runtime.serve(Update { direct: shown, ..Update::default() });
        self.show(fresh, direct);
        drop(one);
        self.wait_for(&ticket)?;
        if !self.end_earlier_rights_on_files() {
            return Err(NodeError::NotQuiesced);
        }
        Ok(changed)
    }

    /// Calls on files have the rights of the time at which they arrive, some wait for a thread, and some
    /// give seals. Returns `false` if some take too long.
    pub(super) fn end_earlier_rights_on_files(&self) -> bool {
        self.files.get().is_none_or(|owner| owner.end_earlier_rights(PATIENCE))
    }
}

/// The token of a grant whose holder is a seal.
fn token(grant: &Grant, secret: &Secret) -> SealToken {
    let Covered::Range(range) = &grant.covers else { unreachable!("a seal covers bytes") };
    let (start, end) = (range.start().0, range.end().map_or(u64::MAX, |end| end.0));
    let rights = match grant.rights {
        Rights::Read => wire::Rights::READ,
        Rights::ReadWrite => wire::Rights::READ_WRITE,
    };
    let terms = SealTerms {
        object: grant.number.0,
        uuid: uuid::Uuid::new_v4().into_bytes(),
        version: 1,
        rights,
        good_until: u64::MAX,
        runs: [Run { start, len: end - start }].into(),
    };
    let key = SealKey::of_operator(
        grant.number.0,
        &nearflash_direct::Secret::new(*secret.bytes()),
        *grant.volume.as_bytes(),
    );
    SealToken::mint(&key, terms, u64::MAX).expect("the grant is whole blocks")
}

/// The part of a volume of a request.
pub(super) fn covered(
    path: Option<&str>,
    start: u64,
    end: Option<u64>,
) -> Result<Covered, ValueError> {
    match path {
        None => Ok(Covered::Range(range(start, end)?)),
        Some(path) if start == 0 && end.is_none() => Ok(Covered::Files(path.parse()?)),
        Some(_) => Err(ValueError::PathAndRange),
    }
}

/// The range of a request.
pub(super) fn range(start: u64, end: Option<u64>) -> Result<GrantRange, ValueError> {
    Ok(GrantRange::new(ByteOffset(start), end.map(ByteOffset))?)
}

fn name(text: &str) -> Result<Name, ValueError> {
    text.parse().map_err(ValueError::from)
}

fn fresh_secret() -> Result<Secret, NodeError> {
    let mut bytes = zeroize::Zeroizing::new([0; SECRET_LEN]);
    fill_random(bytes.as_mut_slice())?;
    Ok(Secret::new(*bytes))
}

/// Fills the buffer with random bytes from the kernel.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<(), NodeError> {
    let mut filled = 0;
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        let count = rustix::rand::getrandom(&mut bytes[filled..], flags);
        let failed = |errno: rustix::io::Errno| NodeError::System {
            action: "generate a secret",
            source: errno.into(),
        };
        filled += count.map_err(failed)?;
    }
    Ok(())
}

fn credential_info(credential: &Credential, grants: &Grants, now: UnixTime) -> CredentialInfo {
    CredentialInfo {
        id: credential.id.to_string(),
        expires_at: credential.expires.map(|at| at.0),
        expired: is_expired(credential.expires, now),
        grants: grants.grants_of(&credential.id).count(),
    }
}

fn grant_info(grant: &Grant, space: &Space, now: UnixTime) -> GrantInfo {
    let volume = space.volumes().find(|volume| volume.uuid == grant.volume);
    let (path, range) = match &grant.covers {
        Covered::Range(range) => (None, *range),
        Covered::Files(path) => (Some(path.to_string()), GrantRange::WHOLE),
    };
    GrantInfo {
        number: grant.number.0,
        credential: grant.credential().map(Name::to_string).unwrap_or_default(),
        seal: grant.credential().is_none(),
        // A grant on a volume is deleted with the volume.
        volume: volume.map(|volume| volume.name.to_string()).unwrap_or_default(),
        path,
        start: range.start().0,
        end: range.end().map(|end| end.0),
        rights: grant.rights.to_string(),
        expires_at: grant.expires.map(|at| at.0),
        expired: is_expired(grant.expires, now),
    }
}
