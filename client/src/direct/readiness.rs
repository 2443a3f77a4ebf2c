//! The readiness of a socket, as a tokio runtime reports it.

use std::io;
use std::net::TcpStream as StdTcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;

use rustix::net::AddressFamily;
use rustix::net::sockopt::socket_domain;
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

/// A socket that the runtime watches, and the connection reads and writes.
pub(super) enum Readiness {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Readiness {
    /// Watches a non-blocking socket.
    pub(super) fn of(socket: OwnedFd) -> io::Result<Self> {
        Ok(match socket_domain(&socket)? {
            AddressFamily::UNIX => Self::Unix(UnixStream::from_std(StdUnixStream::from(socket))?),
            _ => Self::Tcp(TcpStream::from_std(StdTcpStream::from(socket))?),
        })
    }

    /// Waits until the socket is ready, or cannot be watched any more.
    pub(super) async fn ready(&self, interest: Interest) {
        // The next read reports an error of the socket.
        let _ = match self {
            Self::Tcp(socket) => socket.ready(interest).await,
            Self::Unix(socket) => socket.ready(interest).await,
        };
    }

    /// If the socket is ready, makes an attempt, and clears the readiness if the result says that
    /// the socket had no more. New data sets it again. `None` if the socket is not ready.
    pub(super) fn attempt<T>(
        &self,
        interest: Interest,
        attempt: impl FnOnce() -> T,
        had_no_more: impl FnOnce(&T) -> bool,
    ) -> Option<T> {
        let mut result = None;
        let tried = || match had_no_more(result.insert(attempt())) {
            true => Err(io::ErrorKind::WouldBlock.into()),
            false => Ok(()),
        };
        // The error only repeats the result.
        let _ = match self {
            Self::Tcp(socket) => socket.try_io(interest, tried),
            Self::Unix(socket) => socket.try_io(interest, tried),
        };
        result
    }
}
