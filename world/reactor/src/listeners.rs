//! Listening sockets, each with its protocol and access policy.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;

use nearflash_session::DoorTls;
use nearflash_shard::Door;

/// A socket that hosts or clients connect to.
#[derive(Debug)]
pub struct Listener {
    /// The protocol and the peers that it admits.
    pub door: Door,
    /// Whether connections use TLS, which iSCSI does not have.
    pub tls: DoorTls,
    /// The socket, bound and listening.
    pub socket: ListeningSocket,
}

/// A listening socket of either kind.
#[derive(Debug)]
pub enum ListeningSocket {
    /// For peers on the network.
    Tcp(TcpListener),
    /// For peers on the same machine.
    Unix(UnixListener),
}

impl ListeningSocket {
    pub(crate) fn set_blocking(&self) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => listener.set_nonblocking(false),
            Self::Unix(listener) => listener.set_nonblocking(false),
        }
    }
}

impl From<TcpListener> for ListeningSocket {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl From<UnixListener> for ListeningSocket {
    fn from(listener: UnixListener) -> Self {
        Self::Unix(listener)
    }
}

impl AsFd for ListeningSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}
