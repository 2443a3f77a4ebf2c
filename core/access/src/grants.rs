//! All credentials and grants of a node, and the rules for changing them.
//!
//! A caller changes a copy, records it durably, and only then publishes it to the cores, as with a
//! change of [`nearflash_space::Space`].
//!
//! Invariants: a grant's credential exists; no two grants have the same number; there are at most
//! [`CREDENTIALS_MAX`] credentials and [`GRANTS_MAX`] grants.

use std::collections::BTreeMap;

use nearflash_units::{ByteLen, ByteOffset};
use uuid::Uuid;

use nearflash_space::{Home, Name, Volume};

use crate::{
    Covered, Credential, Grant, GrantNumber, GrantPath, GrantRange, Holder, Rights, Secret,
    UnixTime,
};

/// The largest number of credentials of a node, expired ones included.
pub const CREDENTIALS_MAX: usize = 1024;

/// The largest number of grants of a node, expired ones included.
pub const GRANTS_MAX: usize = 16_384;

/// The longest life of a grant whose holder is a seal, in seconds.
pub const SEAL_LIFE_MAX: u64 = 24 * 60 * 60;

/// The parameters of a new grant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GrantRequest {
    /// Who is to have the rights.
    pub holder: Holder,
    /// The part of the volume that the grant covers.
    pub covers: Covered,
    /// The operations that the grant allows.
    pub rights: Rights,
    /// The moment at which the grant expires; `None`: never.
    pub expires: Option<UnixTime>,
}

/// Error: a credential or a grant cannot be created or removed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum GrantError {
    /// The key id is taken.
    #[error("credential '{0}' exists already: choose another name, or remove it first")]
    CredentialExists(Name),
    /// There is no such credential.
    #[error("no credential '{0}': 'nearflash credential list' lists them")]
    NoCredential(Name),
    /// There is no such grant.
    #[error("no grant {}: 'nearflash grant list' lists them", .0.0)]
    NoGrant(GrantNumber),
    /// The given expiry is not in the future.
    #[error("the expiry is in the past: give a later time")]
    Past,
    /// The range extends past the end of the volume.
    #[error(
        "volume '{volume}' has {len}, and the range {range} exceeds it: write {}.. for everything \
         up to its end, even after it grows", range.start().0
    )]
    BeyondVolume { volume: Name, len: ByteLen, range: GrantRange },
    /// A seal has whole blocks.
    #[error(
        "the range {range} is not whole blocks of volume '{volume}': a seal begins and ends at \
         multiples of {block_len} bytes"
    )]
    PartOfBlock { volume: Name, range: GrantRange, block_len: u32 },
    /// A seal that lives forever, or for too long.
    #[error("a seal expires after 24 hours at most: give a shorter time")]
    SealLife,
    /// The blocks of the volume lie on other nodes.
    #[error(
        "volume '{0}' has no seals, because other nodes have its blocks: add a grant to a \
         credential"
    )]
    NoSeals(Name),
    /// A seal covers bytes.
    #[error(
        "a seal has a range of volume '{volume}', and no files: add a grant on {path} to a \
         credential"
    )]
    SealOfFiles { volume: Name, path: GrantPath },
    /// The node does not own the files of the volume.
    #[error(
        "the node does not own the files of volume '{0}', so that no grant has a path of it: start \
         it with --files {0}"
    )]
    NoFiles(Name),
    /// The node already has [`CREDENTIALS_MAX`] credentials.
    #[error("the node has 1024 credentials, the maximum: remove one first")]
    TooManyCredentials,
    /// The node already has [`GRANTS_MAX`] grants.
    #[error("the node has 16384 grants, the maximum: revoke one first")]
    TooManyGrants,
}

/// Error: recorded credentials and grants are inconsistent, because the record is damaged.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum RestoreGrantsError {
    /// A grant's credential is not recorded.
    #[error("grant {} is for the unknown credential '{credential}'", number.0)]
    NoCredential { number: GrantNumber, credential: Name },
    /// Two grants have this number, or it is 0 or above the last number given.
    #[error("grant {} has an invalid number", .0.0)]
    Number(GrantNumber),
}

