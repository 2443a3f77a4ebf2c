//! The keys of TLS 1.3 with a pre-shared key (PSK): their identities and their derivation.
//!
//! Spec: `docs/direct-protocol.md`, TLS; RFC 8446, 2.2; RFC 5869 (HKDF).
//!
//! There is no secret of its own for TLS. Both ends derive the TLS PSK from the secret of a key, which is that of a
//! credential or of a bearer. The client names the key by a [`TlsIdentity`]. There are no records or handshakes here.
//!
//! Invariants: keys are overwritten when dropped and never printed. The keys of two identities differ, even if
//! their secrets are the same.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::secret::Secret;
use crate::wire::{BEARER_LEN_MAX, PROOF_LEN, key_len_max};

/// The beginning of an identity. The key id follows.
const PREFIX: &str = "NFdirect1 ";

/// Precedes the key id in the information for HKDF-Expand.
const LABEL: &[u8] = b"nearflash direct tls 1";

/// The length of the longest identity: that of a bearer.
pub const TLS_IDENTITY_LEN_MAX: usize = PREFIX.len() + BEARER_LEN_MAX;

/// The name by which a client refers to the TLS PSK of a key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsIdentity(Box<str>);

/// Error: the bytes are not an identity.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("it does not have the form of an identity of the direct protocol")]
pub struct TlsIdentityError;

impl TlsIdentity {
    /// The identity of the key with this id.
    ///
    /// # Errors
    /// If the id is empty or too long.
    pub fn of(key: &str) -> Result<Self, TlsIdentityError> {
        let fits = (1..=key_len_max(key.as_bytes())).contains(&key.len());
        if fits { Ok(Self(key.into())) } else { Err(TlsIdentityError) }
    }

    /// Reads the identity that a client has sent.
    ///
    /// # Errors
    /// If the bytes are not an identity.
    pub fn parse(bytes: &[u8]) -> Result<Self, TlsIdentityError> {
        let key = bytes.strip_prefix(PREFIX.as_bytes()).ok_or(TlsIdentityError)?;
        if key.len() > key_len_max(key) {
            return Err(TlsIdentityError);
        }
        Self::of(str::from_utf8(key).map_err(|_| TlsIdentityError)?)
    }

    /// The id of the key: the name of a credential or of a bearer.
    pub fn key(&self) -> &str {
        &self.0
    }

    /// The TLS PSK of this identity: HKDF-Extract without a salt, and HKDF-Expand to one block.
    pub fn tls_key(&self, secret: &Secret) -> TlsKey {
        let extracted = Zeroizing::new(hmac(&[0; PROOF_LEN], &[secret.bytes()]));
        TlsKey(Zeroizing::new(hmac(extracted.as_slice(), &[LABEL, self.key().as_bytes(), &[1]])))
    }
}

impl fmt::Display for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
    }
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; PROOF_LEN] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// A derived key, for the suite TLS_AES_128_GCM_SHA256.
#[derive(Clone, Eq, PartialEq)]
pub struct TlsKey(Zeroizing<[u8; PROOF_LEN]>);

impl TlsKey {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.0.as_slice()
    }
}

impl fmt::Debug for TlsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::NAME_LEN_MAX;

    const DOCUMENT: &str = include_str!("../../../docs/direct-protocol.md");

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Computed from the definition with another program.
    #[test]
    fn the_key_of_an_identity_is_that_of_the_definition() {
        let secret = Secret::new(std::array::from_fn(|at| u8::try_from(at).unwrap()));
        for (key, wanted) in [
            ("app", "dbc4275ab81291777d55bde87e96fda5a6026e1c95766d8c4c04fa121f8ee860"),
            (
                "~1.60.abababababababababababababababab.app",
                "d41fe052569ef73ef8955e16d7fabb145442bed1ea269764853d3b3d6617df97",
            ),
        ] {
            let derived = TlsIdentity::of(key).unwrap().tls_key(&secret);
            assert_eq!(hex(derived.bytes()), wanted, "{key}");
            let is_documented = DOCUMENT.replace(' ', "").contains(wanted);
            assert_eq!(is_documented, key == "app", "the document has the first of them");
            assert_eq!(format!("{derived:?}"), "TlsKey(…)");
        }
    }

    #[test]
    fn an_identity_has_the_id_of_one_key() {
        let identity = TlsIdentity::of("app").unwrap();
        assert_eq!(identity.to_string(), "NFdirect1 app");
        assert_eq!(TlsIdentity::parse(b"NFdirect1 app"), Ok(identity));
        let longest = "x".repeat(NAME_LEN_MAX);
        assert_eq!(TlsIdentity::of(&longest).unwrap().key(), longest);
        let bearer = format!("~{}", "1".repeat(BEARER_LEN_MAX - 1));
        assert_eq!(TlsIdentity::of(&bearer).unwrap().to_string().len(), TLS_IDENTITY_LEN_MAX);
        for key in [String::new(), format!("{longest}x"), format!("{bearer}1")] {
            assert_eq!(TlsIdentity::of(&key), Err(TlsIdentityError), "{key}");
        }
        for bytes in
            [&b""[..], b"app", b"NFdirect1", b"NFdirect1 ", b"NFdirect1 \xFF", b"NVMe1R01 a b"]
        {
            assert_eq!(TlsIdentity::parse(bytes), Err(TlsIdentityError), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_as_they_are_written_or_refused(bytes in "(NFdirect1 )?~?.{0,200}") {
            if let Ok(identity) = TlsIdentity::parse(bytes.as_bytes()) {
                prop_assert!(bytes.len() <= TLS_IDENTITY_LEN_MAX);
                prop_assert_eq!(identity.to_string(), bytes);
            }
        }

        #[test]
        fn the_keys_of_two_secrets_or_identities_differ(secret: [u8; 32], bit in 0..256_usize, key in "[a-z]{1,8}") {
            let mut other = secret;
            other[bit / 8] ^= 1 << (bit % 8);
            let identity = TlsIdentity::of(&key).unwrap();
            let derived = identity.tls_key(&Secret::new(secret));
            prop_assert!(derived != identity.tls_key(&Secret::new(other)));
            let longer = TlsIdentity::of(&format!("{key}x")).unwrap();
            prop_assert!(derived != longer.tls_key(&Secret::new(secret)));
        }
    }
}
