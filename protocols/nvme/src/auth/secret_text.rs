//! The text of a secret: the form that keys for DH-HMAC-CHAP (NVMe Base 2.0, 8.13.5.8) and PSKs for TLS
//! (NVMe/TCP Transport 1.0, 3.6.1.4) have in common.
//!
//! It is a prefix, the number of a hash, and the secret with its CRC-32 in base64, for example
//! `DHHC-1:01:…:`. The number 00 means that no hash transforms the secret. The lengths that a secret can have
//! are its owner's to check.
//!
//! Invariants: a text that is longer than any secret is not decoded. Decoded bytes are overwritten when dropped.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::hash::{Hash, are_equal};

/// The length of the CRC-32 after the secret.
const CRC_LEN: usize = 4;

/// The form of one kind of secret.
pub(crate) struct SecretForm {
    /// The text before the number of the hash.
    pub(crate) prefix: &'static str,
    /// The hashes that can transform the secret. No secret is longer than a digest of the longest one.
    pub(crate) hashes: &'static [Hash],
}

/// The text is not a secret of the form.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SecretFault {
    /// Another form, or not base64.
    Form,
    /// An unknown hash.
    Hash,
    /// Longer than any secret, or shorter than a CRC-32.
    Length,
    /// The CRC-32 is another one.
    Checksum,
}

/// A secret, and the hash that transforms it.
type Secret = (Option<Hash>, Zeroizing<Vec<u8>>);

impl SecretForm {
    /// The text of a secret, which is a secret, too.
    pub(crate) fn to_text(&self, hash: Option<Hash>, bytes: &[u8]) -> Zeroizing<String> {
        let mut sealed = Zeroizing::new(Vec::with_capacity(bytes.len() + CRC_LEN));
        sealed.extend_from_slice(bytes);
        sealed.extend_from_slice(&crc32(bytes).to_le_bytes());
        let encoded = Zeroizing::new(STANDARD.encode(sealed.as_slice()));
        let (prefix, number) = (self.prefix, hash.map_or(0, Hash::id));
        Zeroizing::new(format!("{prefix}{number:02}:{}:", encoded.as_str()))
    }

    /// Reads the text of a secret.
    ///
    /// # Errors
    /// If it has another form, hash or checksum.
    pub(crate) fn parse(&self, text: &str) -> Result<Secret, SecretFault> {
        let rest = text.strip_prefix(self.prefix).ok_or(SecretFault::Form)?;
        let (number, rest) = rest.split_once(':').ok_or(SecretFault::Form)?;
        let encoded = rest.strip_suffix(':').ok_or(SecretFault::Form)?;
        let hash = match number {
            "00" => None,
            _ => Some(self.hash(number).ok_or(SecretFault::Hash)?),
        };
        if encoded.len() > self.encoded_len_max() {
            return Err(SecretFault::Length);
        }
        let sealed = STANDARD.decode(encoded).map_err(|_| SecretFault::Form)?;
        let sealed = Zeroizing::new(sealed);
        let (bytes, crc) = sealed.split_last_chunk::<CRC_LEN>().ok_or(SecretFault::Length)?;
        match are_equal(crc, &crc32(bytes).to_le_bytes()) {
            true => Ok((hash, Zeroizing::new(bytes.to_vec()))),
            false => Err(SecretFault::Checksum),
        }
    }

    /// The hash of a number of two digits.
    fn hash(&self, number: &str) -> Option<Hash> {
        self.hashes.iter().copied().find(|hash| format!("{:02}", hash.id()) == number)
    }

    /// The length of the longest secret and its CRC-32 in base64.
    fn encoded_len_max(&self) -> usize {
        let longest = self.hashes.iter().map(|hash| hash.digest_len()).max().unwrap_or_default();
        (longest + CRC_LEN).div_ceil(3) * 4
    }
}

/// The CRC-32 of RFC 1952, bit by bit: secrets are short and rarely read.
fn crc32(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0xEDB8_8320;
    let step = |crc: u32, _| if crc & 1 == 0 { crc >> 1 } else { crc >> 1 ^ POLYNOMIAL };
    let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), step);
    !bytes.iter().fold(u32::MAX, byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FORM: SecretForm = SecretForm { prefix: "X:", hashes: &[Hash::Sha256, Hash::Sha384] };

    #[test]
    fn the_checksum_is_the_usual_crc_32() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn the_longest_secret_is_read_and_a_longer_text_is_not_decoded() {
        let text = |len| FORM.to_text(None, &vec![7; len]);
        assert_eq!(FORM.parse(&text(48)), Ok((None, Zeroizing::new(vec![7; 48]))));
        assert_eq!(FORM.parse(&text(51)), Err(SecretFault::Length));
    }

    #[test]
    fn only_the_two_digits_of_a_hash_of_the_form_are_its_number() {
        let text = FORM.to_text(Some(Hash::Sha384), &[7; 48]);
        assert!(FORM.parse(&text).is_ok());
        for number in [":2:", ":+2:", ":002:", ":03:", "::"] {
            let other = text.replacen(":02:", number, 1);
            assert_eq!(FORM.parse(&other), Err(SecretFault::Hash), "{number}");
        }
    }

    proptest! {
        #[test]
        fn a_changed_byte_of_a_secret_is_noticed(bytes: [u8; 32], place in 0..36_usize, change in 1..=255_u8) {
            let text = FORM.to_text(Some(Hash::Sha256), &bytes);
            let encoded = text.trim_start_matches("X:01:").trim_end_matches(':');
            let mut sealed = STANDARD.decode(encoded).unwrap();
            sealed[place] ^= change;
            let changed = format!("X:01:{}:", STANDARD.encode(sealed));
            prop_assert_eq!(FORM.parse(&changed), Err(SecretFault::Checksum));
        }
    }
}
