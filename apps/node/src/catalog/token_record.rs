//! The catalog's record of a token. The names and meanings of these fields are permanent; a field that a
//! later version adds has a default.

use nearflash_access::UnixTime;
use nearflash_api::TokenScope;
use nearflash_space::Name;
use serde::{Deserialize, Serialize};

use crate::tokens::{Hash, Token};

/// A token, without its secret.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenRecord {
    /// The SHA-256 hash of the secret: 64 hexadecimal digits.
    sha256: String,
    /// `read`, `operate` or `admin`.
    scope: TokenScope,
    /// Seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
}

impl TokenRecord {
    pub(super) fn of(token: &Token) -> Self {
        let sha256 = token.hash.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { sha256, scope: token.scope, expires_at: token.expires.map(|at| at.0) }
    }

    /// The token; `None` when a field holds a value that no version writes.
    pub(super) fn token(&self, name: &Name) -> Option<Token> {
        let (name, hash) = (name.clone(), parse_hash(&self.sha256)?);
        Some(Token { name, hash, scope: self.scope, expires: self.expires_at.map(UnixTime) })
    }
}

fn parse_hash(text: &str) -> Option<Hash> {
    let mut hash = Hash::default();
    if text.len() != 2 * hash.len() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(hash)
}
