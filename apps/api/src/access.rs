//! Credentials of direct clients, and their grants.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::SecretText;

/// A credential, without its secret.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct CredentialInfo {
    /// Its key ID.
    pub id: String,
    /// Time of expiry, in seconds since 1970. Absent if it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// Whether it has expired.
    pub expired: bool,
    /// The number of its grants.
    pub grants: usize,
}

/// A grant.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct GrantInfo {
    /// Its number, which is never reused.
    pub number: u64,
    /// The credential that holds this grant; empty if `seal` is true.
    pub credential: String,
    /// Whether its seal gives the grant to everyone who has the seal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub seal: bool,
    /// The volume.
    pub volume: String,
    /// The directory whose files it covers, instead of a range. Absent for a range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The first byte of the range; 0 with a path.
    pub start: u64,
    /// The first byte past the range. Absent when the range ends with the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    /// `r` or `rw`.
    pub rights: String,
    /// Time of expiry, in seconds since 1970. Absent if it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// Whether it has expired.
    pub expired: bool,
}

/// Creates a credential. It has no rights until it has a grant.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CredentialCreate {
    /// Its key ID.
    pub id: String,
    /// Time of expiry, in seconds since 1970; by default it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

/// Lists all credentials.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CredentialList {}

/// Removes a credential and its grants.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CredentialRemove {
    /// Its key ID.
    pub id: String,
}

/// Grants a credential access to a range of a volume, or to files of a volume that the node owns.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantAdd {
    /// The credential.
    pub credential: String,
    /// The volume.
    pub volume: String,
    /// The directory whose files it covers, and those below it, instead of a range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The first byte of the range.
    #[serde(default)]
    pub start: u64,
    /// The first byte past the range; by default the range ends with the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    /// `r` or `rw`.
    #[schema(pattern = "^rw?$")]
    pub rights: String,
    /// Time of expiry, in seconds since 1970; by default it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

/// Mints a seal: a token gives access to a range of a volume, without a credential.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantSeal {
    /// The volume.
    pub volume: String,
    /// The first byte of the range.
    #[serde(default)]
    pub start: u64,
    /// The first byte past the range; by default the present end of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    /// `r` or `rw`.
    #[schema(pattern = "^rw?$")]
    pub rights: String,
    /// Time of expiry, in seconds since 1970: within 24 hours.
    pub expires_at: u64,
}

/// Lists grants.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantList {
    /// The credential; by default all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
}

/// Revokes a grant.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantRevoke {
    /// Its number.
    pub number: u64,
}

/// A new credential, with its secret.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct NewCredential {
    /// The credential.
    pub credential: CredentialInfo,
    /// Its secret. It is not shown again.
    pub secret: SecretText,
    /// The nodes of the cluster that may not serve by the change yet: see `unconfirmed` in the documentation of
    /// access. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unconfirmed: Vec<String>,
}

/// A credential that was removed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct OneCredential {
    /// The credential.
    pub credential: CredentialInfo,
    /// The nodes of the cluster that may not serve by the change yet: see `unconfirmed` in the documentation of
    /// access. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unconfirmed: Vec<String>,
}

/// All credentials.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Credentials {
    /// In the order of their key IDs.
    pub credentials: Vec<CredentialInfo>,
}

/// A grant that was added or revoked.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct OneGrant {
    /// The grant.
    pub grant: GrantInfo,
    /// The nodes of the cluster that may not serve by the change yet: see `unconfirmed` in the documentation of
    /// access. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unconfirmed: Vec<String>,
}

/// A seal that was minted.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct NewSeal {
    /// Its grant. Revoking it voids the seal.
    pub grant: GrantInfo,
    /// The token, for the option `seal` of a URL. It is not shown again.
    pub token: SecretText,
    /// The nodes of the cluster that may not serve by the change yet: see `unconfirmed` in the documentation of
    /// access. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unconfirmed: Vec<String>,
}

/// Grants.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Grants {
    /// In the order of their numbers.
    pub grants: Vec<GrantInfo>,
}
