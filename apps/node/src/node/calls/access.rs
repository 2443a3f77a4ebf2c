//! Credentials, grants and seals.

use nearflash_access::{
    Covered, Credential, Grant, GrantNumber, GrantRange, GrantRequest, Grants, Holder, Rights,
    Secret, UnixTime, is_expired,
};
use nearflash_api::{
    ApiError, CredentialCreate, CredentialInfo, CredentialList, CredentialRemove, Credentials,
    GrantAdd, GrantInfo, GrantList, GrantRevoke, GrantSeal, Grants as GrantInfos, NewCredential,
    NewSeal, OneCredential, OneGrant, SecretText, Serve,
};
use nearflash_config::ValueError;
use nearflash_direct::wire::{self, SealKey, SealToken};
use nearflash_direct::{Run, SealTerms};
use nearflash_planner::access::add_grant;
use nearflash_publish::Records;
use nearflash_space::{Name, Space};
use nearflash_units::ByteOffset;

use super::{drawn, parsed};
use crate::error::NodeError;
use crate::node::{Node, now};

impl Serve<CredentialCreate> for Node {
    fn serve(&self, call: CredentialCreate) -> Result<NewCredential, ApiError> {
        let id: Name = parsed(&call.id)?;
        let secret = Secret::new(*drawn()?);
        let text = SecretText(secret.to_hex());
        let expires = call.expires_at.map(UnixTime);
        let (credential, unconfirmed) = self.change_access(|fresh| {
            let made = fresh.grants.create(&id, secret.clone(), expires, now())?.clone();
            Ok(credential_info(&made, &fresh.grants))
        })?;
        tracing::debug!(credential = credential.id, "credential created");
        Ok(NewCredential { credential, secret: text, unconfirmed })
    }
}

impl Serve<CredentialList> for Node {
    fn serve(&self, _: CredentialList) -> Result<Credentials, ApiError> {
        let grants = &self.served().recorded.grants;
        let info = |credential| credential_info(credential, grants);
        Ok(Credentials { credentials: grants.credentials().map(info).collect() })
    }
}

impl Serve<CredentialRemove> for Node {
    fn serve(&self, call: CredentialRemove) -> Result<OneCredential, ApiError> {
        let id: Name = parsed(&call.id)?;
        let (credential, unconfirmed) = self.change_access(|fresh| {
            let had = fresh.grants.grants_of(&id).count();
            let removed = fresh.grants.remove(&id)?;
            Ok(CredentialInfo { grants: had, ..credential_info(&removed, &fresh.grants) })
        })?;
        tracing::debug!(credential = credential.id, "credential removed");
        if !self.served().recorded.closes_direct() {
            tracing::warn!("no credential is left: direct clients enter without one");
        }
        self.report_closed();
        Ok(OneCredential { credential, unconfirmed })
    }
}

impl Serve<GrantAdd> for Node {
    fn serve(&self, call: GrantAdd) -> Result<OneGrant, ApiError> {
        let covers = covered(&call)?;
        let rights = parsed(&call.rights)?;
        let holder = Holder::Credential(parsed(&call.credential)?);
        let volume: Name = parsed(&call.volume)?;
        let owns_files = {
            let served = self.served();
            served.recorded.files.as_ref().is_some_and(|files| files.volumes.contains(&volume))
        };
        let expires = call.expires_at.map(UnixTime);
        let asked = GrantRequest { holder, covers, rights, expires };
        let (grant, unconfirmed) = self.change_access(|Records { grants, space, .. }| {
            let made = add_grant(grants, space, (&volume, owns_files), asked.clone(), now())?;
            Ok(grant_info(&made, space))
        })?;
        tracing::debug!(
            grant = grant.number,
            credential = grant.credential,
            volume = grant.volume,
            "grant added"
        );
        Ok(OneGrant { grant, unconfirmed })
    }
}

