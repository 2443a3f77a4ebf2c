//! PSK identities: the names by which hosts refer to TLS PSKs. NVMe/TCP Transport 1.0, 3.6.1.3, and 1.1 for
//! version 1.

use std::fmt;

use super::psk::Suite;
use crate::auth::Hash;
use crate::{NQN_LEN_MAX, Nqn};

/// The beginning of an identity, and the letter of a retained PSK. Generated PSKs, which a DH-HMAC-CHAP
/// authentication makes, have the letter G; the node makes none.
const NAME: &str = "NVMe";
const RETAINED: char = 'R';
/// The digest of version 1: 48 bytes in base64.
const DIGEST_LEN_MAX: usize = 64;

/// The length of the longest identity.
pub const IDENTITY_LEN_MAX: usize = "NVMe1R02   ".len() + 2 * NQN_LEN_MAX + DIGEST_LEN_MAX;

/// The version of an identity.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Version {
    /// 0: it has the names of the host and the subsystem.
    Zero,
    /// 1: a digest of the retained PSK and both names follows.
    One,
}

/// Why the bytes are not a PSK identity of the node.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum IdentityError {
    /// Not `NVMe`, a version, a type, a hash, and names.
    #[error("it does not have the form of a PSK identity of NVMe/TCP")]
    Form,
    /// A version above 1.
    #[error("its version is not 0 or 1")]
    Version,
    /// A generated PSK.
    #[error("it names a generated PSK, and the node has only configured ones")]
    Generated,
    /// Not SHA-256 or SHA-384.
    #[error("its hash is not 01 or 02")]
    Hash,
}

/// A PSK identity.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PskIdentity {
    /// Its version.
    pub version: Version,
    /// The suite of its hash.
    pub suite: Suite,
    /// The host.
    pub host: Nqn,
    /// The subsystem.
    pub subsystem: Nqn,
    /// The digest of version 1 in base64, and nothing in version 0.
    pub digest: Box<str>,
}

impl PskIdentity {
    /// Reads the identity that a host has sent.
    ///
    /// # Errors
    /// If it is not an identity of version 0 or 1 for a retained PSK.
    pub fn parse(bytes: &[u8]) -> Result<Self, IdentityError> {
        if bytes.len() > IDENTITY_LEN_MAX {
            return Err(IdentityError::Form);
        }
        let text = str::from_utf8(bytes).map_err(|_| IdentityError::Form)?;
        let text = text.strip_prefix(NAME).ok_or(IdentityError::Form)?;
        let mut words = text.split(' ');
        let (version, suite) = parse_kind(words.next().unwrap_or_default())?;
        let mut name = || words.next().and_then(|name| Nqn::new(name).ok());
        let host = name().ok_or(IdentityError::Form)?;
        let subsystem = name().ok_or(IdentityError::Form)?;
        let digest = words.next();
        let fits = match version {
            Version::Zero => digest.is_none(),
            Version::One => digest.is_some_and(|it| (1..=DIGEST_LEN_MAX).contains(&it.len())),
        };
        if !fits || words.next().is_some() {
            return Err(IdentityError::Form);
        }
        let digest = digest.unwrap_or_default().into();
        Ok(Self { version, suite, host, subsystem, digest })
    }
}

/// The version, type and hash: for example `0R01`.
fn parse_kind(text: &str) -> Result<(Version, Suite), IdentityError> {
    let mut chars = text.chars();
    let version = chars.next().filter(char::is_ascii_digit).ok_or(IdentityError::Form)?;
    let kind = chars.next().ok_or(IdentityError::Form)?;
    let version = match version {
        '0' => Version::Zero,
        '1' => Version::One,
        _ => return Err(IdentityError::Version),
    };
    match kind {
        RETAINED => {}
        'G' => return Err(IdentityError::Generated),
        _ => return Err(IdentityError::Form),
    }
    let suite = match chars.as_str() {
        "01" => Suite::of(Hash::Sha256),
        "02" => Suite::of(Hash::Sha384),
        _ => None,
    };
    Ok((version, suite.ok_or(IdentityError::Hash)?))
}

impl fmt::Display for PskIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = match self.version {
            Version::Zero => 0,
            Version::One => 1,
        };
        let (hash, host, subsystem) = (self.suite.hash().id(), &self.host, &self.subsystem);
        write!(f, "{NAME}{version}{RETAINED}{hash:02} {host} {subsystem}")?;
        if self.digest.is_empty() { Ok(()) } else { write!(f, " {}", self.digest) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_identity_is_written_as_it_was_read() {
        for text in ["NVMe0R01 nqn.a nqn.b", "NVMe1R02 nqn.a nqn.b ar4Ty56NWmxi="] {
            let identity = PskIdentity::parse(text.as_bytes()).unwrap();
            assert_eq!(identity.to_string(), text);
            assert_eq!((identity.host.as_str(), identity.subsystem.as_str()), ("nqn.a", "nqn.b"));
        }
    }

    #[test]
    fn bytes_that_are_not_an_identity_are_refused_by_their_reason() {
        let long = format!("NVMe0R01 nqn.a nqn.{}", "b".repeat(600));
        for (text, error) in [
            ("", IdentityError::Form),
            ("host", IdentityError::Form),
            ("NVMe", IdentityError::Form),
            ("NVMe0R01", IdentityError::Form),
            ("NVMe0R01 nqn.a", IdentityError::Form),
            ("NVMe0R01 nqn.a nqn.b x", IdentityError::Form),
            ("NVMe0R01 nqn.a  nqn.b", IdentityError::Form),
            ("NVMe0R01 nqn.a b", IdentityError::Form),
            ("NVMe1R01 nqn.a nqn.b", IdentityError::Form),
            ("NVMe1R01 nqn.a nqn.b ", IdentityError::Form),
            ("NVMe1R01 nqn.a nqn.b x y", IdentityError::Form),
            ("NVMe2R01 nqn.a nqn.b", IdentityError::Version),
            ("NVMe0G01 nqn.a nqn.b", IdentityError::Generated),
            ("NVMe0X01 nqn.a nqn.b", IdentityError::Form),
            ("NVMe0R00 nqn.a nqn.b", IdentityError::Hash),
            ("NVMe0R03 nqn.a nqn.b", IdentityError::Hash),
            (&long, IdentityError::Form),
        ] {
            assert_eq!(PskIdentity::parse(text.as_bytes()), Err(error), "{text}");
        }
        assert_eq!(PskIdentity::parse(b"NVMe0R01 nqn.\xFF nqn.b"), Err(IdentityError::Form));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in "(NVMe[0-2][RG]0[0-3] )?(nqn.[a-c ]{0,9}){0,3}.{0,9}") {
            if let Ok(identity) = PskIdentity::parse(bytes.as_bytes()) {
                prop_assert_eq!(identity.to_string(), bytes);
            }
        }
    }
}
