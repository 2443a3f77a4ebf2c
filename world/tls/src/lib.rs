//! TLS 1.3 with external pre-shared keys, over OpenSSL.
//!
//! Spec: RFC 8446, 2.2, 4.2.11 and 5; NVMe/TCP Transport 1.0, 3.6.1. Only TLS 1.3, only the key exchange `psk_dhe_ke`,
//! and only the suites TLS_AES_128_GCM_SHA256 and TLS_AES_256_GCM_SHA384. No certificates, no early data, and no
//! session tickets: hosts of Linux end a connection when a ticket arrives.
//!
//! OpenSSL, because rustls has no external pre-shared keys. The safe bindings of OpenSSL have only the callbacks
//! of TLS 1.2, which cannot select SHA-384. This crate therefore calls the library itself, and all its `unsafe` code is
//! in `openssl`, `library`, `stream` and `wire`. The library is loaded when TLS is first used.
//!
//! A [`Stream`] is one end of a connection. Bytes of the peer and plaintext go in, and plaintext and bytes for the
//! peer come out. It has no socket and no clock. This crate does not know NVMe: a [`KeySource`] finds the key
//! of an identity.
//!
//! A server can [export](Server::exporting_keys) the keys of an open connection's records, to the kernel that handles them
//! from then on.
//!
//! Invariants: keys are overwritten when dropped and never printed. The bytes that a stream holds are bounded by
//! its caller: it takes no input while it [holds](Stream::holds_input) some, and takes no plaintext before its output was
//! [sent](Stream::take_output).
#![allow(unsafe_code)] // OpenSSL; every block says why it is sound

#[cfg(target_env = "musl")]
mod absent;
mod error;
#[cfg(not(target_env = "musl"))]
mod hello;
mod key;
#[cfg(not(target_env = "musl"))]
mod library;
#[cfg(not(target_env = "musl"))]
mod openssl;
#[cfg(not(target_env = "musl"))]
mod stream;
#[cfg(not(target_env = "musl"))]
mod traffic;
#[cfg(not(target_env = "musl"))]
mod wire;

#[cfg(test)]
#[cfg(not(target_env = "musl"))]
mod tests;

#[cfg(target_env = "musl")]
pub use absent::{Client, Server, Stream};
pub use error::{Failure, LibraryError, StartError};
pub use key::{DirectionKeys, IV_LEN, Identity, KeySource, PskKey, Suite, TrafficKeys};
#[cfg(not(target_env = "musl"))]
pub use library::{Client, Server};
#[cfg(not(target_env = "musl"))]
pub use stream::Stream;

/// The plaintext of the longest record. RFC 8446, 5.1.
pub const RECORD_LEN: usize = 16 * 1024;

/// The bytes that a record adds to its plaintext: header, content type and tag. RFC 8446, 5.2.
pub const RECORD_OVERHEAD: usize = 5 + 1 + 16;

/// The first byte of a connection with TLS: the content type of a handshake. RFC 8446, 5.1.
pub const HANDSHAKE_BYTE: u8 = 0x16;

/// Opened plaintext.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Opened {
    /// The number of bytes of plaintext; zero if no record is complete.
    Bytes(usize),
    /// The peer has ended the connection, and there is no plaintext left.
    Closed,
}
