//! Configured PSKs, and their form as text: the PSK interchange format. NVMe/TCP Transport 1.0, 3.6.1.4.

use std::fmt;
use std::str::FromStr;

use zeroize::Zeroizing;

use crate::auth::secret_text::{SecretFault, SecretForm};
use crate::auth::{Hash, are_equal};

/// The form of its text.
const FORM: SecretForm =
    SecretForm { prefix: "NVMeTLSkey-1:", hashes: &[Hash::Sha256, Hash::Sha384] };

/// A cipher suite of TLS 1.3, and the hash that goes with it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Suite {
    /// TLS_AES_128_GCM_SHA256, for keys of 32 bytes.
    Aes128Sha256,
    /// TLS_AES_256_GCM_SHA384, for keys of 48 bytes.
    Aes256Sha384,
}

impl Suite {
    /// Both suites.
    pub const ALL: [Self; 2] = [Self::Aes128Sha256, Self::Aes256Sha384];

    /// Its hash.
    pub const fn hash(self) -> Hash {
        match self {
            Self::Aes128Sha256 => Hash::Sha256,
            Self::Aes256Sha384 => Hash::Sha384,
        }
    }

    pub(super) fn of(hash: Hash) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.hash() == hash)
    }

    /// The suite whose keys have this length.
    fn of_len(len: usize) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.hash().digest_len() == len)
    }
}

/// The text is not a PSK. The error does not repeat it, because it may be a mistyped key.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PskError {
    /// Another form, or not base64.
    #[error(
        "a PSK of NVMe over TLS has the form NVMeTLSkey-1:NN:BASE64: with a final colon: make one with 'nvme \
         gen-tls-key'"
    )]
    Form,
    /// An unknown hash.
    #[error(
        "a PSK of NVMe over TLS begins with NVMeTLSkey-1: and 00, 01 or 02: correct the number"
    )]
    Hash,
    /// A length that no key has, or that does not go with its hash.
    #[error(
        "a PSK of NVMe over TLS has 32 bytes with the hash 01, 48 with 02, and either with 00: make another one"
    )]
    Length,
    /// The CRC-32 is another one.
    #[error("the checksum of the PSK is wrong: copy the whole PSK again")]
    Checksum,
}

/// A configured PSK, which a host and the node know.
#[derive(Clone)]
pub struct Psk {
    /// The hash that turns it into the retained PSK of one host; `None` if it is used as it is.
    transformation: Option<Hash>,
    suite: Suite,
    bytes: Zeroizing<Vec<u8>>,
}

impl Psk {
    /// A PSK of these random bytes.
    ///
    /// # Errors
    /// If the hash is not SHA-256 or SHA-384, or the length is not that of a digest of the hash or, without a hash,
    /// not 32 or 48.
    pub fn new(transformation: Option<Hash>, bytes: &[u8]) -> Result<Self, PskError> {
        let suite = Suite::of_len(bytes.len()).ok_or(PskError::Length)?;
        match transformation {
            Some(hash) if Suite::of(hash).is_none() => Err(PskError::Hash),
            Some(hash) if hash != suite.hash() => Err(PskError::Length),
            _ => Ok(Self { transformation, suite, bytes: Zeroizing::new(bytes.to_vec()) }),
        }
    }

    /// The cipher suite of its connections.
    pub const fn suite(&self) -> Suite {
        self.suite
    }

    /// Its text, which is a secret.
    pub fn to_text(&self) -> Zeroizing<String> {
        FORM.to_text(self.transformation, &self.bytes)
    }

    pub(super) const fn transformation(&self) -> Option<Hash> {
        self.transformation
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl FromStr for Psk {
    type Err = PskError;

    fn from_str(text: &str) -> Result<Self, PskError> {
        let (transformation, bytes) = FORM.parse(text)?;
        Self::new(transformation, &bytes)
    }
}

impl From<SecretFault> for PskError {
    fn from(fault: SecretFault) -> Self {
        match fault {
            SecretFault::Form => Self::Form,
            SecretFault::Hash => Self::Hash,
            SecretFault::Length => Self::Length,
            SecretFault::Checksum => Self::Checksum,
        }
    }
}

impl PartialEq for Psk {
    fn eq(&self, other: &Self) -> bool {
        self.transformation == other.transformation && are_equal(&self.bytes, &other.bytes)
    }
}

impl Eq for Psk {}

impl fmt::Debug for Psk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Psk(…)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The bytes and the text are a published pair of the libraries for NVMe hosts.
    #[test]
    fn a_psk_has_the_text_of_the_interchange_format() {
        let bytes = [
            0x55, 0x12, 0xDB, 0xB6, 0x73, 0x7D, 0x01, 0x06, 0xF6, 0x59, 0x75, 0xB7, 0x73, 0xDF,
            0xB0, 0x11, 0xFF, 0xC3, 0x44, 0xBC, 0xF4, 0x42, 0xE2, 0xDD, 0x6D, 0x8B, 0xC4, 0x87,
            0x0B, 0x5D, 0x5B, 0x03,
        ];
        let text = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
        let psk = Psk::new(Some(Hash::Sha256), &bytes).unwrap();
        assert_eq!(psk.to_text().as_str(), text);
        assert_eq!(text.parse(), Ok(psk));
    }

    #[test]
    fn a_text_that_is_not_a_psk_is_refused_by_its_reason_and_not_repeated() {
        let text = Psk::new(Some(Hash::Sha256), &[7; 32]).unwrap().to_text();
        let long = format!("NVMeTLSkey-1:00:{}:", "A".repeat(76));
        for (text, error) in [
            ("", PskError::Form),
            ("secret", PskError::Form),
            (text.trim_end_matches(':'), PskError::Form),
            (&text.replace("key-1", "key-2"), PskError::Form),
            (&text.replace(":01:", ":1:"), PskError::Hash),
            (&text.replace(":01:", ":03:"), PskError::Hash),
            (&text.replace(":01:", ":02:"), PskError::Length),
            (&text.replace("Bw", "Cw"), PskError::Checksum),
            (&text.replace("Bw", "*w"), PskError::Form),
            ("NVMeTLSkey-1:00:AAAA:", PskError::Length),
            (&long, PskError::Length),
        ] {
            assert_eq!(text.parse::<Psk>(), Err(error), "{text}");
        }
        assert_eq!(Psk::new(Some(Hash::Sha512), &[7; 32]), Err(PskError::Hash));
        assert_eq!(format!("{:?}", text.parse::<Psk>().unwrap()), "Psk(…)");
    }

    proptest! {
        #[test]
        fn a_psk_is_read_as_it_was_written(bytes: [u8; 48], form in 0..4_usize) {
            let (hash, len) =
                [(None, 32), (None, 48), (Some(Hash::Sha256), 32), (Some(Hash::Sha384), 48)][form];
            let psk = Psk::new(hash, &bytes[..len]).unwrap();
            prop_assert_eq!(psk.to_text().parse::<Psk>(), Ok(psk));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(NVMeTLSkey-1:0[0-4]:)?[A-Za-z0-9+/=:]{0,80}:?") {
            let _ = text.parse::<Psk>();
        }
    }
}
