//! All credentials and grants of a node, and the rules for changing them.
//!
//! A caller changes a copy, records it durably, and only then publishes it to the cores, as with a
//! change of [`nearflash_space::Space`].
//!
//! Invariants: a grant's credential exists; no two grants have the same number; there are at most
//! [`CREDENTIALS_MAX`] credentials and [`GRANTS_MAX`] grants.

use std::collections::BTreeMap;

use nearflash_units::ByteLen;
use uuid::Uuid;

use nearflash_space::{Name, Volume};

use crate::{Credential, Grant, GrantNumber, GrantRange, Rights, Secret, UnixTime};

/// The largest number of credentials of a node, expired ones included.
pub const CREDENTIALS_MAX: usize = 1024;

/// The largest number of grants of a node, expired ones included.
pub const GRANTS_MAX: usize = 16_384;

/// The parameters of a new grant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GrantRequest {
    /// The key id of the credential.
    pub credential: Name,
    /// The bytes of the volume that the grant covers.
    pub range: GrantRange,
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
            let (number, credential) = (grant.number, grant.credential.clone());
            if !restored.credentials.contains_key(&credential) {
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
        self.grants.values().filter(move |grant| grant.credential == *id)
    }

    /// The last number that was given to a grant.
    pub fn last_number(&self) -> u64 {
        self.last_number
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
        Ok(self.credentials.entry(id.clone()).or_insert(credential))
    }

    /// Removes a credential and all its grants.
    ///
    /// # Errors
    /// When no credential has this key id.
    pub fn remove(&mut self, id: &Name) -> Result<Credential, GrantError> {
        let removed = self.credentials.remove(id);
        let removed = removed.ok_or_else(|| GrantError::NoCredential(id.clone()))?;
        self.grants.retain(|_, grant| grant.credential != *id);
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
        let GrantRequest { credential, range, rights, expires } = asked;
        if !self.credentials.contains_key(&credential) {
            return Err(GrantError::NoCredential(credential));
        }
        check_expiry(expires, now)?;
        let len = volume.len();
        // A range without an end must have at least its first byte within the volume.
        if range.end().map_or(range.start().0.saturating_add(1), |end| end.0) > len.0 {
            return Err(GrantError::BeyondVolume { volume: volume.name.clone(), len, range });
        }
        if self.grants.len() >= GRANTS_MAX {
            return Err(GrantError::TooManyGrants);
        }
        self.last_number += 1;
        let number = GrantNumber(self.last_number);
        let grant = Grant { number, credential, volume: volume.uuid, range, rights, expires };
        Ok(self.grants.entry(number).or_insert(grant))
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

/// Whether `expires` is at or before `now`. `None` never expires.
pub fn is_expired(expires: Option<UnixTime>, now: UnixTime) -> bool {
    expires.is_some_and(|at| at <= now)
}

fn check_expiry(expires: Option<UnixTime>, now: UnixTime) -> Result<(), GrantError> {
    if is_expired(expires, now) { Err(GrantError::Past) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
