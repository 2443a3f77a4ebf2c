//! Credentials of direct clients, and their grants.

use serde::{Deserialize, Serialize};

use crate::SecretText;

/// A credential, without its secret.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct CredentialInfo {
    /// Its key id.
    pub id: String,
    /// When it expires, in seconds since 1970. Absent when it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// It has expired.
    pub expired: bool,
    /// The number of its grants.
    pub grants: usize,
}

/// A grant.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct GrantInfo {
    /// Its number, which is never used again.
    pub number: u64,
    /// The credential that has it.
    pub credential: String,
    /// The volume.
    pub volume: String,
    /// The first byte of the range.
    pub start: u64,
    /// The first byte past the range. Absent when the range ends with the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    /// `r` or `rw`.
    pub rights: String,
    /// When it expires, in seconds since 1970. Absent when it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// It has expired.
    pub expired: bool,
}

/// Creates a credential. It may do nothing until it has a grant.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialCreate {
    /// Its key id.
    pub id: String,
    /// When it expires, in seconds since 1970; never when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

/// Lists all credentials.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialList {}

/// Removes a credential and its grants.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialRemove {
    /// Its key id.
    pub id: String,
}

/// Grants a credential access to a range of a volume.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GrantAdd {
    /// The credential.
    pub credential: String,
    /// The volume.
    pub volume: String,
    /// The first byte of the range.
    #[serde(default)]
    pub start: u64,
    /// The first byte past the range; when absent, the range ends with the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    /// `r` or `rw`.
    pub rights: String,
    /// When it expires, in seconds since 1970; never when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

/// Lists grants.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GrantList {
    /// Only those of this credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
}

/// Revokes a grant.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GrantRevoke {
    /// Its number.
    pub number: u64,
}

/// A new credential, with its secret.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct NewCredential {
    /// The credential.
    pub credential: CredentialInfo,
    /// Its secret. It is not shown again.
    pub secret: SecretText,
}

/// A credential before its removal.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct OneCredential {
    /// The credential.
    pub credential: CredentialInfo,
}

/// All credentials.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Credentials {
    /// In the order of their key ids.
    pub credentials: Vec<CredentialInfo>,
}

/// A new grant, or one before its removal.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct OneGrant {
    /// The grant.
    pub grant: GrantInfo,
}

/// Grants.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Grants {
    /// In the order of their numbers.
    pub grants: Vec<GrantInfo>,
}
