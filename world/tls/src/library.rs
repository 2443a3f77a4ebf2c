//! OpenSSL: the configuration of both ends, and the callbacks that find keys.

use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::error::StartError;
use crate::hello::identities;
use crate::key::{Identity, KeySource, PskKey, Suite};
use crate::openssl as ffi;
use crate::stream::Stream;
use crate::wire::{self, Keys, Wire};

/// The extension `pre_shared_key`. RFC 8446, 4.2.
const PRE_SHARED_KEY: c_uint = 41;
/// The alert `unknown_psk_identity`. RFC 8446, 6.2.
const UNKNOWN_PSK_IDENTITY: c_int = 115;

impl Suite {
    /// Its number. RFC 8446, B.4.
    const fn id(self) -> [u8; 2] {
        match self {
            Self::Aes128Sha256 => [0x13, 0x01],
            Self::Aes256Sha384 => [0x13, 0x02],
        }
    }

    const fn c_name(self) -> &'static CStr {
        match self {
            Self::Aes128Sha256 => c"TLS_AES_128_GCM_SHA256",
            Self::Aes256Sha384 => c"TLS_AES_256_GCM_SHA384",
        }
    }
}

/// The configuration of one end, which its connections share.
#[derive(Debug)]
struct Context(NonNull<ffi::SSL_CTX>);

// SAFETY: the library counts its uses atomically, and it is not changed after it was made.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was made by the library, and connections that are left have counted their use.
        unsafe { ffi::SSL_CTX_free(self.0.as_ptr()) }
    }
}

/// The groups of a handshake. TLS 1.3 requires the second one of everybody (RFC 8446, 9.1); both take tens of
/// microseconds. A peer that could choose larger ones would stop the core for up to 0.2 s.
const GROUPS: &CStr = c"X25519:P-256";

impl Context {
    /// The part of the configuration that both ends share.
    fn new(method: unsafe fn() -> *const ffi::SSL_METHOD) -> Result<Self, StartError> {
        if !ffi::load() {
            return Err(StartError::Missing);
        }
        // SAFETY: the method is one of the library's.
        let made = unsafe { NonNull::new(ffi::SSL_CTX_new(method())) };
        let context = Self(made.ok_or_else(StartError::last)?);
        let it = context.0.as_ptr();
        // SAFETY: the context is valid, and the text is static.
        let is_set = unsafe {
            let suites = c"TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256".as_ptr();
            ffi::configure(it)
                && ffi::SSL_CTX_set_ciphersuites(it, suites) == 1
                && ffi::set_groups(it, GROUPS)
                && ffi::SSL_CTX_set_num_tickets(it, 0) == 1
        };
        if is_set { Ok(context) } else { Err(StartError::last()) }
    }

    /// A connection over a wire.
    fn connection(&self, keys: Keys) -> Result<Stream, StartError> {
        // SAFETY: the context is valid.
        let ssl = unsafe { NonNull::new(ffi::SSL_new(self.0.as_ptr())) };
        Stream::over(ssl.ok_or_else(StartError::last)?, Wire::new(keys))
    }
}

/// The server's end of connections.
#[derive(Debug)]
pub struct Server {
    context: Context,
    source: Arc<dyn KeySource>,
}

impl Server {
    /// A server whose keys are these.
    ///
    /// # Errors
    /// If the library refuses the configuration, or is missing.
    pub fn new(source: Arc<dyn KeySource>) -> Result<Self, StartError> {
        let context = Context::new(ffi::TLS_server_method)?;
        // SAFETY: the context is valid, and the callbacks have the signatures that the library requires.
        unsafe {
            let it = context.0.as_ptr();
            ffi::SSL_CTX_set_psk_find_session_callback(it, Some(find_session));
            ffi::SSL_CTX_set_client_hello_cb(it, Some(read_hello), ptr::null_mut());
        }
        Ok(Self { context, source })
    }

    /// The same server; its connections [export](Stream::take_traffic_keys) the keys of their records.
    #[must_use]
    pub fn exporting_keys(self) -> Self {
        // SAFETY: the context is valid, and the callback has the signature that the library requires.
        unsafe { ffi::SSL_CTX_set_keylog_callback(self.context.0.as_ptr(), Some(keep_secret)) };
        self
    }

    /// The server's end of a new connection.
    ///
    /// # Errors
    /// If the library has no memory.
    pub fn accept(&self) -> Result<Stream, StartError> {
        let source = Arc::clone(&self.source);
        let stream = self.context.connection(Keys::Server {
            source,
            identity: None,
            key: None,
            suite: None,
        })?;
        // SAFETY: the connection is valid and new.
        unsafe { ffi::SSL_set_accept_state(stream.ssl()) };
        Ok(stream)
    }
}

/// The client's end of connections.
#[derive(Debug)]
pub struct Client {
    context: Context,
}

#[cfg(test)]
impl Client {
    /// A client with other groups than ours.
    pub(crate) fn with_groups(groups: &CStr) -> Self {
        let client = Self::new().unwrap();
        // SAFETY: the context is valid, and nobody else has it.
        assert!(unsafe { ffi::set_groups(client.context.0.as_ptr(), groups) });
        client
    }
}

impl Client {
    /// A client.
    ///
    /// # Errors
    /// If the library refuses the configuration, or is missing.
    pub fn new() -> Result<Self, StartError> {
        let context = Context::new(ffi::TLS_client_method)?;
        // A server that takes no PSK sends a certificate. No issuer is trusted, so the client refuses it.
        // SAFETY: as for the server.
        unsafe {
            ffi::SSL_CTX_set_psk_use_session_callback(context.0.as_ptr(), Some(use_session));
            ffi::SSL_CTX_set_verify(context.0.as_ptr(), ffi::SSL_VERIFY_PEER, None);
        }
        Ok(Self { context })
    }

