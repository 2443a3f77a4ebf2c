//! Tokens: a seal and its bearer as one text, which a URL carries.

use std::fmt;
use std::str::FromStr;

use super::bearer::{Bearer, BearerId};
use super::{SALT_LEN, SEAL_LEN_MAX, Seal, SealError, SealKey, SealTerms};
use crate::secret::{SECRET_LEN, Secret};

/// The bytes before the seal: the last second of the bearer, and its secret.
const PREFIX_LEN: usize = 8 + SECRET_LEN;

/// A seal and the bearer of its key: all that a client needs to use the object. As text, it is hexadecimal
/// digits, so it needs no quoting. Who reads it has the rights of the seal.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SealToken {
    seal: Seal,
    bearer: Bearer,
}

impl SealToken {
    /// Mints a seal, and makes the bearer with which a client can enter until this second of the node.
    ///
    /// # Errors
    /// When the terms are not those of any seal.
    pub fn mint(key: &SealKey, terms: SealTerms, until: u64) -> Result<Self, SealError> {
        Ok(Self { seal: key.mint(terms)?, bearer: key.bearer(until) })
    }

    /// The seal.
    pub const fn seal(&self) -> &Seal {
        &self.seal
    }

    /// The bearer.
    pub const fn bearer(&self) -> &Bearer {
        &self.bearer
    }
}

impl fmt::Display for SealToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seal, bearer } = self;
        let parts = [&bearer.id.until.to_le_bytes()[..], bearer.secret.bytes(), &seal.encode()];
        parts.concat().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for SealToken {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        if text.len() > 2 * (PREFIX_LEN + SEAL_LEN_MAX) || !text.len().is_multiple_of(2) {
            return Err(TokenError);
        }
        let digit = |digit: &u8| char::from(*digit).to_digit(16);
        let byte = |pair: &[u8]| u8::try_from(digit(&pair[0])? << 4 | digit(&pair[1])?).ok();
        let bytes: Option<Vec<u8>> = text.as_bytes().chunks_exact(2).map(byte).collect();
        let bytes = bytes.ok_or(TokenError)?;
        let (until, rest) = bytes.split_first_chunk().ok_or(TokenError)?;
        let (secret, seal) = rest.split_first_chunk::<SECRET_LEN>().ok_or(TokenError)?;
        let seal = Seal::decode(seal).map_err(|_| TokenError)?;
        let id = BearerId {
            generation: seal.generation,
            until: u64::from_le_bytes(*until),
            volume: seal.volume,
            minter: seal.minter.clone(),
        };
        Ok(Self { seal, bearer: Bearer { id, secret: Secret::new(*secret) } })
    }
}

/// Error: the text is not the token of any seal. It is not repeated, since it may be most of one.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the seal is not a token as 'nearflash grant seal' prints it: copy the whole URL")]
pub struct TokenError;

/// The name of the minter of an operator's seal, of which the node keeps the key under this number.
pub fn operator_name(number: u64) -> Box<str> {
    format!("~{number}").into()
}

/// Whether the minter is an operator: `~` and a number. No credential has such a name, and no part of a node
/// that mints seals, whose names have letters.
pub(crate) fn is_operator(minter: &str) -> bool {
    let number = minter.strip_prefix('~').filter(|number| !number.is_empty());
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

impl SealKey {
    /// The key of an operator's seals. It stays the same when the node starts again, and ends when the node
    /// forgets its secret.
    pub fn of_operator(number: u64, secret: &Secret, volume: [u8; 16]) -> Self {
        Self::derive(Some((&operator_name(number), secret)), 1, volume, [0; SALT_LEN])
    }
}

#[cfg(test)]
mod tests {
    use super::super::Run;
    use super::*;
    use crate::wire::Rights;

    fn token() -> SealToken {
        let key = SealKey::of_operator(12, &Secret::new([7; 32]), [9; 16]);
        let terms = SealTerms {
            object: 12,
            uuid: [3; 16],
            version: 1,
            rights: Rights::READ,
            good_until: u64::MAX,
            runs: [Run { start: 4096, len: 8192 }].into(),
        };
        SealToken::mint(&key, terms, u64::MAX).unwrap()
    }

    #[test]
    fn a_minter_is_an_operator_only_if_its_name_is_a_number() {
        assert!(is_operator(&operator_name(0)) && is_operator(&operator_name(u64::MAX)));
        for name in ["", "~", "1", "~files", "~1a", "~-1", "~1 "] {
            assert!(!is_operator(name), "{name}");
        }
    }

    #[test]
    fn a_token_is_read_as_it_was_printed() {
        let text = token().to_string();
        assert!(text.bytes().all(|byte| byte.is_ascii_hexdigit()), "{text}");
        assert_eq!(text.parse(), Ok(token()));
        assert_eq!(text.to_uppercase().parse(), Ok(token()));
        assert!(token().bearer().id().ends_with(".~12"));
    }

    #[test]
    fn a_text_that_was_cut_or_changed_is_not_a_token_and_is_not_repeated() {
        let text = token().to_string();
        for len in 0..text.len() {
            let error = text[..len].parse::<SealToken>().unwrap_err().to_string();
            assert!(error.contains("copy the whole URL") && !error.contains("0000"), "{error}");
        }
        for other in [format!("{text}00"), text.replacen('7', "g", 1), format!("é{text}")] {
            assert_eq!(other.parse::<SealToken>(), Err(TokenError), "{other}");
        }
    }
}
