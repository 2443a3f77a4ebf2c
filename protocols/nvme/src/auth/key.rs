//! Keys, and their form as text. NVMe Base 2.0, 8.13.5.7 and 8.13.5.8.

use std::fmt;
use std::str::FromStr;

use zeroize::Zeroizing;

use super::hash::{Hash, are_equal};
use super::secret_text::{SecretFault, SecretForm};
use crate::Nqn;

/// The form of its text.
const FORM: SecretForm = SecretForm { prefix: "DHHC-1:", hashes: &Hash::ALL };
/// The lengths that a key can have in bytes.
const KEY_LENS: [usize; 3] = [32, 48, 64];
/// Follows the name of the key's owner in the transformation.
const LABEL: &[u8] = b"NVMe-over-Fabrics";

/// The text is not a key. The error does not repeat it, because it may be a mistyped key.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum KeyError {
    /// Another form, or not base64.
    #[error(
        "a DH-HMAC-CHAP key has the form DHHC-1:NN:BASE64: with a final colon: make one with 'nvme \
         gen-dhchap-key', or omit it to have one generated"
    )]
    Form,
    /// An unknown transformation.
    #[error(
        "a DH-HMAC-CHAP key begins with DHHC-1: and a number from 00 to 03: correct the number"
    )]
    Transformation,
    /// A length that no key has.
    #[error("a DH-HMAC-CHAP key has 32, 48 or 64 bytes: make another one")]
    Length,
    /// The CRC-32 is another one.
    #[error("the checksum of the DH-HMAC-CHAP key is wrong: copy the whole key again")]
    Checksum,
}

/// A key that both ends know.
#[derive(Clone)]
pub struct Key {
    /// The hash that turns the key into that of one host or subsystem; `None` if the key is used as it is.
    transformation: Option<Hash>,
    bytes: Zeroizing<Vec<u8>>,
}

impl Key {
    /// A key of these random bytes.
    ///
    /// # Errors
    /// If the length is not 32, 48 or 64. Each goes with each hash: nvme-cli 3 and Linux have such keys.
    pub fn new(transformation: Option<Hash>, bytes: &[u8]) -> Result<Self, KeyError> {
        match KEY_LENS.contains(&bytes.len()) {
            true => Ok(Self { transformation, bytes: Zeroizing::new(bytes.to_vec()) }),
            false => Err(KeyError::Length),
        }
    }

    /// Its text, which is a secret.
    pub fn to_text(&self) -> Zeroizing<String> {
        FORM.to_text(self.transformation, &self.bytes)
    }

    /// The key as its owner uses it: that of the host for its NQN, that of the controller for the subsystem's.
    pub(super) fn of_owner(&self, owner: &Nqn) -> Zeroizing<Vec<u8>> {
        match self.transformation {
            Some(hash) => {
                let transformed = hash.hmac(&self.bytes, &[owner.as_str().as_bytes(), LABEL]);
                Zeroizing::new(transformed.bytes().to_vec())
            }
            None => self.bytes.clone(),
        }
    }
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let (transformation, bytes) = FORM.parse(text)?;
        Self::new(transformation, &bytes)
    }
}

impl From<SecretFault> for KeyError {
    fn from(fault: SecretFault) -> Self {
        match fault {
            SecretFault::Form => Self::Form,
            SecretFault::Hash => Self::Transformation,
            SecretFault::Length => Self::Length,
            SecretFault::Checksum => Self::Checksum,
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.transformation == other.transformation && are_equal(&self.bytes, &other.bytes)
    }
}

impl Eq for Key {}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The bytes are 00h to 1Fh. The text was computed from the definition with another program.
    #[test]
    fn a_key_has_the_text_that_the_standard_defines() {
        let bytes: Vec<u8> = (0..32).collect();
        let text = "DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";
        let key = Key::new(Some(Hash::Sha256), &bytes).unwrap();
        assert_eq!(key.to_text().as_str(), text);
        assert_eq!(text.parse(), Ok(key));
    }

    #[test]
    fn a_text_that_is_not_a_key_is_refused_by_its_reason_and_not_repeated() {
        let text = Key::new(Some(Hash::Sha256), &[7; 32]).unwrap().to_text();
        let long = format!("DHHC-1:00:{}:", "A".repeat(96));
        for (text, error) in [
            ("", KeyError::Form),
            ("secret", KeyError::Form),
            (text.trim_end_matches(':'), KeyError::Form),
            (&text.replace("DHHC-1", "DHHC-2"), KeyError::Form),
            (&text.replace(":01:", ":1:"), KeyError::Transformation),
            (&text.replace(":01:", ":04:"), KeyError::Transformation),
            (&text.replace("Bw", "Cw"), KeyError::Checksum),
            (&text.replace("Bw", "*w"), KeyError::Form),
            ("DHHC-1:00:AAAA:", KeyError::Length),
            (&long, KeyError::Length),
        ] {
            assert_eq!(text.parse::<Key>(), Err(error), "{text}");
        }
        assert_eq!(format!("{:?}", text.parse::<Key>().unwrap()), "Key(…)");
    }

    #[test]
    fn a_transformed_key_is_another_one_for_each_owner() {
        let [a, b] = ["nqn.a", "nqn.b"].map(|name| Nqn::new(name).unwrap());
        for (transformation, len) in [
            (None, 48),
            (Some(Hash::Sha256), 64),
            (Some(Hash::Sha384), 48),
            (Some(Hash::Sha512), 32),
        ] {
            let key = Key::new(transformation, &vec![7; len]).unwrap();
            assert_eq!(key.of_owner(&a) == key.of_owner(&b), transformation.is_none());
            assert_eq!(
                key.of_owner(&a).len(),
                transformation.map_or(len, |hash| hash.digest_len())
            );
        }
    }

    proptest! {
        #[test]
        fn a_key_of_every_hash_and_length_is_read_as_it_was_written(
            bytes: [u8; 64],
            hash in 0..4_usize,
            len in 0..3_usize,
        ) {
            let hash = [None, Some(Hash::Sha256), Some(Hash::Sha384), Some(Hash::Sha512)][hash];
            let len = KEY_LENS[len];
            let key = Key::new(hash, &bytes[..len]).unwrap();
            prop_assert_eq!(key.to_text().parse::<Key>(), Ok(key));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(DHHC-1:0[0-4]:)?[A-Za-z0-9+/=:]{0,100}:?") {
            let _ = text.parse::<Key>();
        }
    }
}
