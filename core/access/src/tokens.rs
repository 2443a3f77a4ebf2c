//! Tokens of the HTTP interface. The node keeps the hash of a token's secret, so that its store gives nobody
//! access. A secret is 256 random bits: a fast hash suffices, since nobody can try them all.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nearflash_records::local::{TokenRecord, TokenScopeRecord};
use nearflash_space::Name;
use nearflash_units::UnixTime;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::grant::SECRET_LEN;
use crate::grants::is_expired;

/// The maximum number of tokens.
pub const TOKENS_MAX: usize = 256;

/// The text that a secret begins with, so that programs which look for leaked secrets find it.
const PREFIX: &str = "nft_";

/// The SHA-256 hash of a secret.
pub type TokenHash = [u8; 32];

/// A token.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Token {
    /// Its name.
    pub name: Name,
    /// The hash of its secret.
    pub hash: TokenHash,
    /// The calls that it permits.
    pub scope: TokenScopeRecord,
    /// The moment from which it permits nothing; `None`: it does not expire.
    pub expires: Option<UnixTime>,
}

impl Token {
    /// The hash of a secret's text.
    pub fn hash_of(secret: &str) -> TokenHash {
        Sha256::digest(secret.as_bytes()).into()
    }

    /// The text of a secret.
    pub fn text_of(secret: &[u8; SECRET_LEN]) -> Zeroizing<String> {
        // One allocation: growing the string would leave parts of the secret in freed memory.
        let mut text = Zeroizing::new(String::with_capacity(PREFIX.len() + 2 * SECRET_LEN));
        text.push_str(PREFIX);
        URL_SAFE_NO_PAD.encode_string(secret, &mut text);
        text
    }

    /// Its record.
    pub fn record(&self) -> TokenRecord {
        let sha256 = self.hash.iter().map(|byte| format!("{byte:02x}")).collect();
        TokenRecord { sha256, scope: self.scope, expires_at: self.expires.map(|at| at.0) }
    }

    /// The token of a record; `None` when a field holds a value that no version writes.
    pub fn recorded(name: &Name, record: &TokenRecord) -> Option<Self> {
        let (name, hash) = (name.clone(), parse_hash(&record.sha256)?);
        Some(Self { name, hash, scope: record.scope, expires: record.expires_at.map(UnixTime) })
    }
}

fn parse_hash(text: &str) -> Option<TokenHash> {
    let mut hash = TokenHash::default();
    if text.len() != 2 * hash.len() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(hash)
}

/// A token cannot be created or removed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TokenError {
    /// The name is taken.
    #[error("token '{0}' exists already: choose another name, or remove it first")]
    Exists(Name),
    /// No token has the name.
    #[error("no token '{0}': 'nearflash token list' lists them")]
    NotFound(Name),
    /// The token would be of no use.
    #[error("the time of expiry has passed: choose a later one")]
    Past,
    /// There are too many.
    #[error("there are {TOKENS_MAX} tokens, which is the limit: remove one")]
    TooMany,
}

/// All tokens, by unique names.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Tokens(BTreeMap<Name, Token>);

impl Tokens {
    /// Restores recorded tokens.
    pub fn restore(tokens: impl IntoIterator<Item = Token>) -> Self {
        Self(tokens.into_iter().map(|token| (token.name.clone(), token)).collect())
    }

    /// In the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Token> {
        self.0.values()
    }

    /// Adds a token.
    ///
    /// # Errors
    /// When its name is taken, it has expired, or there are too many. Then nothing has changed.
    pub fn add(&mut self, token: Token, now: UnixTime) -> Result<(), TokenError> {
        if self.0.contains_key(&token.name) {
            return Err(TokenError::Exists(token.name));
        }
        if is_expired(token.expires, now) {
            return Err(TokenError::Past);
        }
        if self.0.len() >= TOKENS_MAX {
            return Err(TokenError::TooMany);
        }
        self.0.insert(token.name.clone(), token);
        Ok(())
    }

    /// Removes a token.
    ///
    /// # Errors
    /// When no token has this name.
    pub fn remove(&mut self, name: &Name) -> Result<Token, TokenError> {
        self.0.remove(name).ok_or_else(|| TokenError::NotFound(name.clone()))
    }

    /// The token with this secret. Every token is compared, each in constant time, so that the time tells
    /// nothing of the hashes.
    pub fn find(&self, secret: &str, now: UnixTime) -> Option<&Token> {
        let hash = Token::hash_of(secret);
        let mut found = None;
        for token in self.0.values() {
            if bool::from(token.hash.ct_eq(&hash)) {
                found = Some(token);
            }
        }
        found.filter(|token| !is_expired(token.expires, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime(1_000);

    fn token(name: &str, secret: &str, expires: Option<u64>) -> Token {
        let (name, hash) = (name.parse().unwrap(), Token::hash_of(secret));
        Token { name, hash, scope: TokenScopeRecord::Read, expires: expires.map(UnixTime) }
    }

    #[test]
    fn a_token_is_found_by_its_secret_alone_and_until_it_expires() {
        let mut tokens = Tokens::default();
        let secret = Token::text_of(&[7; SECRET_LEN]);
        assert!(secret.starts_with(PREFIX) && secret.len() == PREFIX.len() + 43, "{}", *secret);
        tokens.add(token("a", &secret, Some(1_001)), NOW).unwrap();
        tokens.add(token("b", "other", None), NOW).unwrap();
        let found =
            |secret: &str, now| tokens.find(secret, UnixTime(now)).map(|it| it.name.as_str());
        assert_eq!(found(&secret, 1_000), Some("a"));
        assert_eq!(found(&secret, 1_001), None);
        assert_eq!(found("other", u64::MAX), Some("b"));
        assert_eq!(found("", 0), None);
        assert_eq!(found("a", 0), None);
    }

    #[test]
    fn a_name_is_taken_once_and_the_number_has_a_limit() {
        let mut tokens = Tokens::default();
        let past = tokens.add(token("a", "1", Some(1_000)), NOW);
        assert_eq!(past, Err(TokenError::Past));
        for number in 0..TOKENS_MAX {
            tokens.add(token(&format!("t{number}"), "1", None), NOW).unwrap();
        }
        let name: Name = "t0".parse().unwrap();
        let twice = tokens.add(token("t0", "2", None), NOW);
        assert_eq!(twice, Err(TokenError::Exists(name.clone())));
        assert_eq!(tokens.add(token("more", "3", None), NOW), Err(TokenError::TooMany));
        assert_eq!(tokens.remove(&name).unwrap().name, name);
        assert_eq!(tokens.remove(&name), Err(TokenError::NotFound(name)));
        tokens.add(token("more", "3", None), NOW).unwrap();
    }
}
