//! The TLS PSKs of a node's keys, and the key that TLS has proved for a connection.
//!
//! The handshake of TLS comes before the first byte of a session, so the driver looks the PSK up among the exports,
//! and tells the session which key was proved. HELLO must name the same key. Everything else is as without TLS:
//! PROVE follows, and it decides on void bearers, so that their clients learn the reason. An expired credential
//! proves nothing to TLS: a handshake costs the core more than a refusal.

use nearflash_session::ServingEnd;

use super::exports::{CredentialExport, Exports};
use super::handles::Who;
use super::{State, TargetSession};
use crate::secret::Secret;
use crate::tls::{TlsIdentity, TlsIdentityError, TlsKey};
use crate::wire::{BearerId, SALT_LEN, SealKey, is_operator};

/// Why an identity has no TLS PSK. The message continues one that names the identity.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TlsKeyRefused {
    /// It is not an identity.
    #[error("not a TLS identity: {0}")]
    Identity(#[from] TlsIdentityError),
    /// There is no such credential.
    #[error("there is no credential of this name: create one with 'nearflash credential create'")]
    Unknown,
    /// The credential has expired.
    #[error("its credential has expired: create one with 'nearflash credential create'")]
    Expired,
    /// The bearer is that of a client without a credential. Such bearers are no secret among these clients.
    #[error(
        "the bearer is that of an anonymous client: TLS needs one of a client with a credential"
    )]
    Anonymous,
}

impl CredentialExport {
    /// The secret, unless it proves nothing any more.
    fn tls_secret(&self) -> Result<&Secret, TlsKeyRefused> {
        if self.expired { Err(TlsKeyRefused::Expired) } else { Ok(&self.secret) }
    }
}

impl Exports {
    /// The TLS PSK of the identity that a client has sent. `salt` is that of the node's seal keys.
    ///
    /// # Errors
    /// If it is not an identity, or its key does not exist or has expired.
    pub fn tls_key(&self, identity: &[u8], salt: [u8; SALT_LEN]) -> Result<TlsKey, TlsKeyRefused> {
        let identity = TlsIdentity::parse(identity)?;
        Ok(identity.tls_key(&self.tls_secret(identity.key(), salt)?))
    }

    fn tls_secret(&self, key: &str, salt: [u8; SALT_LEN]) -> Result<Secret, TlsKeyRefused> {
        let Ok(bearer) = key.parse::<BearerId>() else {
            return self.credential(key).ok_or(TlsKeyRefused::Unknown)?.tls_secret().cloned();
        };
        let (key, minter) = self.seal_key(&bearer.minter, bearer.generation, bearer.volume, salt);
        match minter {
            Some(Who::Anonymous) => Err(TlsKeyRefused::Anonymous),
            Some(minter) if !minter.is_admitted(self) => Err(TlsKeyRefused::Expired),
            Some(_) => Ok(key.bearer_secret(&bearer)),
            None => Err(TlsKeyRefused::Unknown),
        }
    }

    /// A seal key, and its minter if there is one. The time does not depend on whether there is.
    pub(super) fn seal_key(
        &self,
        name: &str,
        generation: u32,
        volume: [u8; 16],
        salt: [u8; SALT_LEN],
    ) -> (SealKey, Option<Who>) {
        let salt = if is_operator(name) { [0; SALT_LEN] } else { salt };
        let derive = |minter| SealKey::derive(minter, generation, volume, salt);
        if name.is_empty() {
            return (derive(None), Some(Who::Anonymous));
        }
        let credential = self.minter(name);
        let nobody = Secret::new([0; 32]);
        let secret = credential.map_or(&nobody, |credential| &credential.secret);
        let minter = credential.map(|it| Who::Key(name.into(), it.secret.clone()));
        (derive(Some((name, secret))), minter)
    }
}

impl TargetSession {
    /// Whether the session must be told which key TLS has proved, if the connection uses TLS: nothing of HELLO
    /// has been taken yet.
    #[inline]
    pub fn awaits_hello(&self) -> bool {
        matches!(self.state, State::AwaitingHello) && !self.is_closing()
    }

