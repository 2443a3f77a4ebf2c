//! The records of access rights. Their `Debug` output hides the secrets.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use zeroize::ZeroizeOnDrop;

/// A credential. Its `Debug` output hides the secret.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize, ZeroizeOnDrop)]
#[serde(deny_unknown_fields)]
pub struct CredentialRecord {
    /// 64 hexadecimal digits.
    pub secret: String,
    /// Seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

impl fmt::Debug for CredentialRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { secret: _, expires_at } = self;
        f.debug_struct("CredentialRecord").field("expires_at", expires_at).finish_non_exhaustive()
    }
}

/// A grant. Its `Debug` output hides the secret.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize, ZeroizeOnDrop)]
#[serde(deny_unknown_fields)]
pub struct GrantRecord {
    /// Absent if the holder is a seal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub credential: String,
    /// Of the seal's key: 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<String>,
    /// The UUID of the volume.
    #[zeroize(skip)]
    pub volume: Uuid,
    /// The directory of the files, if the grant is on files. A version that does not know this field
    /// refuses the record, and does not grant all bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// 0 with a path, and without an end.
    pub start: u64,
    /// The first byte after the range; absent when the range reaches the volume's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    /// `r` or `rw`.
    pub rights: String,
    /// Seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

impl fmt::Debug for GrantRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrantRecord")
            .field("credential", &self.credential)
            .field("volume", &self.volume)
            .finish_non_exhaustive()
    }
}

/// An account. Its `Debug` output hides the secrets.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize, ZeroizeOnDrop)]
#[serde(deny_unknown_fields)]
pub struct ChapRecord {
    /// The secret of the initiator.
    pub secret: String,
    /// The name and the secret of the node. A record has both or neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual_user: Option<String>,
    /// See `mutual_user`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual_secret: Option<String>,
    /// The names of the initiators that may use it; absent for every name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub initiators: Vec<String>,
}

impl fmt::Debug for ChapRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChapRecord").field("mutual_user", &self.mutual_user).finish_non_exhaustive()
    }
}

/// The keys of a host. Its `Debug` output hides them.
#[derive(Clone, Default, Deserialize, Eq, PartialEq, Serialize, ZeroizeOnDrop)]
#[serde(deny_unknown_fields)]
pub struct HostRecord {
    /// The host's key for DH-HMAC-CHAP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The key of the controller, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_key: Option<String>,
    /// The key that `key` has replaced, and the time until which it is valid, in seconds since 1970. A record has
    /// both or neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_key: Option<String>,
    /// See `previous_key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_key_until: Option<u64>,
    /// The hash function that the host must use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The Diffie-Hellman group that the host must use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The PSK for TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub psk: Option<String>,
    /// The PSK that `psk` has replaced, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_psk: Option<String>,
    /// See `previous_psk`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_psk_until: Option<u64>,
    /// How the PSK of a connection is derived from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub psk_derivation: Option<String>,
    /// Whether the host must use TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<String>,
    /// The host had keys, which were removed. Then there is no other field.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
}

impl fmt::Debug for HostRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostRecord").finish_non_exhaustive()
    }
}

/// The volumes of a host.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HostVolumesRecord {
    /// The rights, `r` or `rw`, by the UUID of the volume.
    pub volumes: BTreeMap<Uuid, String>,
}

/// A token, without its secret.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRecord {
    /// The SHA-256 hash of the secret: 64 hexadecimal digits.
    pub sha256: String,
    /// `read`, `operate` or `admin`.
    pub scope: TokenScopeRecord,
    /// Seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

/// The calls that a token permits.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenScopeRecord {
    /// Reading.
    Read,
    /// Reading, and changes that a restart undoes.
    Operate,
    /// Everything.
    Admin,
}

impl HostRecord {
    /// The record of a host whose keys were removed.
    pub fn of_removed() -> Self {
        let mut record = Self::default();
        record.removed = true;
        record
    }

    /// Whether the keys of the host were removed.
    pub fn is_removed(&self) -> bool {
        *self == Self::of_removed()
    }
}
