//! One end of a connection.

use std::fmt;
use std::mem;
use std::ptr::NonNull;

use crate::Opened;
use crate::error::{Failure, StartError};
use crate::key::{Identity, PskKey, TrafficKeys};
use crate::openssl as ffi;
use crate::wire::{self, Keys, Wire};

/// One end of a connection: plaintext on one side, records on the other.
pub struct Stream {
    ssl: NonNull<ffi::SSL>,
    /// Freed after `ssl`. References to it are short: the library uses it, too.
    wire: NonNull<Wire>,
    is_ready: bool,
    /// Whether plaintext was opened or sealed.
    has_records: bool,
    /// The last call stopped because there was no more room for plaintext.
    holds_input: bool,
}

// SAFETY: the library permits a connection to be used by any thread, one at a time; it has no other owner.
unsafe impl Send for Stream {}
// SAFETY: calls of the library borrow the stream exclusively. A shared borrow reads only the output and the
// keys of the wire.
unsafe impl Sync for Stream {}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: both are owned, and freed once. The BIO that points to the wire is freed with the connection.
        unsafe {
            ffi::SSL_free(self.ssl.as_ptr());
            drop(Box::from_raw(self.wire.as_ptr()));
        }
    }
}

impl Stream {
    /// Takes over a new connection.
    pub(crate) fn over(ssl: NonNull<ffi::SSL>, wire: Wire) -> Result<Self, StartError> {
        let wire = NonNull::from(Box::leak(Box::new(wire)));
        // From here on, both are freed by `drop`.
        let stream = Self { ssl, wire, is_ready: false, has_records: false, holds_input: false };
        let bio = wire::bio(wire)?.as_ptr();
        // SAFETY: all are valid. The connection takes over the BIO, once for both directions.
        unsafe { ffi::SSL_set_bio(ssl.as_ptr(), bio, bio) };
        Ok(stream)
    }

    pub(crate) fn ssl(&self) -> *mut ffi::SSL {
        self.ssl.as_ptr()
    }

    fn wire(&self) -> &Wire {
        // SAFETY: it lives as long as the stream, and the library only uses it within calls, which borrow
        // the stream exclusively.
        unsafe { self.wire.as_ref() }
    }

    fn wire_mut(&mut self) -> &mut Wire {
        // SAFETY: as above.
        unsafe { self.wire.as_mut() }
    }

    /// Whether the handshake is over.
    pub const fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Whether it has input that [`Self::open`] can take further without more of it.
    pub const fn holds_input(&self) -> bool {
        self.holds_input
    }

    /// The identity that the client has sent to this server: one that has a key, or else the first one.
    pub fn identity(&self) -> Option<&Identity> {
        match &self.wire().keys {
            Keys::Server { identity, .. } => identity.as_ref(),
            Keys::Client { .. } => None,
        }
    }

    /// The keys of the records that follow the handshake, for a kernel that handles them instead of this stream. `None`
    /// unless the server [exports](crate::Server::exporting_keys) keys, and no record was received or sent. The
    /// stream keeps no keys that it could export.
    pub fn take_traffic_keys(&mut self) -> Option<TrafficKeys> {
        let Keys::Server { suite: Some(suite), .. } = self.wire().keys else { return None };
        let secrets = mem::take(&mut self.wire_mut().secrets);
        // SAFETY: the connection is valid.
        let has_pending = unsafe { ffi::SSL_has_pending(self.ssl()) } == 1;
        let is_new = !self.has_records && !has_pending && !self.wire().holds_input();
        if is_new { secrets.of_server(suite) } else { None }
    }

    /// Proceeds with the handshake. Returns whether it is over. Its output must be sent in any case, because it
    /// may be an alert.
    ///
    /// # Errors
    /// If the peer has no key, another key, or violates the protocol.
    pub fn handshake(&mut self, input: &[u8]) -> Result<bool, Failure> {
        self.wire_mut().lend(input);
        // SAFETY: the connection is valid, and the input is lent for this call.
        let result = unsafe { ffi::SSL_do_handshake(self.ssl()) };
        let failed = (result != 1).then(|| self.error(result)).flatten();
        // SAFETY: the connection is valid.
        let has_psk = unsafe { ffi::SSL_session_reused(self.ssl()) } == 1;
        let wire = self.wire_mut();
        wire.take_back();
        if let Some(failure) = failed {
            return Err(failure);
        }
        if result == 1 {
            match &mut wire.keys {
                // It may have been removed or replaced since the first message of the handshake.
                Keys::Server { source, identity, key, suite } => {
                    let used = key.take();
                    *suite = used.as_ref().map(PskKey::suite);
                    let now = identity.as_ref().and_then(|it| source.key(&it.bytes));
                    if !used.zip(now).is_some_and(|(used, now)| used.is(&now)) {
                        return Err(Failure::NoKey);
                    }
                }
                Keys::Client { .. } if has_psk => {}
                Keys::Client { .. } => return Err(Failure::NotProved),
            }
            self.is_ready = true;
            // Records may have followed the handshake.
            self.holds_input = true;
        }
        Ok(self.is_ready)
    }

