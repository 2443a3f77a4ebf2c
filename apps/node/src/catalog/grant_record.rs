//! The catalog's records of credentials and of grants. The names and meanings of these fields are
//! permanent; a field that a later version adds has a default.

use nearflash_access::{
    Covered, Credential, Grant, GrantNumber, GrantRange, Holder, Rights, Secret, UnixTime,
};
use nearflash_space::Name;
use nearflash_units::ByteOffset;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use zeroize::ZeroizeOnDrop;

/// A credential. Its `Debug` output hides the secret.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize, ZeroizeOnDrop)]
#[serde(deny_unknown_fields)]
pub(super) struct CredentialRecord {
    /// 64 hexadecimal digits.
    secret: String,
    /// Seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
}

/// A grant. Its `Debug` output hides the secret.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize, ZeroizeOnDrop)]
#[serde(deny_unknown_fields)]
pub(super) struct GrantRecord {
    /// Absent if the holder is a seal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    credential: String,
    /// Of the seal's key: 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seal: Option<String>,
    /// The UUID of the volume.
    #[zeroize(skip)]
    volume: Uuid,
    /// The directory of the files, if the grant is on files. A version that does not know this field
    /// refuses the record, and does not grant all bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// 0 with a path, and without an end.
    start: u64,
    /// The first byte after the range; absent when the range reaches the volume's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<u64>,
    /// `r` or `rw`.
    rights: String,
    /// Seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
}

impl std::fmt::Debug for CredentialRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { secret: _, expires_at } = self;
        f.debug_struct("CredentialRecord").field("expires_at", expires_at).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for GrantRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GrantRecord")
            .field("credential", &self.credential)
            .field("volume", &self.volume)
            .finish_non_exhaustive()
    }
}

impl CredentialRecord {
    pub(super) fn of(credential: &Credential) -> Self {
        let expires_at = credential.expires.map(|at| at.0);
        Self { secret: credential.secret.to_hex(), expires_at }
    }

    /// The credential; `None` when a field holds a value that no version writes.
    pub(super) fn credential(&self, id: &Name) -> Option<Credential> {
        let secret: Secret = self.secret.parse().ok()?;
        Some(Credential { id: id.clone(), secret, expires: self.expires_at.map(UnixTime) })
    }
}

impl GrantRecord {
    pub(super) fn of(grant: &Grant) -> Self {
        let (credential, seal) = match &grant.holder {
            Holder::Credential(id) => (id.to_string(), None),
            Holder::Seal(secret) => (String::new(), Some(secret.to_hex())),
        };
        let (path, range) = match &grant.covers {
            Covered::Range(range) => (None, *range),
            Covered::Files(path) => (Some(path.to_string()), GrantRange::WHOLE),
        };
        Self {
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

    /// The grant with this number; `None` when a field holds a value that no version writes.
    pub(super) fn grant(&self, number: &Name) -> Option<Grant> {
        let rights: Rights = self.rights.parse().ok()?;
        let holder = match &self.seal {
            None => Holder::Credential(self.credential.parse().ok()?),
            Some(secret) => Holder::Seal(secret.parse().ok()?),
        };
        let range = GrantRange::new(ByteOffset(self.start), self.end.map(ByteOffset)).ok()?;
        let covers = match &self.path {
            None => Covered::Range(range),
            Some(path) if range == GrantRange::WHOLE && self.seal.is_none() => {
                Covered::Files(path.parse().ok()?)
            }
            Some(_) => return None,
        };
        Some(Grant {
            number: GrantNumber(number.as_str().parse().ok()?),
            holder,
            volume: self.volume,
            covers,
            rights,
            expires: self.expires_at.map(UnixTime),
        })
    }
}
