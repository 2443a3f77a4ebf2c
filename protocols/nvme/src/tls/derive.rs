//! From the configured PSK to the TLS PSK. NVMe/TCP Transport 1.0, 3.6.1.2 and 3.6.1.3.
//!
//! The configured PSK becomes the retained PSK of one host, and that becomes the TLS PSK of one identity. Both
//! steps are HKDF-Extract and HKDF-Expand-Label.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::identity::{PskIdentity, Version};
use super::psk::{Psk, Suite};
use crate::Nqn;
use crate::auth::{Hash, are_equal};

/// The prefix of every label. RFC 8446, 7.1.
const LABEL_PREFIX: &[u8] = b"tls13 ";
const RETAINED_LABEL: &[u8] = b"HostNQN";
const TLS_LABEL: &[u8] = b"nvme-tls-psk";
/// Follows both names in the digest of version 1.
const DIGEST_LABEL: &[u8] = b"NVMe-over-Fabrics";

/// The encoding of HKDF-Expand-Label. Both ends must use the same one.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Derivation {
    /// That of RFC 8446: labels and names have a length in front of them.
    #[default]
    Standard,
    /// That of libnvme before 1.15, and so of nvme-cli before 2.15: no lengths, and the length of the key in
    /// little-endian order.
    Legacy,
}

/// The text is not the name of a derivation.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "'{0}' is not a derivation of TLS PSKs: use standard, or legacy for hosts with libnvme before 1.15"
)]
pub struct ParseDerivationError(Box<str>);

impl Derivation {
    /// Its name in commands.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Legacy => "legacy",
        }
    }

    /// The information for HKDF-Expand: the length of the key, the label and the names that it is for.
    fn info(self, key_len: u16, label: &[u8], names: &[u8]) -> Result<Vec<u8>, DeriveError> {
        let mut info = Vec::with_capacity(4 + LABEL_PREFIX.len() + label.len() + names.len());
        match self {
            Self::Standard => {
                let label_len = LABEL_PREFIX.len() + label.len();
                let len_of = |len: usize| u8::try_from(len).map_err(|_| DeriveError::TooLong);
                info.extend_from_slice(&key_len.to_be_bytes());
                info.push(len_of(label_len)?);
                info.extend_from_slice(LABEL_PREFIX);
                info.extend_from_slice(label);
                info.push(len_of(names.len())?);
            }
            Self::Legacy => {
                info.extend_from_slice(&key_len.to_le_bytes());
                info.extend_from_slice(LABEL_PREFIX);
                info.extend_from_slice(label);
            }
        }
        info.extend_from_slice(names);
        Ok(info)
    }

    /// HKDF-Extract without a salt, and HKDF-Expand-Label to a key as long as a digest of the hash: one block.
    fn derive(
        self,
        hash: Hash,
        key: &[u8],
        label: &[u8],
        names: &[u8],
    ) -> Result<TlsKey, DeriveError> {
        let key_len = u16::try_from(hash.digest_len()).expect("a digest is short");
        let info = self.info(key_len, label, names)?;
        let salt = [0; 64];
        let extracted = hash.hmac(&salt[..hash.digest_len()], &[key]);
        let expanded = hash.hmac(extracted.bytes(), &[&info, &[1]]);
        Ok(TlsKey(Zeroizing::new(expanded.bytes().to_vec())))
    }
}

impl fmt::Display for Derivation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Derivation {
    type Err = ParseDerivationError;

    fn from_str(text: &str) -> Result<Self, ParseDerivationError> {
        let found = [Self::Standard, Self::Legacy].into_iter().find(|it| it.name() == text);
        found.ok_or_else(|| ParseDerivationError(text.into()))
    }
}

/// A PSK has no key for an identity.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DeriveError {
    /// The identity names another hash.
    #[error("the PSK of the host is for {}", .0.hash())]
    Hash(Suite),
    /// The digest in the identity is another one.
    #[error(
        "the digest in the identity is not that of the host's PSK: the PSK, its hash or its derivation differs"
    )]
    Digest,
    /// The standard derivation has no room for the names.
    #[error(
        "the names are longer than the derivation of TLS PSKs permits: use identities of version 1"
    )]
    TooLong,
}

/// A derived key.
#[derive(Clone, Eq, PartialEq)]
pub struct TlsKey(Zeroizing<Vec<u8>>);

