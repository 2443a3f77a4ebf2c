//! Tokens of the HTTP interface.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::SecretText;

/// The calls that a token permits. Each scope includes the ones before it.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum TokenScope {
    /// Queries.
    Read,
    /// Changes that lose no data and give no rights: volumes and their growth, jobs, devices,
    /// reservations.
    Operate,
    /// All calls.
    Admin,
}

impl TokenScope {
    /// All scopes.
    pub const ALL: [Self; 3] = [Self::Read, Self::Operate, Self::Admin];

    /// The scope's name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for TokenScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is not a scope.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("'{0}' is not a scope: write read, operate or admin")]
pub struct ParseTokenScopeError(pub Box<str>);

impl FromStr for TokenScope {
    type Err = ParseTokenScopeError;

    fn from_str(text: &str) -> Result<Self, ParseTokenScopeError> {
        let scope = Self::ALL.into_iter().find(|scope| scope.as_str() == text);
        scope.ok_or_else(|| ParseTokenScopeError(text.into()))
    }
}

/// A token, without its secret.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct TokenInfo {
    /// Its name.
    pub name: String,
    /// The calls that it permits.
    pub scope: TokenScope,
    /// Time of expiry, in seconds since 1970. Absent if it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// Whether it has expired.
    pub expired: bool,
}

/// Creates a token.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenCreate {
    /// Its name.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
    pub name: String,
    /// The calls that it permits.
    pub scope: TokenScope,
    /// Time of expiry, in seconds since 1970; by default it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

/// Lists all tokens.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenList {}

/// Removes a token. No request that begins later is accepted with it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRemove {
    /// Its name.
    pub name: String,
}

/// A new token, with its secret.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct NewToken {
    /// The token.
    pub token: TokenInfo,
    /// Its secret, for the header `Authorization: Bearer`. It is not shown again.
    pub secret: SecretText,
    /// The nodes of the cluster that may not serve by the change yet: see `unconfirmed` in the documentation of
    /// access. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unconfirmed: Vec<String>,
}

/// A token that was removed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct OneToken {
    /// The token.
    pub token: TokenInfo,
    /// The nodes of the cluster that may not serve by the change yet: see `unconfirmed` in the documentation of
    /// access. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unconfirmed: Vec<String>,
}

/// All tokens.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Tokens {
    /// In the order of their names.
    pub tokens: Vec<TokenInfo>,
}
