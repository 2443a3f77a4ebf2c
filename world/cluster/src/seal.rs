//! The seal of secrets in etcd. Its files, its snapshots and the operators of an external etcd do not show the keys
//! of hosts, the secrets of credentials and seals, and those of CHAP accounts.
//!
//! The whole value of such a key is sealed by AES-256-GCM. The associated data is the name of the key and the
//! number of the sealing key, so a value cannot be moved to another key or to another cluster. Sealing key 1
//! comes from the secret that each node has in its token, and nobody else.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nearflash_records::Key;
use nearflash_records::access::SealedRecord;
use nearflash_records::record::{Record, Schema};
use nearflash_records::token::PeerSecret;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use uuid::Uuid;
use zeroize::Zeroizing;

/// The number of the sealing key that comes from the token.
const FIRST_KEY: u32 = 1;

/// The purpose of the derived key.
const PURPOSE: &[u8] = b"nearflash seal 1";

/// The sealing key of a cluster.
#[derive(Clone)]
pub(super) struct Seal {
    cluster: Uuid,
    key: Arc<LessSafeKey>,
    random: SystemRandom,
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal").finish_non_exhaustive()
    }
}

impl Seal {
    /// The sealing key that comes from the secret of the nodes of this cluster.
    pub(super) fn new(secret: &PeerSecret, cluster: Uuid) -> Self {
        let drawn = Salt::new(HKDF_SHA256, cluster.as_bytes()).extract(secret);
        let expanded = drawn.expand(&[PURPOSE], &AES_256_GCM).expect("it is one block");
        let key = Arc::new(LessSafeKey::new(UnboundKey::from(expanded)));
        Self { cluster, key, random: SystemRandom::new() }
    }

    /// Whether the value of a key with this name is sealed.
    pub(super) fn is_for(&self, name: &str) -> bool {
        Key::parse(self.cluster, name).is_ok_and(|key| key.is_secret())
    }

    /// The value as etcd gets it. `None` if the system gives no random bytes.
    pub(super) fn seal(&self, name: &str, value: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).ok()?;
        let mut sealed = Zeroizing::new(value.to_vec());
        let unique = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(unique, aad(name, FIRST_KEY), &mut *sealed).ok()?;
        let record = SealedRecord {
            schema: Schema,
            key: FIRST_KEY,
            nonce: STANDARD.encode(nonce),
            sealed: STANDARD.encode(&*sealed),
        };
        Some(record.encode())
    }

    /// The value that was sealed. `None` if it does not open: another key has sealed it, it was moved, or it is
    /// damaged.
    pub(super) fn open(&self, name: &str, value: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let record = SealedRecord::decode(value).ok().filter(|it| it.key == FIRST_KEY)?;
        let nonce: [u8; NONCE_LEN] = STANDARD.decode(&record.nonce).ok()?.try_into().ok()?;
        let mut sealed = Zeroizing::new(STANDARD.decode(&record.sealed).ok()?);
        let unique = Nonce::assume_unique_for_key(nonce);
        let opened = self.key.open_in_place(unique, aad(name, record.key), &mut sealed).ok()?;
        Some(Zeroizing::new(opened.to_vec()))
    }
}

/// The data that the seal binds the value to.
fn aad(name: &str, key: u32) -> Aad<Vec<u8>> {
    Aad::from(format!("{name} {key}").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: Uuid = Uuid::from_u128(7);

    fn seal_of(secret: u8) -> Seal {
        Seal::new(&[secret; 32], CLUSTER)
    }

    #[test]
    fn a_sealed_value_opens_under_its_own_name_and_key_only() {
        let (seal, value) = (seal_of(1), b"{\"secret\":\"hush\"}");
        let name = Key::Grant(5).path(CLUSTER);
        let sealed = seal.seal(&name, value).unwrap();
        assert!(!sealed.windows(4).any(|part| part == b"hush"));
        assert_eq!(seal.open(&name, &sealed).unwrap().as_slice(), value);
        assert_ne!(sealed, seal.seal(&name, value).unwrap(), "each seal has a nonce of its own");
        assert!(seal.open(&Key::Grant(6).path(CLUSTER), &sealed).is_none(), "moved");
        assert!(seal_of(2).open(&name, &sealed).is_none(), "another cluster's secret");
        let mut damaged = SealedRecord::decode(&sealed).unwrap();
        let first = damaged.sealed.remove(0);
        damaged.sealed.insert(0, if first == 'A' { 'B' } else { 'A' });
        assert!(seal.open(&name, &damaged.encode()).is_none(), "damaged");
    }

    #[test]
    fn a_value_that_nobody_has_sealed_does_not_open() {
        for value in [
            &b""[..],
            b"{}",
            b"null",
            b"{\"schema\":1,\"key\":1,\"nonce\":\"0\",\"sealed\":\"\xff\"}",
        ] {
            assert!(seal_of(1).open("x", value).is_none());
        }
        let odd = SealedRecord {
            schema: Schema,
            key: 1,
            nonce: "abc".to_owned(),
            sealed: "\u{e9}a".to_owned(),
        };
        assert!(seal_of(1).open("x", &odd.encode()).is_none());
    }
}
