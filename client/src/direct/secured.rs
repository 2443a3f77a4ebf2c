//! TLS of a direct connection: the key of its credential, and the errors of the handshake.
//!
//! Spec: docs/direct-protocol.md, TLS. The key is that of the credential or of the bearer; there is no other secret.

use std::os::fd::OwnedFd;

use nearflash_direct::client::ClientSession;

use super::credentials::{Credentials, CredentialsError};
use super::error::{Error, TlsFault};
use super::session::Connection;
use super::shared::Shared;
use super::slots::Slots;
use super::url::{Place, Url};

/// Checks that a URL with TLS can be used, before anything is connected.
pub(super) fn check(url: &Url, credentials: &Credentials) -> Result<(), Error> {
    match url.place {
        Place::Tls { .. } if cfg!(not(feature = "tls")) => {
            Err(Error::Tls { place: url.place.to_string(), fault: TlsFault::Absent })
        }
        Place::Tls { .. } if credentials.id().is_none() => Err(CredentialsError::NoneForTls.into()),
        Place::Tls { .. } | Place::Tcp { .. } | Place::Local(_) => Ok(()),
    }
}

/// A connection over a new socket, whose handshake of TLS is over.
#[cfg(feature = "tls")]
pub(super) fn connect(
    shared: &Shared,
    socket: OwnedFd,
    session: ClientSession,
    slots: Slots,
    staging_len: usize,
) -> Result<Connection, Error> {
    use nearflash_direct::TlsIdentity;
    use nearflash_tls::{PskKey, Suite};

    use crate::stream::{TlsKey, connect_tls};

    let (key, secret) = shared.credentials.key().ok_or(CredentialsError::NoneForTls)?;
    let identity = TlsIdentity::of(&key).expect("the id of a credential is short");
    let key = PskKey::new(Suite::Aes128Sha256, identity.tls_key(&secret).bytes());
    let key = TlsKey { identity: identity.to_string().into_bytes(), key };
    let secured = connect_tls(socket, &key, shared.options.silence_max);
    let secured = secured.map_err(|error| error_of(shared, error))?;
    Ok(Connection::secured(secured, session, slots, staging_len))
}

/// The alerts of a node that refuses the key: illegal_parameter, which OpenSSL sends, decrypt_error and
/// unknown_psk_identity. RFC 8446, 6.2.
#[cfg(feature = "tls")]
const ALERTS_OF_KEYS: [u8; 3] = [47, 51, 115];

#[cfg(feature = "tls")]
fn error_of(shared: &Shared, error: crate::stream::TlsError) -> Error {
    use super::error::Lost;
    use crate::stream::TlsError;

    let place = shared.url.place.to_string();
    let fault = match error {
        TlsError::Closed => return Error::ConnectionLost(Lost::ClosedInHandshake),
        TlsError::Silent { within } => {
            return Error::Silent { place, what: "the handshake of TLS", within };
        }
        TlsError::Socket(source) => return Error::ConnectionLost(Lost::System(source.kind())),
        TlsError::Refused { alert } if ALERTS_OF_KEYS.contains(&alert) => TlsFault::Refused,
        TlsError::NoTls => TlsFault::NotSpoken,
        error => TlsFault::Failed(error.to_string()),
    };
    Error::Tls { place, fault }
}

/// This program has no TLS.
#[cfg(not(feature = "tls"))]
pub(super) fn connect(
    shared: &Shared,
    _: OwnedFd,
    _: ClientSession,
    _: Slots,
    _: usize,
) -> Result<Connection, Error> {
    Err(Error::Tls { place: shared.url.place.to_string(), fault: TlsFault::Absent })
}
