//! The errors of a connection.

use std::io;

use rustix::io::Errno;

/// An error of a connection; `P` is the error of the other end.
#[derive(Debug)]
pub(crate) enum LinkError<P> {
    /// The other end closed the connection.
    Closed,
    /// The socket failed.
    Socket(io::Error),
    /// The other end violated the protocol.
    Peer(P),
}

/// The number of bytes that a call moved; `None` when it would have blocked.
#[inline]
pub(super) fn taken<P>(result: Result<usize, Errno>) -> Result<Option<usize>, LinkError<P>> {
    match result {
        Ok(len) => Ok(Some(len)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(Errno::PIPE | Errno::CONNRESET) => Err(LinkError::Closed),
        Err(errno) => Err(LinkError::Socket(errno.into())),
    }
}
