//! When a socket is ready, as a tokio runtime tells it.

use std::io;
use std::net::TcpStream as StdTcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;

use rustix::net::AddressFamily;
use rustix::net::sockopt::socket_domain;
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

/// A socket that is watched, and read and written by others.
pub(super) enum Readiness {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Readiness {
    /// Of a socket that does not block.
    pub(super) fn of(socket: OwnedFd) -> io::Result<Self> {
        Ok(match socket_domain(&socket)? {
            AddressFamily::UNIX => Self::Unix(UnixStream::from_std(StdUnixStream::from(socket))?),
            _ => Self::Tcp(TcpStream::from_std(StdTcpStream::from(socket))?),
        })
    }

    /// Waits until it is ready, or cannot be watched any more.
    pub(super) async fn ready(&self, interest: Interest) {
        // What is wrong with a socket, whoever reads it finds out.
        let _ = match self {
            Self::Tcp(socket) => socket.ready(interest).await,
            Self::Unix(socket) => socket.ready(interest).await,
        };
    }

    /// If it is ready, tries something, after which it is no longer ready if the result says that
    /// the socket had no more. What comes meanwhile makes it ready again. `None` if it is not ready.
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
        // What it says is in the result.
        let _ = match self {
            Self::Tcp(socket) => socket.try_io(interest, tried),
            Self::Unix(socket) => socket.try_io(interest, tried),
        };
        result
    }
}