    /// The client's end of a new connection, with this key.
    ///
    /// # Errors
    /// If the library has no memory.
    pub fn connect(&self, identity: &[u8], key: PskKey) -> Result<Stream, StartError> {
        let stream = self.context.connection(Keys::Client { identity: identity.into(), key })?;
        // SAFETY: the connection is valid and new.
        unsafe { ffi::SSL_set_connect_state(stream.ssl()) };
        Ok(stream)
    }
}

/// Keeps the secrets from which the keys of records follow.
unsafe extern "C" fn keep_secret(ssl: *const ffi::SSL, line: *const c_char) {
    // SAFETY: the library calls with a connection of a stream, and with a text that lives until this returns.
    unsafe {
        let line = CStr::from_ptr(line);
        wire::of_connection(ssl.cast_mut()).secrets.read(line.to_bytes());
    }
}

/// Looks up the identities of a ClientHello. The suite must be that of the key: without that, the library selects the
/// suite first, and then drops keys of the other hash.
unsafe extern "C" fn read_hello(ssl: *mut ffi::SSL, alert: *mut c_int, _: *mut c_void) -> c_int {
    let (mut bytes, mut len) = (ptr::null(), 0);
    // SAFETY: the library calls with a connection of a stream, and with room for the alert. The bytes that it
    // returns live until the callback ends.
    let (wire, extension) = unsafe {
        *alert = UNKNOWN_PSK_IDENTITY;
        if ffi::SSL_client_hello_get0_ext(ssl, PRE_SHARED_KEY, &raw mut bytes, &raw mut len) != 1 {
            return ffi::SSL_CLIENT_HELLO_ERROR;
        }
        (wire::of_connection(ssl), std::slice::from_raw_parts(bytes, len))
    };
    let Keys::Server { source, identity, key, .. } = &mut wire.keys else {
        return ffi::SSL_CLIENT_HELLO_ERROR;
    };
    for offered in identities(extension) {
        let found = source.key(offered);
        if identity.is_none() || found.is_some() {
            *identity = Some(Identity { bytes: offered.into(), has_key: found.is_some() });
        }
        let Some(found) = found else { continue };
        let suite = found.suite().c_name();
        *key = Some(found);
        // SAFETY: the connection is valid, and the text is static.
        let is_set = unsafe { ffi::SSL_set_ciphersuites(ssl, suite.as_ptr()) };
        return if is_set == 1 {
            ffi::SSL_CLIENT_HELLO_SUCCESS
        } else {
            ffi::SSL_CLIENT_HELLO_ERROR
        };
    }
    ffi::SSL_CLIENT_HELLO_ERROR
}

/// The session of the identity that [`read_hello`] has selected, and no session for another one.
unsafe extern "C" fn find_session(
    ssl: *mut ffi::SSL,
    identity: *const c_uchar,
    len: usize,
    session: *mut *mut ffi::SSL_SESSION,
) -> c_int {
    // SAFETY: the library calls with a connection of a stream, an identity of this length, and room for a session.
    unsafe {
        *session = ptr::null_mut();
        let offered = std::slice::from_raw_parts(identity, len);
        let key = match &wire::of_connection(ssl).keys {
            Keys::Server { identity: Some(selected), key: Some(key), .. }
                if *selected.bytes == *offered =>
            {
                key.clone()
            }
            _ => return 1,
        };
        *session = session_of(ssl, &key);
        c_int::from(!(*session).is_null())
    }
}

/// The client's only session, unless the handshake is for another hash.
unsafe extern "C" fn use_session(
    ssl: *mut ffi::SSL,
    _: *const ffi::EVP_MD,
    identity: *mut *const c_uchar,
    len: *mut usize,
    session: *mut *mut ffi::SSL_SESSION,
) -> c_int {
    // SAFETY: the library calls with a connection of a stream, and with room for the results. The identity lives as
    // long as the wire.
    unsafe {
        let Keys::Client { identity: ours, key } = &wire::of_connection(ssl).keys else { return 0 };
        let (bytes, count, key) = (ours.as_ptr(), ours.len(), key.clone());
        (*identity, *len) = (bytes, count);
        *session = session_of(ssl, &key);
        c_int::from(!(*session).is_null())
    }
}

/// A session with a key. Null if the library has no memory.
///
/// # Safety
/// The connection must be valid, and no reference to its wire may exist.
unsafe fn session_of(ssl: *mut ffi::SSL, key: &PskKey) -> *mut ffi::SSL_SESSION {
    let (id, secret) = (key.suite().id(), key.secret());
    // SAFETY: the arguments are valid, with their exact lengths; the library copies the key.
    unsafe {
        let session = ffi::SSL_SESSION_new();
        if session.is_null() {
            return session;
        }
        let is_set = ffi::SSL_SESSION_set1_master_key(session, secret.as_ptr(), secret.len()) == 1
            && ffi::SSL_SESSION_set_cipher(session, ffi::SSL_CIPHER_find(ssl, id.as_ptr())) == 1
            && ffi::SSL_SESSION_set_protocol_version(session, ffi::TLS1_3_VERSION) == 1;
        if !is_set {
            ffi::SSL_SESSION_free(session);
            return ptr::null_mut();
        }
        session
    }
}
