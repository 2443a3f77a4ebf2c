//! What the client's ends of stream protocols share: a socket with a session on it, whole batches
//! in each call, and payload received where it belongs.
//!
//! Knows nothing of any protocol's bytes: the session has them, behind [`Session`].

mod connection;
mod error;
mod forecast;
mod scatter;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use nearflash_request::BufferId;
use nearflash_session::{Chunk, PayloadPart, Receiving};

pub(crate) use connection::{Connection, wait_any};
pub(crate) use error::LinkError;
pub(crate) use forecast::Place;

/// The asking end of a protocol, as a [`Connection`] drives it. Methods mean what they mean in every
/// session.
pub(crate) trait Session {
    /// What the other end did wrong.
    type PeerError;
    /// How many bytes stand between the payloads of two answers, when no digests do.
    const HEADER_LEN: usize;

    fn receiving(&self) -> Receiving;
    fn handle_input(&mut self, bytes: &[u8]) -> Result<usize, Self::PeerError>;
    fn handle_payload(&mut self, bytes: &[u8]);
    /// Payload whose digest is due: to be given to [`Self::provide_payload`].
    fn wants_payload(&self) -> Option<PayloadPart>;
    fn provide_payload(&mut self, bytes: &[u8]);
    fn output(&self) -> impl Iterator<Item = Chunk<'_>>;
    fn output_len(&self) -> usize;
    fn advance_output(&mut self, sent: usize);
    fn is_closing(&self) -> bool;
    /// Digests stand between headers and payload, and make forecast places wrong.
    fn has_digests(&self) -> bool;
}

/// The memory of a connection's payload.
pub(crate) trait Memory {
    fn bytes(&self, buffer: BufferId) -> &[u8];
    fn bytes_mut(&mut self, buffer: BufferId) -> &mut [u8];
    /// All buffers at once, each at the place of its number: several can be received into by one
    /// call. Passing over some costs nothing.
    fn all_mut(&mut self) -> impl Iterator<Item = &mut [u8]>;
}

/// A TCP socket to `address`, as the data path wants it.
pub(crate) fn connect_tcp(address: SocketAddr, timeout: Duration) -> io::Result<OwnedFd> {
    let stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    if address.ip().to_canonical().is_loopback() {
        // As at the other end: pacing costs, and has nothing to pace for on a loopback. A kernel
        // without cubic keeps its default.
        let _ = socket2::SockRef::from(&stream).set_tcp_congestion(b"cubic");
    }
    Ok(stream.into())
}
