//! CHAP: an end proves that it knows a secret, without sending it.
//!
//! Spec: RFC 1994 and RFC 7143, 12.1.3. The response is the hash of the identifier, the secret and
//! the challenge. Identifiers and challenges come from the configuration: this module generates no
//! random numbers.
//!
//! Invariants: secrets are overwritten when dropped and never printed; responses are compared in a
//! time that does not depend on where they differ.

mod account;
mod binary;

use std::fmt;

use md5::digest::Output;
use md5::{Digest, Md5};
use sha2::Sha256;
use zeroize::{Zeroize, ZeroizeOnDrop};

pub use account::{Account, AccountError, Credential};
pub use binary::{BINARY_LEN_MAX, decode, encode};

/// The shortest secret: 96 bits. RFC 7143, 12.1.3.
pub const SECRET_LEN_MIN: usize = 12;
/// The longest.
pub const SECRET_LEN_MAX: usize = 64;
/// The random bytes of a challenge; MD5 uses the first half of them.
pub const CHALLENGE_LEN: usize = 32;

/// A secret that is too short or too long.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a CHAP secret has {SECRET_LEN_MIN} to {SECRET_LEN_MAX} bytes, not {len}")]
pub struct SecretLenError {
    /// Its length in bytes.
    pub len: usize,
}

/// The secret of a CHAP user, known to both ends.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// The secret of these bytes.
    ///
    /// # Errors
    /// When it is too short or too long; the bytes are overwritten then.
    pub fn new(mut bytes: Vec<u8>) -> Result<Self, SecretLenError> {
        let len = bytes.len();
        if (SECRET_LEN_MIN..=SECRET_LEN_MAX).contains(&len) {
            return Ok(Self(bytes));
        }
        bytes.zeroize();
        Err(SecretLenError { len })
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        are_equal(&self.0, &other.0)
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// CHAP_A: the hash of a response. RFC 7143, 12.1.3; IANA, PPP authentication algorithms.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Algorithm {
    /// 5: mandatory for both ends.
    Md5,
    /// 7.
    Sha256,
}

impl Algorithm {
    /// The algorithms that an initiator offers, the preferred one first.
    pub const OFFER: &str = "7,5";

    /// Its number.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Md5 => "5",
            Self::Sha256 => "7",
        }
    }

    /// The algorithm of that number, if it is supported.
    pub fn of(code: &str) -> Option<Self> {
        [Self::Md5, Self::Sha256].into_iter().find(|algorithm| algorithm.code() == code)
    }

    /// The strongest supported algorithm of a list, wherever the initiator has put it.
    pub fn strongest_of(list: &str) -> Option<Self> {
        let has = |wanted| list.split(',').any(|name| Self::of(name) == Some(wanted));
        [Self::Sha256, Self::Md5].into_iter().find(|it| has(*it))
    }

    /// The length of a response.
    pub const fn response_len(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha256 => 32,
        }
    }
}

/// The identifier and challenge that an end sends: random, and new for every login.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Challenge {
    /// CHAP_I.
    pub identifier: u8,
    /// CHAP_C, as much of it as the algorithm takes.
    pub bytes: [u8; CHALLENGE_LEN],
}

impl Challenge {
    /// As much of it as `algorithm` takes.
    pub fn bytes_for(&self, algorithm: Algorithm) -> &[u8] {
        &self.bytes[..algorithm.response_len()]
    }
}

/// A response: CHAP_R.
#[derive(Clone, Copy)]
pub struct Response {
    bytes: [u8; 32],
    len: usize,
}

impl Response {
    /// The response to a challenge, with a secret.
    pub fn new(algorithm: Algorithm, identifier: u8, secret: &Secret, challenge: &[u8]) -> Self {
        let mut bytes = [0; 32];
        let len = algorithm.response_len();
        match algorithm {
            Algorithm::Md5 => {
                bytes[..len].copy_from_slice(&hash::<Md5>(identifier, secret, challenge));
            }
            Algorithm::Sha256 => {
                bytes[..len].copy_from_slice(&hash::<Sha256>(identifier, secret, challenge));
            }
        }
        Self { bytes, len }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Whether the peer's response is equal, compared in constant time.
    pub fn is(&self, other: &[u8]) -> bool {
        are_equal(self.bytes(), other)
    }
}

fn hash<D: Digest>(identifier: u8, secret: &Secret, challenge: &[u8]) -> Output<D> {
    let mut digest = D::new();
    digest.update([identifier]);
    digest.update(secret.bytes());
    digest.update(challenge);
    digest.finalize()
}

fn are_equal(these: &[u8], those: &[u8]) -> bool {
    let differing = these.iter().zip(those).fold(0, |sum, (a, b)| sum | (a ^ b));
    std::hint::black_box(differing) == 0 && these.len() == those.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> Secret {
        Secret::new(b"a secret of 22 letters".to_vec()).unwrap()
    }

    #[test]
    fn a_secret_is_never_printed() {
        assert_eq!(format!("{:?}", secret()), "Secret");
    }

    #[test]
    fn secrets_have_a_length() {
        assert_eq!(Secret::new(vec![1; 11]).unwrap_err(), SecretLenError { len: 11 });
        assert_eq!(Secret::new(vec![1; 65]).unwrap_err(), SecretLenError { len: 65 });
        assert!(Secret::new(vec![1; 12]).is_ok() && Secret::new(vec![1; 64]).is_ok());
    }

    #[test]
    fn the_response_is_the_hash_of_identifier_secret_and_challenge() {
        let secret = Secret::new(b"abcdefghijklmnop".to_vec()).unwrap();
        let whole = [&[7][..], b"abcdefghijklmnop", b"challenge"].concat();
        let md5 = Response::new(Algorithm::Md5, 7, &secret, b"challenge");
        assert_eq!(md5.bytes(), &Md5::digest(&whole)[..]);
        let sha = Response::new(Algorithm::Sha256, 7, &secret, b"challenge");
        assert_eq!(sha.bytes(), &Sha256::digest(&whole)[..]);
    }

    #[test]
    fn only_the_whole_response_is_right() {
        let response = Response::new(Algorithm::Md5, 1, &secret(), &[3; 16]);
        assert!(response.is(response.bytes()));
        for place in 0..16 {
            let mut other = response.bytes().to_vec();
            other[place] ^= 1;
            assert!(!response.is(&other), "byte {place}");
        }
        assert!(!response.is(&response.bytes()[..15]) && !response.is(&[]));
    }

    #[test]
    fn the_strongest_algorithm_that_both_ends_have_is_taken_whatever_its_place() {
        assert_eq!(Algorithm::strongest_of("6,8,7,5"), Some(Algorithm::Sha256));
        assert_eq!(Algorithm::strongest_of("5,7"), Some(Algorithm::Sha256));
        assert_eq!(Algorithm::strongest_of("6,5"), Some(Algorithm::Md5));
        assert_eq!(Algorithm::strongest_of("6"), None);
    }
}