impl Serve<GrantSeal> for Node {
    /// Mints a seal, under a key of its own. The grant is the key: without it, the seal is void.
    fn serve(&self, call: GrantSeal) -> Result<NewSeal, ApiError> {
        let covers = Covered::Range(range(call.start, call.end)?);
        let rights = parsed(&call.rights)?;
        let volume: Name = parsed(&call.volume)?;
        let secret = Secret::new(*drawn()?);
        let (holder, expires) = (Holder::Seal(secret.clone()), Some(UnixTime(call.expires_at)));
        let asked = GrantRequest { holder, covers, rights, expires };
        let ((grant, token), unconfirmed) =
            self.change_access(|Records { grants, space, .. }| {
                let made = add_grant(grants, space, (&volume, false), asked.clone(), now())?;
                Ok((grant_info(&made, space), token(&made, &secret)))
            })?;
        tracing::debug!(grant = grant.number, volume = grant.volume, "seal minted");
        Ok(NewSeal { grant, token: SecretText(token.to_string()), unconfirmed })
    }
}

impl Serve<GrantList> for Node {
    fn serve(&self, call: GrantList) -> Result<GrantInfos, ApiError> {
        let credential: Option<Name> = call.credential.as_deref().map(parsed).transpose()?;
        let Records { space, grants, .. } = &self.served().recorded;
        let is_meant =
            |grant: &&Grant| credential.as_ref().is_none_or(|id| grant.credential() == Some(id));
        let grants = grants.grants().filter(is_meant);
        Ok(GrantInfos { grants: grants.map(|grant| grant_info(grant, space)).collect() })
    }
}

impl Serve<GrantRevoke> for Node {
    fn serve(&self, call: GrantRevoke) -> Result<OneGrant, ApiError> {
        let (grant, unconfirmed) = self.change_access(|Records { grants, space, .. }| {
            let revoked = grants.revoke(GrantNumber(call.number))?;
            Ok(grant_info(&revoked, space))
        })?;
        tracing::debug!(grant = grant.number, credential = grant.credential, "grant revoked");
        Ok(OneGrant { grant, unconfirmed })
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
fn covered(call: &GrantAdd) -> Result<Covered, NodeError> {
    match &call.path {
        None => Ok(Covered::Range(range(call.start, call.end)?)),
        Some(path) if call.start == 0 && call.end.is_none() => Ok(Covered::Files(parsed(path)?)),
        Some(_) => Err(ValueError::PathAndRange.into()),
    }
}

fn range(start: u64, end: Option<u64>) -> Result<GrantRange, NodeError> {
    let range = GrantRange::new(ByteOffset(start), end.map(ByteOffset));
    Ok(range.map_err(ValueError::from)?)
}

fn credential_info(credential: &Credential, grants: &Grants) -> CredentialInfo {
    CredentialInfo {
        id: credential.id.to_string(),
        expires_at: credential.expires.map(|at| at.0),
        expired: is_expired(credential.expires, now()),
        grants: grants.grants_of(&credential.id).count(),
    }
}

fn grant_info(grant: &Grant, space: &Space) -> GrantInfo {
    let volume = space.volumes().find(|volume| volume.uuid == grant.volume);
    let (path, range) = match &grant.covers {
        Covered::Range(range) => (None, *range),
        Covered::Files(path) => (Some(path.to_string()), GrantRange::WHOLE),
    };
    GrantInfo {
        number: grant.number.0,
        credential: grant.credential().map(Name::to_string).unwrap_or_default(),
        seal: grant.credential().is_none(),
        // A grant on a volume is deleted with the volume. In a cluster, another node may have the volume.
        volume: volume.map_or_else(|| grant.volume.to_string(), |volume| volume.name.to_string()),
        path,
        start: range.start().0,
        end: range.end().map(|end| end.0),
        rights: grant.rights.to_string(),
        expires_at: grant.expires.map(|at| at.0),
        expired: is_expired(grant.expires, now()),
    }
}
