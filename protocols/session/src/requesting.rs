//! The requesting end of a protocol: the interface to the driver of a connection.

use crate::output::Chunk;
use crate::receiving::{PayloadPart, Receiving};

/// The requesting end of one connection. Commands go in, and bytes and payload of the stream come
/// out; bytes of the stream go in, and completions come out. It has no sockets and no payload
/// memory.
///
/// The loop of a driver: submit commands; commands and completions are specific to the protocol.
/// Serve [`Self::wants_payload`]. Send [`Self::output`] and report the length to
/// [`Self::advance_output`]. Ask [`Self::receiving`] for the destination of incoming bytes, and pass
/// them to [`Self::handle_input`], or receive them into the payload buffer and call
/// [`Self::handle_payload`]. Take every completion.
///
/// Buffers belong to the caller. The buffer of a command is not used after its completion was
/// polled.
pub trait RequestingEnd {
    /// The peer violated the protocol, or ended the connection.
    type PeerError: std::fmt::Debug;

    /// The number of bytes between the payloads of two answers, without digests.
    const HEADER_LEN: usize;

    /// The destination of the next bytes of the stream.
    fn receiving(&self) -> Receiving;

    /// Takes bytes of the stream: all headers and small data in them. Returns the number of
    /// consumed bytes. It stops where payload begins, and where [`Self::receiving`] returns a
    /// pause. The outcome does not depend on how the stream is split.
    ///
    /// # Errors
    /// When the peer violated the protocol or ended the connection: the session is closing.
    fn handle_input(&mut self, bytes: &[u8]) -> Result<usize, Self::PeerError>;

    /// Records that payload was received into the buffer that [`Self::receiving`] named; `bytes` is
    /// a view of it.
    ///
    /// # Panics
    /// When this many bytes were not expected.
    fn handle_payload(&mut self, bytes: &[u8]);

    /// The payload whose digest is needed before it can be sent, oldest first. Only with data
    /// digests.
    #[inline]
    fn wants_payload(&self) -> Option<PayloadPart> {
        None
    }

    /// Passes in the bytes that [`Self::wants_payload`] named.
    ///
    /// # Panics
    /// When no bytes were named, or `bytes` has another length.
    fn provide_payload(&mut self, _bytes: &[u8]) {
        unreachable!("payload is provided only when it is wanted")
    }

    /// The chunks to send, in stream order, from where the last send stopped.
    fn output(&self) -> impl Iterator<Item = Chunk<'_>>;

    /// The number of bytes left to send.
    fn output_len(&self) -> usize;

    /// Records that the first `sent` bytes of [`Self::output`] were sent.
    ///
    /// # Panics
    /// When more was sent than there is.
    fn advance_output(&mut self, sent: usize);

    /// Whether the connection is ending: the driver closes it once the output is sent.
    fn is_closing(&self) -> bool;

    /// Whether there are digests between headers and payload.
    fn has_digests(&self) -> bool;
}