impl TlsKey {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for TlsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsKey(…)")
    }
}

impl Psk {
    /// The TLS PSK of an identity.
    ///
    /// # Errors
    /// If the identity has another hash or, in version 1, another digest.
    pub fn tls_key(
        &self,
        derivation: Derivation,
        identity: &PskIdentity,
    ) -> Result<TlsKey, DeriveError> {
        if identity.suite != self.suite() {
            return Err(DeriveError::Hash(self.suite()));
        }
        let retained = self.retained(derivation, &identity.host)?;
        let hash = self.suite().hash();
        let names = match identity.version {
            Version::Zero => identity.to_string(),
            Version::One => {
                let digest = self.digest(&retained, &identity.host, &identity.subsystem);
                if !are_equal(digest.as_bytes(), identity.digest.as_bytes()) {
                    return Err(DeriveError::Digest);
                }
                format!("{:02} {digest}", hash.id())
            }
        };
        derivation.derive(hash, retained.bytes(), TLS_LABEL, names.as_bytes())
    }

    /// The identity of this PSK for a host and a subsystem.
    ///
    /// # Errors
    /// If the name of the host is too long for the derivation.
    pub fn identity(
        &self,
        derivation: Derivation,
        version: Version,
        host: &Nqn,
        subsystem: &Nqn,
    ) -> Result<PskIdentity, DeriveError> {
        let retained = self.retained(derivation, host)?;
        let digest = match version {
            Version::Zero => String::new(),
            Version::One => self.digest(&retained, host, subsystem),
        };
        Ok(PskIdentity {
            version,
            suite: self.suite(),
            host: host.clone(),
            subsystem: subsystem.clone(),
            digest: digest.into(),
        })
    }

    fn retained(&self, derivation: Derivation, host: &Nqn) -> Result<TlsKey, DeriveError> {
        match self.transformation() {
            Some(hash) => {
                derivation.derive(hash, self.bytes(), RETAINED_LABEL, host.as_str().as_bytes())
            }
            None => Ok(TlsKey(Zeroizing::new(self.bytes().to_vec()))),
        }
    }

