//! Why a connection does not go on.

use std::io;

use rustix::io::Errno;

/// Why a connection does not go on, `P` being what the other end did wrong.
#[derive(Debug)]
pub(crate) enum LinkError<P> {
    /// The other end closed it.
    Closed,
    /// The socket failed.
    Socket(io::Error),
    /// The other end broke the protocol.
    Peer(P),
}

/// How many bytes a call moved; `None` when it would have had to wait.
#[inline]
pub(super) fn taken<P>(result: Result<usize, Errno>) -> Result<Option<usize>, LinkError<P>> {
    match result {
        Ok(len) => Ok(Some(len)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(Errno::PIPE | Errno::CONNRESET) => Err(LinkError::Closed),
        Err(errno) => Err(LinkError::Socket(errno.into())),
    }
}