    /// Decrypts input into the parts, one after the other. It keeps the input for which there is no room.
    ///
    /// # Errors
    /// If a record was changed on its way, or the peer violates the protocol.
    pub fn open(&mut self, input: &[u8], parts: [&mut [u8]; 2]) -> Result<Opened, Failure> {
        self.has_records = true;
        self.wire_mut().lend(input);
        let opened = self.open_lent(parts);
        self.wire_mut().take_back();
        opened
    }

    fn open_lent(&mut self, parts: [&mut [u8]; 2]) -> Result<Opened, Failure> {
        let mut opened = 0;
        self.holds_input = false;
        for part in parts {
            let mut filled = 0;
            while filled < part.len() {
                let (room, mut len) = (&mut part[filled..], 0);
                // SAFETY: the room is exclusively borrowed, with its exact length; the library only writes to it.
                let result = unsafe {
                    ffi::SSL_read_ex(self.ssl(), room.as_mut_ptr().cast(), room.len(), &raw mut len)
                };
                if result == 1 {
                    filled += len;
                    continue;
                }
                opened += filled;
                // SAFETY: the connection is valid.
                let is_over =
                    unsafe { ffi::SSL_get_error(self.ssl(), result) } == ffi::SSL_ERROR_ZERO_RETURN;
                return match self.error(result) {
                    _ if is_over && opened == 0 => Ok(Opened::Closed),
                    _ if is_over => {
                        // The next call returns that it is closed.
                        self.holds_input = true;
                        Ok(Opened::Bytes(opened))
                    }
                    Some(failure) => Err(failure),
                    None => Ok(Opened::Bytes(opened)),
                };
            }
            opened += filled;
        }
        self.holds_input = true;
        Ok(Opened::Bytes(opened))
    }

    /// Encrypts plaintext to the output.
    ///
    /// # Errors
    /// If the handshake is not over, or the connection has failed.
    pub fn seal(&mut self, plaintext: &[u8]) -> Result<(), Failure> {
        if plaintext.is_empty() {
            return Ok(());
        }
        self.has_records = true;
        let mut len = 0;
        // SAFETY: the plaintext is borrowed for this call, with its exact length.
        let result = unsafe {
            let bytes = plaintext.as_ptr().cast();
            ffi::SSL_write_ex(self.ssl(), bytes, plaintext.len(), &raw mut len)
        };
        // The output always has room, so that all of the plaintext is written.
        if result == 1 { Ok(()) } else { Err(self.error(result).unwrap_or_else(Failure::last)) }
    }

    /// Tells the peer that nothing follows, in the output.
    pub fn close(&mut self) {
        if !self.is_ready {
            return;
        }
        // SAFETY: the connection is valid. If it has failed, nothing is written.
        let result = unsafe { ffi::SSL_shutdown(self.ssl()) };
        if result < 0 {
            let _ = self.error(result);
        }
    }

    /// The output to send.
    pub fn output(&self) -> &[u8] {
        &self.wire().output
    }

    /// Takes the output, and leaves the memory of `spare` for more of it.
    pub fn take_output(&mut self, spare: Vec<u8>) -> Vec<u8> {
        mem::replace(&mut self.wire_mut().output, spare)
    }

    /// The failure of a call with this result; `None` if it only needs more input.
    fn error(&mut self, result: i32) -> Option<Failure> {
        // SAFETY: the connection is valid, and the last call was one of it.
        match unsafe { ffi::SSL_get_error(self.ssl(), result) } {
            ffi::SSL_ERROR_WANT_READ | ffi::SSL_ERROR_WANT_WRITE => None,
            _ => Some(Failure::last()),
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("is_ready", &self.is_ready).finish_non_exhaustive()
    }
}