/// Every credential and every grant of a node.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Grants {
    credentials: BTreeMap<Name, Credential>,
    grants: BTreeMap<GrantNumber, Grant>,
    /// The last number given.
    last_number: u64,
    has_had_credential: bool,
}

impl Grants {
    /// Restores recorded credentials and grants. `last_number` is the last number given.
    ///
    /// # Errors
    /// When a grant names an unknown credential or has an invalid number.
    pub fn restore(
        credentials: Vec<Credential>,
        grants: Vec<Grant>,
        last_number: u64,
    ) -> Result<Self, RestoreGrantsError> {
        let mut restored = Self { last_number, ..Self::default() };
        restored.credentials = credentials.into_iter().map(|c| (c.id.clone(), c)).collect();
        for grant in grants {
            let number = grant.number;
            let known = |id: &&Name| !restored.credentials.contains_key(*id);
            if let Some(credential) = grant.credential().filter(known).cloned() {
                return Err(RestoreGrantsError::NoCredential { number, credential });
            }
            let never_given = number.0 == 0 || number.0 > last_number;
            if never_given || restored.grants.insert(number, grant).is_some() {
                return Err(RestoreGrantsError::Number(number));
            }
        }
        Ok(restored)
    }

    /// Every credential, by key id.
    pub fn credentials(&self) -> impl ExactSizeIterator<Item = &Credential> {
        self.credentials.values()
    }

    /// Every grant, by number.
    pub fn grants(&self) -> impl ExactSizeIterator<Item = &Grant> {
        self.grants.values()
    }

    /// The grants of one credential, by number.
    pub fn grants_of(&self, id: &Name) -> impl Iterator<Item = &Grant> {
        self.grants.values().filter(move |grant| grant.credential() == Some(id))
    }

    /// The last number that was given to a grant.
    pub fn last_number(&self) -> u64 {
        self.last_number
    }

    /// The grants of a node that has had a credential before, or none.
    #[must_use]
    pub fn with_had_credential(self, has_had_credential: bool) -> Self {
        Self { has_had_credential, ..self }
    }

    /// Whether there is a credential, or has been one. From then on, the removal of the last one lets nobody in.
    pub fn has_had_credential(&self) -> bool {
        self.has_had_credential
    }

    /// Creates a credential. It has no rights until a grant gives it some.
    ///
    /// # Errors
    /// When the key id exists, `expires` is past, or there are too many. Then nothing has changed.
    pub fn create(
        &mut self,
        id: &Name,
        secret: Secret,
        expires: Option<UnixTime>,
        now: UnixTime,
    ) -> Result<&Credential, GrantError> {
        if self.credentials.contains_key(id) {
            return Err(GrantError::CredentialExists(id.clone()));
        }
        check_expiry(expires, now)?;
        if self.credentials.len() >= CREDENTIALS_MAX {
            return Err(GrantError::TooManyCredentials);
        }
        let credential = Credential { id: id.clone(), secret, expires };
        self.has_had_credential = true;
        Ok(self.credentials.entry(id.clone()).or_insert(credential))
    }

    /// Removes a credential and all its grants.
    ///
    /// # Errors
    /// When no credential has this key id.
    pub fn remove(&mut self, id: &Name) -> Result<Credential, GrantError> {
        let removed = self.credentials.remove(id);
        let removed = removed.ok_or_else(|| GrantError::NoCredential(id.clone()))?;
        self.grants.retain(|_, grant| grant.credential() != Some(id));
        Ok(removed)
    }

