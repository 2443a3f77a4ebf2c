//! The shared part of the client's stream protocols: a socket with a session, whole batches in each
//! call, and payload received in place. With the feature `tls`, the socket of a connection can speak
//! TLS.
//!
//! This module knows no protocol's bytes: those are in the session, behind [`Session`].

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
use nearflash_session::{Chunk, PayloadPart, Receiving};

pub(crate) use connection::Connection;
#[cfg(any(feature = "iscsi", feature = "nvme-tcp"))]
pub(crate) use connection::wait_any;
pub(crate) use error::LinkError;
pub(crate) use forecast::Place;
#[cfg(feature = "tls")]
pub use handshake::TlsError;
#[cfg(feature = "tls")]
pub(crate) use handshake::{TlsKey, connect_tls};

/// The requesting end of a protocol, as a [`Connection`] drives it. Methods without comment are
/// those of every session.
pub(crate) trait Session {
    /// The error of the other end.
    type PeerError;
    /// The number of bytes between the payloads of two answers, without digests.
    const HEADER_LEN: usize;

    fn receiving(&self) -> Receiving;
    fn handle_input(&mut self, bytes: &[u8]) -> Result<usize, Self::PeerError>;
    fn handle_payload(&mut self, bytes: &[u8]);
    /// Payload whose digest is due, for [`Self::provide_payload`].
    fn wants_payload(&self) -> Option<PayloadPart>;
    fn provide_payload(&mut self, bytes: &[u8]);
    fn output(&self) -> impl Iterator<Item = Chunk<'_>>;
    fn output_len(&self) -> usize;
    fn advance_output(&mut self, sent: usize);
    fn is_closing(&self) -> bool;
    /// Whether there are digests between headers and payload, which rule out forecasts.
    fn has_digests(&self) -> bool;
}

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
