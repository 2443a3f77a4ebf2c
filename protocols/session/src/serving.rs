//! The serving end of a protocol: the interface to the driver of a connection.

use nearflash_request::{BufferId, Completion, Due, VolumeId};
use nearflash_units::{ByteLen, Nanos};

use crate::outbox::Outbox;
use crate::output::Chunk;
use crate::receiving::Receiving;

/// The serving end of one connection: bytes of the stream in, requests out; their answers in, bytes
/// and payload buffers of the stream out. Knows nothing of sockets, or of memory of payload.
///
/// A driver's turn: ask [`Self::receiving`], give bytes to [`Self::handle_input`] or payload to its
/// buffer and then to [`Self::handle_payload`]; satisfy [`Self::wants_buffer`]; take every demand,
/// which are the protocol's own; give every answer; send [`Self::output`] and tell
/// [`Self::advance_output`].
///
/// A payload buffer belongs to the session from [`Self::provide_buffer`] until its request is
/// polled, and from [`Self::handle_completion`] until it is sent. The engine gives back those that
/// came with a request.
pub trait ServingEnd {
    /// The peer broke the protocol, or ended the connection.
    type PeerError;

    /// The destination of the next bytes of the stream.
    fn receiving(&self) -> Receiving;

    /// Takes bytes of the stream: all headers and small data in them. Returns how many were
    /// consumed. It stops where payload begins and where [`Self::receiving`] says to pause; what it
    /// did not consume is given again, or its payload part to [`Self::handle_payload`]. However the
    /// stream is cut, the outcome is the same.
    ///
    /// # Errors
    /// When the peer broke the protocol or ended the connection: the session is closing.
    fn handle_input(&mut self, bytes: &[u8]) -> Result<usize, Self::PeerError>;

    /// Payload has come into the buffer that [`Self::receiving`] named; `bytes` is a view of it.
    ///
    /// # Panics
    /// When that many were not awaited.
    fn handle_payload(&mut self, bytes: &[u8]);

    /// Whether the peer owes data: of a PDU, or solicited. It may visit every command: call seldom.
    fn awaits_data(&self) -> bool;

    /// The length of the buffer that a command's payload is waiting for, if any: what is next in
    /// the stream, or the oldest of those whose data is asked for when there is a buffer.
    fn wants(&self, due: Due) -> Option<ByteLen>;

    /// The volume of the command that [`Self::wants`] is about, if it has one.
    fn volume_of_want(&self, due: Due) -> Option<VolumeId>;

    /// The buffer that [`Self::wants`] asked for, of at least that length.
    ///
    /// # Panics
    /// When none was asked for.
    fn provide(&mut self, due: Due, buffer: BufferId);

    /// The length of the buffer that is wanted first, if any.
    #[inline]
    fn wants_buffer(&self) -> Option<ByteLen> {
        self.wants(Due::Next).or_else(|| self.wants(Due::Later))
    }

    /// Whether the buffer that [`Self::wants_buffer`] asks for is for what is next in the stream:
    /// nothing of it moves before it is there.
    #[inline]
    fn stands_still(&self) -> bool {
        self.wants(Due::Next).is_some()
    }

    /// The buffer that [`Self::wants_buffer`] asked for.
    #[inline]
    fn provide_buffer(&mut self, buffer: BufferId) {
        self.provide(if self.stands_still() { Due::Next } else { Due::Later }, buffer);
    }

    /// There may never be a buffer for what is next: whether this session makes do without.
    fn give_way(&mut self) -> bool {
        false
    }

    /// Whether [`Self::handle_completion`] needs the bytes of reads, to digest them.
    fn wants_payload_bytes(&self) -> bool;

    /// The engine's answer. `payload` is the bytes of its buffer when
    /// [`Self::wants_payload_bytes`], otherwise it may be empty. The buffer is the session's until
    /// it is sent.
    ///
    /// # Panics
    /// When no such request is in flight, or a read succeeded without payload.
    fn handle_completion(&mut self, done: Completion, payload: &[u8]);

    /// Whether an answer has made it ask for something: the next piece of what goes piece by piece,
    /// or what waited until commands were answered.
    fn asks_on(&self) -> bool {
        false
    }

    /// The output to send, and the buffers to give back.
    fn outbox(&self) -> &Outbox;

    /// The same, to be changed.
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

    /// The first `sent` bytes of [`Self::output`] are sent: gives unused buffers to `released`.
    ///
    /// # Panics
    /// When more was sent than there is.
    #[inline]
    fn advance_output(&mut self, sent: usize, released: &mut impl FnMut(BufferId)) {
        self.outbox_mut().advance(sent, released);
    }

    /// Time has passed: to be told about once a second, so deadlines are kept to the second.
    ///
    /// # Errors
    /// When the peer did not do in time what it must: the session is closing.
    fn handle_timeout(&mut self, now: Nanos) -> Result<(), Self::PeerError>;

    /// This end goes down: ends a session in good order, if the protocol has a message for it.
    fn shut_down(&mut self) {}

    /// Whether the connection ends: close it once the output is sent.
    fn is_closing(&self) -> bool;

    /// Nothing more is received: names the buffers of unfinished commands to `released`.
    fn release_incoming(&mut self, released: &mut impl FnMut(BufferId));

    /// The connection is gone: names every buffer that the session holds to `released`. Buffers of
    /// requests that were polled are not among them: they come back with their completions.
    fn release_all(&mut self, released: &mut impl FnMut(BufferId));
}