    fn digest(&self, retained: &TlsKey, host: &Nqn, subsystem: &Nqn) -> String {
        let [host, subsystem] = [host, subsystem].map(|name| name.as_str().as_bytes());
        let parts = [host, b" ", subsystem, b" ", DIGEST_LABEL];
        STANDARD.encode(self.suite().hash().hmac(retained.bytes(), &parts).bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA256: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
    const SHA384: &str =
        "NVMeTLSkey-1:02:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ==:";
    const AS_IT_IS: &str = "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";

    /// Computed from the definitions with another program.
    #[rustfmt::skip]
    const KEYS: [(Derivation, &str, &str, &str); 12] = [
        (Derivation::Standard, SHA256, "NVMe0R01 HOST NVME", "4ee0848dd1d8d6139871c5dff8c34e919ef8ee5a72e9e54fab2fcc8f02420cf2"),
        (Derivation::Standard, SHA256, "NVMe1R01 HOST NVME pGfVZR7R9eHQ5fQlm+pX+/IU6hualhtXpSdo9GZ8zAg=", "7c07101195d6e7a840b31616dc46ad5d4d1078ee6fec6388463594845803fa7b"),
        (Derivation::Standard, SHA384, "NVMe0R02 HOST NVME", "35ee9dfbf459f253a57a5044fdc3595d6f6c71ac6b1dfaeffc590a8f1a92f30191e0f8622cef510646a60d8a3a15d2c3"),
        (Derivation::Standard, SHA384, "NVMe1R02 HOST NVME zXBeltGi3g8Te7cQm5WSLfCo9Rdu3z0bz5/CzJ7OTLTfDkVo6uAKgZoBTcWcjCnB", "33fc885d1ac1207ca19e2960ab42e12603720e467fd1db4370ff37094b0614e691a432127f1546b4f20da5112951568e"),
        (Derivation::Standard, AS_IT_IS, "NVMe0R01 HOST NVME", "f7d691677321e1a38ba43d80ee43cbdbf6a2b09fb514887809b539d75321a700"),
        (Derivation::Standard, AS_IT_IS, "NVMe1R01 HOST NVME WiAKpLTpGl9UpSA1cb2Tyxebql3BnICWjIyWGM+1V58=", "8cf3bbd42dce1020dfac017dc93d1a4262b69b2554a0a9a8590315d7d3d83770"),
        (Derivation::Legacy, SHA256, "NVMe0R01 HOST NVME", "9d07bc6412278cf2b59b340ec705760c68bc7c7956083d1fb8b04cbec132e23e"),
        (Derivation::Legacy, SHA256, "NVMe1R01 HOST NVME ZRqqOpxf9k+H7yyUQ9wNsYT9rdmu9L37KZMP9BdCbyY=", "4b337f92c04bd27fa085cc06953a7d4b9de9f84ed7ffd5db9adc542c04a180ff"),
        (Derivation::Legacy, SHA384, "NVMe0R02 HOST NVME", "8498bd24d36fd92ff472e912eda1e404ec5383120301d3c55bffa4c406f35850057be230980e2899265c47a953d7b7c6"),
        (Derivation::Legacy, SHA384, "NVMe1R02 HOST NVME ar4Ty56NWmxiWeDatFKabnGifTjzinac9wmToBVE17HdIMMj04Q5QoVP+voXv5m0", "cc63a80db02f841a4c4fdd76fb386bf790a4b463c38bef8efc0b4cd724efe80773bcea05de911323ca65969db07db7e9"),
        (Derivation::Legacy, AS_IT_IS, "NVMe0R01 HOST NVME", "291d143246e7466227a12e2bf0960e0070deadf515e97a6536bbfcd77b311154"),
        (Derivation::Legacy, AS_IT_IS, "NVMe1R01 HOST NVME WiAKpLTpGl9UpSA1cb2Tyxebql3BnICWjIyWGM+1V58=", "3159746e564b6147c8a99324bde50d53d2c87c54e14ceca1521762e870e80a93"),
    ];

    fn identity(text: &str) -> PskIdentity {
        let text = text.replace("HOST", "nqn.2014-08.org.example:host");
        let text = text.replace("NVME", "nqn.2014-08.org.example:nvme");
        PskIdentity::parse(text.as_bytes()).unwrap()
    }

    fn hex(key: &TlsKey) -> String {
        key.bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn keys_and_identities_of_both_derivations_are_as_defined() {
        for (derivation, psk, name, key) in KEYS {
            let (psk, wanted): (Psk, _) = (psk.parse().unwrap(), identity(name));
            assert_eq!(hex(&psk.tls_key(derivation, &wanted).unwrap()), key, "{derivation} {name}");
            let PskIdentity { version, host, subsystem, .. } = &wanted;
            assert_eq!(psk.identity(derivation, *version, host, subsystem).unwrap(), wanted);
        }
    }

    #[test]
    fn an_identity_of_another_hash_or_digest_has_no_key() {
        let psk: Psk = SHA256.parse().unwrap();
        let refused = |derivation, name| psk.tls_key(derivation, &identity(name)).unwrap_err();
        let hash = DeriveError::Hash(Suite::Aes128Sha256);
        assert_eq!(refused(Derivation::Standard, "NVMe0R02 HOST NVME"), hash);
        let (_, _, legacy, _) = KEYS[7];
        assert_eq!(refused(Derivation::Standard, legacy), DeriveError::Digest);
    }

    #[test]
    fn names_that_are_too_long_for_the_standard_derivation_are_refused() {
        let psk: Psk = SHA256.parse().unwrap();
        let long = identity(&format!("NVMe0R01 nqn.{} nqn.{}", "a".repeat(200), "b".repeat(200)));
        let key = |derivation| psk.tls_key(derivation, &long);
        assert_eq!(key(Derivation::Standard), Err(DeriveError::TooLong));
        assert!(key(Derivation::Legacy).is_ok());
        let one = psk.identity(Derivation::Standard, Version::One, &long.host, &long.subsystem);
        assert!(psk.tls_key(Derivation::Standard, &one.unwrap()).is_ok());
    }

    #[test]
    fn a_derivation_is_read_by_its_name() {
        for derivation in [Derivation::Standard, Derivation::Legacy] {
            assert_eq!(derivation.to_string().parse(), Ok(derivation));
        }
        assert!("new".parse::<Derivation>().is_err());
        assert_eq!(format!("{:?}", TlsKey(Zeroizing::new(vec![1]))), "TlsKey(…)");
    }
}
