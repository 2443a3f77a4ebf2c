//! The serving end of a protocol: the interface to the driver of a connection.

use nearflash_request::{BufferId, Completion, Due, VolumeId};
use nearflash_units::{ByteLen, Nanos};

use crate::outbox::Outbox;
use crate::output::Chunk;
use crate::receiving::Receiving;

/// The serving end of one connection. Bytes of the stream go in, and requests come out; their
/// answers go in, and bytes and payload buffers of the stream come out. It has no sockets and no
/// payload memory.
///
/// The loop of a driver: ask [`Self::receiving`] for the destination of incoming bytes, and pass
/// them to [`Self::handle_input`], or receive them into the payload buffer and call
/// [`Self::handle_payload`]. Provide the buffer that [`Self::wants_buffer`] requests. Take every
/// demand; demands are specific to the protocol. Pass in every answer. Send [`Self::output`] and
/// report the length to [`Self::advance_output`].
///
/// A payload buffer belongs to the session from [`Self::provide_buffer`] until its request is
/// polled, and from [`Self::handle_completion`] until it is sent. The engine returns those that
/// were part of a request.
pub trait ServingEnd {
    /// The peer violated the protocol, or ended the connection.
    type PeerError;

    /// The destination of the next bytes of the stream.
    fn receiving(&self) -> Receiving;

    /// Takes bytes of the stream: all headers and small data in them. Returns the number of
    /// consumed bytes. It stops where payload begins, and where [`Self::receiving`] returns a
    /// pause. The driver passes the rest again, or its payload to [`Self::handle_payload`]. The
    /// outcome does not depend on how the stream is split.
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

    /// Whether the peer owes data, of a PDU or solicited. It may visit every command, so it should
    /// be called rarely.
    fn awaits_data(&self) -> bool;

    /// The length of the buffer that a command's payload waits for, if any: the payload that is
    /// next in the stream, or otherwise the oldest that is requested only with a buffer.
    fn wants(&self, due: Due) -> Option<ByteLen>;

    /// The volume of the command of [`Self::wants`], if it has one.
    fn volume_of_want(&self, due: Due) -> Option<VolumeId>;

    /// Provides the buffer that [`Self::wants`] requests, of at least that length.
    ///
    /// # Panics
    /// When no buffer was requested.
    fn provide(&mut self, due: Due, buffer: BufferId);

    /// The length of the buffer that is needed first, if any.
    #[inline]
    fn wants_buffer(&self) -> Option<ByteLen> {
        self.wants(Due::Next).or_else(|| self.wants(Due::Later))
    }

    /// Whether the buffer of [`Self::wants_buffer`] is for the payload that is next in the stream:
    /// the stream stops until it is provided.
    #[inline]
    fn stands_still(&self) -> bool {
        self.wants(Due::Next).is_some()
    }

    /// Provides the buffer that [`Self::wants_buffer`] requests.
    #[inline]
    fn provide_buffer(&mut self, buffer: BufferId) {
        self.provide(if self.stands_still() { Due::Next } else { Due::Later }, buffer);
    }

    /// Reports that there may never be a buffer for the next payload. Returns whether this session
    /// proceeds without one.
    fn give_way(&mut self) -> bool {
        false
    }

    /// Whether [`Self::handle_completion`] needs the bytes of reads, to digest them.
    fn wants_payload_bytes(&self) -> bool;

    /// Takes the engine's answer. `payload` holds the bytes of its buffer if
    /// [`Self::wants_payload_bytes`] is true; otherwise it may be empty. The buffer belongs to the
    /// session until it is sent.
    ///
    /// # Panics
    /// When no such request is in flight, or a read succeeded without payload.
    fn handle_completion(&mut self, done: Completion, payload: &[u8]);

    /// Whether an answer has led to new demands: the next piece of a command that is executed in
    /// pieces, or an action that waited for the answers to other commands.
    fn asks_on(&self) -> bool {
        false
    }

    /// The output to send, and the buffers to return.
    fn outbox(&self) -> &Outbox;

    /// The output and the buffers, to be changed.
    fn outbox_mut(&mut self) -> &mut Outbox;

    /// The chunks to send, in stream order, from where the last send stopped.
    #[inline]
    fn output(&self) -> impl Iterator<Item = Chunk<'_>> {
        self.outbox().chunks()
    }

    /// The number of bytes left to send.
    #[inline]
    fn output_len(&self) -> usize {
        self.outbox().len()
    }

    /// Records that the first `sent` bytes of [`Self::output`] were sent. Passes unused buffers to
    /// `released`. The driver calls it with 0 when there is nothing to send: a closing session answers
    /// nothing, and still has buffers to return.
    ///
    /// # Panics
    /// When more was sent than there is.
    #[inline]
    fn advance_output(&mut self, sent: usize, released: &mut impl FnMut(BufferId)) {
        self.outbox_mut().advance(sent, released);
    }

    /// Reports the time. The driver calls it about once a second, so deadlines have a precision of
    /// a second.
    ///
    /// # Errors
    /// When the peer has missed a deadline: the session is closing.
    fn handle_timeout(&mut self, now: Nanos) -> Result<(), Self::PeerError>;

    /// Ends the session because this end shuts down, with a message if the protocol has one.
    fn shut_down(&mut self) {}

    /// Whether the connection is ending: the driver closes it once the output is sent.
    fn is_closing(&self) -> bool;

    /// Records that nothing more is received. Passes the buffers of incomplete commands to
    /// `released`.
    fn release_incoming(&mut self, released: &mut impl FnMut(BufferId));

    /// Records that the connection is closed. Passes every buffer that the session holds to
    /// `released`, except for those of polled requests: these return with their completions.
    fn release_all(&mut self, released: &mut impl FnMut(BufferId));
}
