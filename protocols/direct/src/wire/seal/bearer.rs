//! Bearers: how a client that has nothing but a seal enters where proofs are asked for.
//!
//! A bearer is the name of a seal key with an end, and a secret that the key gives. The node derives the same
//! secret from the name, so it stores nothing. The minter hands the bearer over with the seal.

use std::fmt;
use std::str::FromStr;

use hmac::Mac;

use super::super::NAME_LEN_MAX;
use super::{SealKey, keyed};
use crate::secret::{SECRET_LEN, Secret};

/// The time in seconds for which a bearer can be made. It bounds only when a client can enter.
pub const BEARER_GOOD_MAX: u64 = 24 * 60 * 60;

/// Length of the longest name of a bearer in HELLO, in bytes.
pub const BEARER_LEN_MAX: usize = 1 + 10 + 1 + 20 + 1 + 32 + 1 + NAME_LEN_MAX;

/// Begins the name of a bearer. No credential has such a name.
const MARK: char = '~';

/// Precedes the name in the message from which the secret is derived.
const LABEL: &[u8] = b"nearflash direct 1 bearer";

/// The name of a bearer: `~GENERATION.UNTIL.VOLUME.MINTER`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct BearerId {
    pub(crate) generation: u32,
    /// The last second, in the node's time, in which a client can enter.
    pub(crate) until: u64,
    pub(crate) volume: [u8; 16],
    /// Empty for an anonymous minter.
    pub(crate) minter: Box<str>,
}

impl fmt::Display for BearerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { generation, until, volume, minter } = self;
        let volume = u128::from_be_bytes(*volume);
        write!(f, "{MARK}{generation}.{until}.{volume:032x}.{minter}")
    }
}

impl FromStr for BearerId {
    type Err = BearerError;

    fn from_str(text: &str) -> Result<Self, BearerError> {
        let read = || {
            let mut parts = text.strip_prefix(MARK)?.splitn(4, '.');
            let generation = parts.next()?.parse().ok()?;
            let until = parts.next()?.parse().ok()?;
            let volume = u128::from_str_radix(parts.next()?, 16).ok()?.to_be_bytes();
            Some(Self { generation, until, volume, minter: parts.next()?.into() })
        };
        let id = read().filter(|id| id.minter.len() <= NAME_LEN_MAX && id.generation > 0);
        // Each bearer has one name.
        id.filter(|id| id.to_string() == text).ok_or(BearerError)
    }
}

/// The name and the secret with which the holder of a seal enters.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Bearer {
    pub(super) id: BearerId,
    pub(super) secret: Secret,
}

impl Bearer {
    /// Its name in HELLO.
    pub fn id(&self) -> String {
        self.id.to_string()
    }

    /// Its secret, for the proofs.
    pub const fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The bearer as handed over: its secret, and then its name. Who reads it can enter.
    pub fn encode(&self) -> Vec<u8> {
        [self.secret.bytes(), self.id().as_bytes()].concat()
    }

    /// Reads a bearer.
    ///
    /// # Errors
    /// When the bytes are not those of any bearer.
    pub fn decode(bytes: &[u8]) -> Result<Self, BearerError> {
        let (secret, id) = bytes.split_first_chunk::<SECRET_LEN>().ok_or(BearerError)?;
        if id.len() > BEARER_LEN_MAX {
            return Err(BearerError);
        }
        let id = std::str::from_utf8(id).map_err(|_| BearerError)?.parse()?;
        Ok(Self { id, secret: Secret::new(*secret) })
    }
}

impl SealKey {
    /// The bearer with which a client can enter until this second of the node. It can open the seals of this
    /// key, and do nothing else.
    pub fn bearer(&self, until: u64) -> Bearer {
        let Self { minter, generation, volume, .. } = self.clone();
        let id = BearerId { generation, until, volume, minter };
        Bearer { secret: self.bearer_secret(&id), id }
    }

    pub(crate) fn bearer_secret(&self, id: &BearerId) -> Secret {
        let mut mac = keyed(&self.secret);
        mac.update(LABEL);
        mac.update(id.to_string().as_bytes());
        Secret::new(mac.finalize().into_bytes().into())
    }
}

/// Error: the bytes are not those of any bearer.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the bytes are not a bearer: ask the owner of the object for another one")]
pub struct BearerError;

#[cfg(test)]
mod tests {
    use super::super::SALT_LEN;
    use super::*;

    fn key(minter: &str) -> SealKey {
        let secret = Secret::new([7; 32]);
        let minter = Some((minter, &secret)).filter(|(name, _)| !name.is_empty());
        SealKey::derive(minter, 3, [0xAB; 16], [2; SALT_LEN])
    }

    #[test]
    fn a_bearer_is_read_as_it_was_made() {
        for minter in ["", "app", "a.b.c", "~12", &"x".repeat(NAME_LEN_MAX)] {
            let bearer = key(minter).bearer(60);
            assert_eq!(Bearer::decode(&bearer.encode()), Ok(bearer.clone()));
            assert_eq!(bearer.id().parse::<BearerId>(), Ok(bearer.id.clone()));
            assert!(bearer.id().ends_with(&format!(".{minter}")));
        }
        let longest = BearerId {
            generation: u32::MAX,
            until: u64::MAX,
            volume: [0; 16],
            minter: "x".repeat(NAME_LEN_MAX).into(),
        };
        assert_eq!(longest.to_string().len(), BEARER_LEN_MAX);
    }

    #[test]
    fn every_part_of_the_name_changes_the_secret() {
        let id = key("app").bearer(60).id;
        let secret = |id: &BearerId| key("app").bearer_secret(id);
        let same = secret(&id);
        for other in [
            BearerId { until: 61, ..id.clone() },
            BearerId { generation: 4, ..id.clone() },
            BearerId { volume: [0; 16], ..id.clone() },
            BearerId { minter: "bpp".into(), ..id.clone() },
        ] {
            assert!(secret(&other) != same, "{other}");
        }
        assert!(key("bpp").bearer_secret(&id) == same, "the name is in the id, not in the key");
    }

    #[test]
    fn a_bearer_has_one_name() {
        let volume = "ab".repeat(16);
        for text in [
            format!("~03.60.{volume}.app"),
            format!("~3.+60.{volume}.app"),
            format!("~3.60.{}.app", volume.to_uppercase()),
            format!("~3.60.{}.app", &volume[2..]),
            format!("~0.60.{volume}.app"),
            format!("~3.60.{volume}"),
            format!("3.60.{volume}.app"),
            format!("~3.60.{volume}.{}", "x".repeat(NAME_LEN_MAX + 1)),
            String::new(),
        ] {
            assert_eq!(text.parse::<BearerId>(), Err(BearerError), "{text}");
        }
        let bearer = key("app").bearer(60).encode();
        for len in 0..SECRET_LEN + 39 {
            assert_eq!(Bearer::decode(&bearer[..len]), Err(BearerError), "cut to {len} bytes");
        }
    }
}