    /// Adds a grant on `volume`.
    ///
    /// # Errors
    /// When one of the conditions of [`GrantError`] holds. Then nothing has changed.
    pub fn add(
        &mut self,
        asked: GrantRequest,
        volume: &Volume,
        now: UnixTime,
    ) -> Result<&Grant, GrantError> {
        let GrantRequest { holder, covers, rights, expires } = asked;
        if let Holder::Credential(id) = &holder
            && !self.credentials.contains_key(id)
        {
            return Err(GrantError::NoCredential(id.clone()));
        }
        check_expiry(expires, now)?;
        if let Covered::Range(range) = &covers {
            check_range(*range, volume)?;
        }
        let covers = match (&holder, covers) {
            (Holder::Seal(_), Covered::Range(range)) => {
                let range = sealed_range(range, volume, expires, now)?;
                self.forget_expired_seals(now);
                Covered::Range(range)
            }
            (Holder::Seal(_), Covered::Files(path)) => {
                return Err(GrantError::SealOfFiles { volume: volume.name.clone(), path });
            }
            (Holder::Credential(_), covers) => covers,
        };
        if self.grants.len() >= GRANTS_MAX {
            return Err(GrantError::TooManyGrants);
        }
        self.last_number += 1;
        let number = GrantNumber(self.last_number);
        let grant = Grant { number, holder, volume: volume.uuid, covers, rights, expires };
        Ok(self.grants.entry(number).or_insert(grant))
    }

    /// Seals are made for single jobs, often by programs, and nobody revokes one that has expired.
    fn forget_expired_seals(&mut self, now: UnixTime) {
        self.grants.retain(|_, it| it.credential().is_some() || !is_expired(it.expires, now));
    }

    /// Removes a grant.
    ///
    /// # Errors
    /// When no grant has this number.
    pub fn revoke(&mut self, number: GrantNumber) -> Result<Grant, GrantError> {
        self.grants.remove(&number).ok_or(GrantError::NoGrant(number))
    }

    /// Removes the grants on volumes for which `is_there` is false.
    pub fn keep_those_on(&mut self, is_there: impl Fn(Uuid) -> bool) {
        self.grants.retain(|_, grant| is_there(grant.volume));
    }

    /// The earliest expiry of a credential or a grant after `now`.
    pub fn next_expiry(&self, now: UnixTime) -> Option<UnixTime> {
        let credentials = self.credentials.values().filter_map(|credential| credential.expires);
        let grants = self.grants.values().filter_map(|grant| grant.expires);
        credentials.chain(grants).filter(|at| *at > now).min()
    }
}

/// The protocols that admit peers without a key, where their addresses do, also after the last key of the protocol
/// was removed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Anonymous {
    /// Direct clients.
    pub direct: bool,
    /// iSCSI initiators.
    pub iscsi: bool,
}

/// Whether `expires` is at or before `now`. `None` never expires.
pub fn is_expired(expires: Option<UnixTime>, now: UnixTime) -> bool {
    expires.is_some_and(|at| at <= now)
}

fn check_expiry(expires: Option<UnixTime>, now: UnixTime) -> Result<(), GrantError> {
    if is_expired(expires, now) { Err(GrantError::Past) } else { Ok(()) }
}

fn check_range(range: GrantRange, volume: &Volume) -> Result<(), GrantError> {
    let len = volume.len();
    // A range without an end must have at least its first byte within the volume.
    if range.end().map_or(range.start().0.saturating_add(1), |end| end.0) > len.0 {
        return Err(GrantError::BeyondVolume { volume: volume.name.clone(), len, range });
    }
    Ok(())
}

/// The range of a seal, in whole blocks. Without an end, it ends with the volume as it is now.
fn sealed_range(
    range: GrantRange,
    volume: &Volume,
    expires: Option<UnixTime>,
    now: UnixTime,
) -> Result<GrantRange, GrantError> {
    if volume.home != Home::Node {
        return Err(GrantError::NoSeals(volume.name.clone()));
    }
    if expires.is_none_or(|at| at.0 > now.0.saturating_add(SEAL_LIFE_MAX)) {
        return Err(GrantError::SealLife);
    }
    let end = range.end().unwrap_or(ByteOffset(volume.len().0));
    let block_len = volume.block_size.bytes();
    let is_whole = |at: ByteOffset| at.0.is_multiple_of(block_len.into());
    if !is_whole(range.start()) || !is_whole(end) {
        return Err(GrantError::PartOfBlock { volume: volume.name.clone(), range, block_len });
    }
    Ok(GrantRange::new(range.start(), Some(end)).expect("the range begins before its end"))
}

#[cfg(test)]
mod tests;
