//! Errors of a connection, and of the library.

use std::fmt;

#[cfg(not(target_env = "musl"))]
use crate::openssl as ffi;

/// The library's reasons of failures that have a name here.
#[cfg(not(target_env = "musl"))]
mod reasons {
    pub(super) const BINDER_DOES_NOT_VERIFY: i32 = 253;
    pub(super) const CALLBACK_FAILED: i32 = 234;
    /// The reason for the peer's alert 0; the other alerts follow.
    pub(super) const FIRST_ALERT: i32 = 1000;
}

/// Why a connection with TLS failed. It must be closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Failure {
    /// The client has proved another key than that of its identity.
    #[error("the keys of both ends differ")]
    WrongKey,
    /// The server has not proved that it has the key.
    #[error("the server does not use the key")]
    NotProved,
    /// The client offers no identity that has a key.
    #[error("no key for an identity that the client offers")]
    NoKey,
    /// The bytes are not those of the protocol, or the peer has reported an error.
    #[error("{0}")]
    Protocol(LibraryError),
}

/// An error of the library, by its number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LibraryError(pub(crate) u64);

impl Failure {
    /// The number of the alert that the peer has sent, if that is the reason. RFC 8446, 6.
    pub fn alert(self) -> Option<u8> {
        match self {
            Self::Protocol(error) => error.alert(),
            Self::WrongKey | Self::NoKey | Self::NotProved => None,
        }
    }

    /// The failure of the last call of the library in this thread.
    #[cfg(not(target_env = "musl"))]
    pub(crate) fn last() -> Self {
        let error = ffi::take_error();
        match ffi::reason_of(error) {
            reasons::BINDER_DOES_NOT_VERIFY => Self::WrongKey,
            reasons::CALLBACK_FAILED => Self::NoKey,
            _ => Self::Protocol(LibraryError(error)),
        }
    }
}

impl LibraryError {
    #[cfg(not(target_env = "musl"))]
    fn alert(self) -> Option<u8> {
        let alert = ffi::reason_of(self.0).checked_sub(reasons::FIRST_ALERT)?;
        u8::try_from(alert).ok()
    }

    #[cfg(target_env = "musl")]
    const fn alert(self) -> Option<u8> {
        None
    }
}

impl fmt::Display for LibraryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[cfg(not(target_env = "musl"))]
        if let Some(reason) = ffi::text_of(self.0) {
            return f.write_str(reason);
        }
        write!(f, "error {:#x} of OpenSSL", self.0)
    }
}

/// TLS cannot be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum StartError {
    /// The program was built without TLS.
    #[error(
        "this program has no TLS, because it is a static one: use the Debian package, or build it from source"
    )]
    Absent,
    /// The library is not installed.
    #[error("TLS needs OpenSSL, which is missing: install libssl3, or OpenSSL 1.1.1 or newer")]
    Missing,
    /// The library refuses its configuration.
    #[error("OpenSSL cannot be used ({0}): use version 1.1.1 or newer")]
    Library(LibraryError),
}

#[cfg(not(target_env = "musl"))]
impl StartError {
    /// The error of the last call of the library in this thread.
    pub(crate) fn last() -> Self {
        Self::Library(LibraryError(ffi::take_error()))
    }
}
