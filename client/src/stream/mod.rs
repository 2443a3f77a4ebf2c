//! The shared part of the client's stream protocols: a socket with a session, whole batches in each
//! call, and payload received in place. With the feature `tls`, the socket of a connection can speak
//! TLS.
//!
//! This module knows no protocol's bytes: those are in the session, behind
//! [`RequestingEnd`](nearflash_session::RequestingEnd).

mod connection;
mod error;
mod forecast;
#[cfg(feature = "tls")]
mod handshake;
#[cfg(feature = "tls")]
mod over_tls;
mod received;
mod scatter;
mod scattered;
#[cfg(feature = "tls")]
mod secured;
#[cfg(test)]
#[cfg(feature = "tls")]
mod tests;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use nearflash_request::BufferId;

pub(crate) use connection::Connection;
#[cfg(any(feature = "iscsi", feature = "nvme-tcp"))]
pub(crate) use connection::wait_any;
pub(crate) use error::LinkError;
pub(crate) use forecast::Place;
#[cfg(feature = "tls")]
pub use handshake::TlsError;
#[cfg(feature = "tls")]
pub(crate) use handshake::{TlsKey, connect_tls};

/// The memory of a connection's payload.
pub(crate) trait Memory {
    fn bytes(&self, buffer: BufferId) -> &[u8];
    fn bytes_mut(&mut self, buffer: BufferId) -> &mut [u8];
    /// All buffers, in the order of their numbers, so that one call can receive into several.
    /// Skipping some costs nothing.
    fn all_mut(&mut self) -> impl Iterator<Item = &mut [u8]>;
}

/// Connects a TCP socket for the data path.
pub(crate) fn connect_tcp(address: SocketAddr, timeout: Duration) -> io::Result<OwnedFd> {
    let stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    if address.ip().to_canonical().is_loopback() {
        // As on the node's side: pacing has no use on a loopback, and costs bandwidth. A kernel
        // without cubic keeps its default.
        let _ = socket2::SockRef::from(&stream).set_tcp_congestion(b"cubic");
    }
    Ok(stream.into())
}