    /// TLS has proved that the client has this key.
    pub fn set_tls_identity(&mut self, identity: &TlsIdentity) {
        self.tls_key_id = Some(identity.key().into());
    }

    /// Whether TLS has proved a key.
    pub fn is_secured(&self) -> bool {
        self.tls_key_id.is_some()
    }

    /// Whether HELLO may name this key.
    pub(super) fn is_proved_by_tls(&self, key: &[u8]) -> bool {
        self.tls_key_id.as_ref().is_none_or(|proved| proved.as_bytes() == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::target::{KEY, SALT, UUID, exports, secret};
    use crate::wire::{Bearer, operator_name};

    fn key_of(exports: &Exports, key: &str) -> Result<TlsKey, TlsKeyRefused> {
        exports.tls_key(TlsIdentity::of(key).unwrap().to_string().as_bytes(), SALT)
    }

    fn of_bearer(bearer: &Bearer) -> TlsKey {
        TlsIdentity::of(&bearer.id()).unwrap().tls_key(bearer.secret())
    }

    #[test]
    fn credentials_and_bearers_have_the_keys_that_their_clients_derive() {
        let exports = exports(true, 3);
        let credential = TlsIdentity::of(KEY).unwrap().tls_key(&secret());
        assert_eq!(key_of(&exports, KEY), Ok(credential));
        let minted = SealKey::derive(Some((KEY, &secret())), 2, UUID, SALT).bearer(60);
        assert_eq!(key_of(&exports, &minted.id()), Ok(of_bearer(&minted)));
        let other_salt = SealKey::derive(Some((KEY, &secret())), 2, UUID, [9; SALT_LEN]).bearer(60);
        assert_ne!(key_of(&exports, &other_salt.id()), Ok(of_bearer(&other_salt)));
    }

    #[test]
    fn the_seals_of_operators_have_keys_without_any_credential() {
        let name = operator_name(7);
        let credential = CredentialExport {
            secret: secret(),
            expired: false,
            access: std::collections::HashMap::new(),
        };
        let exports = exports(false, 3).with_operator_seals([(name.clone(), credential)]);
        let bearer = SealKey::of_operator(7, &secret(), UUID).bearer(u64::MAX);
        assert_eq!(key_of(&exports, &bearer.id()), Ok(of_bearer(&bearer)));
        assert_eq!(key_of(&exports, &name), Err(TlsKeyRefused::Unknown), "nobody enters with it");
    }

    #[test]
    fn an_expired_credential_and_its_seals_have_no_key() {
        let access = std::collections::HashMap::new();
        let credential = CredentialExport { secret: secret(), expired: true, access };
        let exports = Exports::new([], [(KEY.into(), credential.clone())])
            .with_operator_seals([(operator_name(7), credential)]);
        let bearers = [
            SealKey::of_operator(7, &secret(), UUID).bearer(u64::MAX),
            SealKey::derive(Some((KEY, &secret())), 1, UUID, SALT).bearer(u64::MAX),
        ];
        for bearer in bearers {
            assert_eq!(key_of(&exports, &bearer.id()), Err(TlsKeyRefused::Expired));
        }
        assert_eq!(key_of(&exports, KEY), Err(TlsKeyRefused::Expired));
    }

    #[test]
    fn other_identities_have_no_key_and_their_reason() {
        let exports = exports(true, 3);
        assert_eq!(key_of(&exports, "nobody"), Err(TlsKeyRefused::Unknown));
        let nobody = SealKey::derive(Some(("nobody", &secret())), 1, UUID, SALT).bearer(60);
        assert_eq!(key_of(&exports, &nobody.id()), Err(TlsKeyRefused::Unknown));
        let anonymous = SealKey::derive(None, 1, UUID, SALT).bearer(60);
        assert_eq!(key_of(&exports, &anonymous.id()), Err(TlsKeyRefused::Anonymous));
        let refused = exports.tls_key(b"NVMe1R01 a b", SALT);
        assert_eq!(refused, Err(TlsKeyRefused::Identity(TlsIdentityError)));
    }
}
