//! All credentials and grants of a node, and the rules for changing them.
//!
//! A change is made on a copy, recorded durably, and only then shown to the cores, like one of
//! [`crate::Space`].
//!
//! Invariants: a grant's credential exists; no number is given twice; there are never more of
//! either than the bounds here say.

use std::collections::BTreeMap;

use nearflash_units::ByteLen;
use uuid::Uuid;

use nearflash_space::{Name, Volume};

use crate::{Credential, Grant, GrantNumber, GrantRange, Rights, Secret, UnixTime};

/// Most credentials that a node has at a time, expired ones included.
pub const CREDENTIALS_MAX: usize = 1024;

/// Most grants that a node has at a time, expired ones included.
pub const GRANTS_MAX: usize = 16_384;

/// A grant that is asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GrantRequest {
    /// To whom.
    pub credential: Name,
    /// On which bytes.
    pub range: GrantRange,
    /// To do what.
    pub rights: Rights,
    /// Until when.
    pub expires: Option<UnixTime>,
}

/// Why a credential or a grant cannot be made or taken away.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum GrantError {
    /// The key id is taken.
    #[error("credential '{id}' exists already: choose another name, or remove it first")]
    CredentialExists {
        /// Which.
        id: Name,
    },
    /// There is no such credential.
    #[error("no credential '{id}': 'nearflash credential list' names all")]
    NoCredential {
        /// Which.
        id: Name,
    },
    /// There is no such grant.
    #[error("no grant {}: 'nearflash grant list' numbers all", number.0)]
    NoGrant {
        /// Which.
        number: GrantNumber,
    },
    /// It would have ended before it began.
    #[error("it would have expired already: give a time that is to come")]
    Past,
    /// The range goes further than the volume.
    #[error(
        "volume '{volume}' has {len}, the range {range} goes further: write {}.. for all to its \
         end, also when it grows", range.start().0
    )]
    BeyondVolume {
        /// Which volume.
        volume: Name,
        /// Its size.
        len: ByteLen,
        /// The range asked for.
        range: GrantRange,
    },
    /// There are [`CREDENTIALS_MAX`].
    #[error("1024 credentials are the most: remove one first")]
    TooManyCredentials,
    /// There are [`GRANTS_MAX`].
    #[error("16384 grants are the most: revoke one first")]
    TooManyGrants,
}

/// Why recorded grants do not fit their credentials: the record is damaged.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RestoreGrantsError {
    /// A grant's credential is not recorded.
    #[error("grant {} is for '{credential}', which is no credential", number.0)]
    NoCredential {
        /// Which grant.
        number: GrantNumber,
        /// Whose.
        credential: Name,
    },
    /// A number that was not given yet, or twice.
    #[error("grant {} has a number that was never given", number.0)]
    Number {
        /// Which grant.
        number: GrantNumber,
    },
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
    /// What was recorded, the last number given included.
    ///
    /// # Errors
    /// When it does not fit together.
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
                return Err(RestoreGrantsError::Number { number });
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

    /// Makes a credential. It may do nothing until it is granted something.
    ///
    /// # Errors
    /// When it cannot be. Nothing has changed then.
    pub fn create(
        &mut self,
        id: &Name,
        secret: Secret,
        expires: Option<UnixTime>,
        now: UnixTime,
    ) -> Result<&Credential, GrantError> {
        if self.credentials.contains_key(id) {
            return Err(GrantError::CredentialExists { id: id.clone() });
        }
        check_expiry(expires, now)?;
        if self.credentials.len() >= CREDENTIALS_MAX {
            return Err(GrantError::TooManyCredentials);
        }
        let credential = Credential { id: id.clone(), secret, expires };
        Ok(self.credentials.entry(id.clone()).or_insert(credential))
    }

    /// Removes a credential and every grant of it.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn remove(&mut self, id: &Name) -> Result<Credential, GrantError> {
        let removed = self.credentials.remove(id);
        let removed = removed.ok_or_else(|| GrantError::NoCredential { id: id.clone() })?;
        self.grants.retain(|_, grant| grant.credential != *id);
        Ok(removed)
    }

    /// Grants something on a volume.
    ///
    /// # Errors
    /// When it cannot be. Nothing has changed then.
    pub fn add(
        &mut self,
        asked: GrantRequest,
        volume: &Volume,
        now: UnixTime,
    ) -> Result<&Grant, GrantError> {
        let GrantRequest { credential, range, rights, expires } = asked;
        if !self.credentials.contains_key(&credential) {
            return Err(GrantError::NoCredential { id: credential });
        }
        check_expiry(expires, now)?;
        let len = volume.len();
        // Without an end, at least its first byte is there.
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

    /// Takes a grant away.
    ///
    /// # Errors
    /// When there is none of that number.
    pub fn revoke(&mut self, number: GrantNumber) -> Result<Grant, GrantError> {
        self.grants.remove(&number).ok_or(GrantError::NoGrant { number })
    }

    /// Forgets what was granted on volumes that are no more.
    pub fn keep_those_on(&mut self, is_there: impl Fn(Uuid) -> bool) {
        self.grants.retain(|_, grant| is_there(grant.volume));
    }

    /// When the next credential or grant ends that has not yet.
    pub fn next_expiry(&self, now: UnixTime) -> Option<UnixTime> {
        let credentials = self.credentials.values().filter_map(|credential| credential.expires);
        let grants = self.grants.values().filter_map(|grant| grant.expires);
        credentials.chain(grants).filter(|at| *at > now).min()
    }
}

/// Whether what ends at `expires` has ended.
pub fn is_expired(expires: Option<UnixTime>, now: UnixTime) -> bool {
    expires.is_some_and(|at| at <= now)
}

fn check_expiry(expires: Option<UnixTime>, now: UnixTime) -> Result<(), GrantError> {
    if is_expired(expires, now) { Err(GrantError::Past) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
