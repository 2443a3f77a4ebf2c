//! The session itself.

use std::sync::Arc;

use nearflash_request::{BufferId, Completion};
use nearflash_session::{Chunk, Output, Receiving};
use nearflash_units::{ByteLen, Nanos};

use super::{Demand, Exports, RingOutput, SessionConfig};
use crate::error::PeerError;
use crate::wire::{HEADER_LEN, Status};

/// The node's end of one connection.
#[derive(Debug)]
pub struct TargetSession {
    config: SessionConfig,
    exports: Arc<Exports>,
    handshake_until: Option<Nanos>,
    output: Output,
    closing: bool,
}

impl TargetSession {
    /// The end of a connection that was just accepted.
    ///
    /// # Panics
    /// When a limit is not what its field of the configuration says.
    pub fn new(config: SessionConfig, exports: Arc<Exports>, now: Nanos) -> Self {
        let handshake_until = Some(now.plus(config.handshake_timeout));
        Self { config, exports, handshake_until, output: Output::default(), closing: false }
    }

    /// Volumes or grants changed. What was handed out goes on; whatever is handed out from now on
    /// is decided by these.
    pub fn set_exports(&mut self, exports: Arc<Exports>) {
        self.exports = exports;
    }

    /// Whether the client is in: the handshake is over.
    pub fn is_ready(&self) -> bool {
        false
    }

    /// The key that the client came with, once it is in; `None` for an anonymous one.
    pub fn key(&self) -> Option<&str> {
        None
    }

    /// How many requests are in flight: taken and not answered.
    pub fn requests_in_flight(&self) -> usize {
        0
    }

    /// Where the next bytes of the stream belong.
    pub fn receiving(&self) -> Receiving {
        Receiving::Bytes
    }

    /// Takes bytes of the stream: all headers and small payload in them. Returns how many were
    /// consumed. It stops where payload begins and where [`Self::receiving`] says to pause; what it
    /// did not consume is given again, or its payload part to [`Self::handle_payload`]. However the
    /// stream is cut, the outcome is the same.
    ///
    /// # Errors
    /// When the client broke the protocol or ended the connection: the session is closing.
    pub fn handle_input(&mut self, bytes: &[u8]) -> Result<usize, PeerError> {
        Ok(bytes.len())
    }

    /// The next bytes of the payload are in the buffer that [`Self::receiving`] named; here they
    /// are once more.
    ///
    /// # Panics
    /// When that many were not awaited.
    pub fn handle_payload(&mut self, bytes: &[u8]) {
        let _ = bytes;
    }

    /// How large a buffer a request's payload is waiting for, if one is.
    pub fn wants_buffer(&self) -> Option<ByteLen> {
        None
    }

    /// Whether the buffer that [`Self::wants_buffer`] asks for is for what is next in the stream:
    /// nothing moves before it is there.
    pub fn stands_still(&self) -> bool {
        false
    }

    /// The buffer that [`Self::wants_buffer`] asked for, of at least that length.
    ///
    /// # Panics
    /// When none was asked for.
    pub fn provide_buffer(&mut self, buffer: BufferId) {
        let _ = buffer;
    }

    /// Whether the client owes the rest of a message.
    pub fn awaits_data(&self) -> bool {
        false
    }

    /// What is to be done next, oldest first.
    pub fn poll_demand(&mut self) -> Option<Demand> {
        None
    }

    /// Whether [`Self::handle_completion`] needs to see the bytes of reads, because they are
    /// digested.
    pub fn wants_payload_bytes(&self) -> bool {
        false
    }

    /// The engine's answer. `payload` is the bytes of its buffer when
    /// [`Self::wants_payload_bytes`], otherwise it may be empty. The buffer is the session's until
    /// it is sent.
    ///
    /// # Panics
    /// When no such request is in flight, or a read succeeded without payload.
    pub fn handle_completion(&mut self, done: Completion, payload: &[u8]) {
        let _ = (done, payload);
    }

    /// The answer to [`Demand::Attach`]. When the rings are made, their descriptors go to the
    /// client with the next bytes that are sent.
    ///
    /// # Panics
    /// When none was demanded.
    pub fn handle_attached(&mut self, made: Result<(), Status>) {
        let _ = made;
    }

    /// Whether [`Self::handle_entry`] may be called: rings are attached, and the client takes what
    /// it is answered.
    pub fn takes_entries(&self) -> bool {
        false
    }

    /// An entry of the submission ring, copied out of it. `copy_in` copies bytes out of the data
    /// area at an offset; it is called only for what lies within.
    ///
    /// # Errors
    /// When the client broke the protocol: the session is closing.
    pub fn handle_entry(
        &mut self,
        entry: &[u8; HEADER_LEN],
        copy_in: &mut dyn FnMut(u64, &mut [u8]),
    ) -> Result<(), PeerError> {
        let _ = (entry, copy_in);
        Ok(())
    }

    /// What is to be done next for a client with rings, oldest first.
    pub fn poll_ring(&mut self) -> Option<RingOutput> {
        None
    }

    /// What to send, in stream order, from where the last send stopped.
    pub fn output(&self) -> impl Iterator<Item = Chunk<'_>> {
        self.output.chunks()
    }

    /// How many bytes that is.
    pub fn output_len(&self) -> usize {
        self.output.len()
    }

    /// The first `sent` bytes of [`Self::output`] are sent. Buffers that are of no more use are
    /// named to `released`: each is to be given back.
    ///
    /// # Panics
    /// When more was sent than there is.
    pub fn advance_output(&mut self, sent: usize, released: &mut impl FnMut(BufferId)) {
        self.output.advance(sent, released);
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        self.handshake_until
    }

    /// Time has passed.
    ///
    /// # Errors
    /// When the client was not in in time: the session is closing.
    pub fn handle_timeout(&mut self, now: Nanos) -> Result<(), PeerError> {
        match self.handshake_until {
            Some(until) if until <= now => {
                self.terminate(PeerError::Silent);
                Err(PeerError::Silent)
            }
            _ => Ok(()),
        }
    }

    /// Ends the connection for `error`, telling the client why. [`Self::handle_input`],
    /// [`Self::handle_entry`] and [`Self::handle_timeout`] do so by themselves.
    pub fn terminate(&mut self, error: PeerError) {
        let _ = (error, self.config);
        self.handshake_until = None;
        self.closing = true;
    }

    /// Whether the connection ends: close it once the output is sent.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// The connection is gone: names every buffer that the session holds to `released`. Buffers of
    /// requests that were polled are not among them: they come back with their completions.
    pub fn release_all(&mut self, released: &mut impl FnMut(BufferId)) {
        self.output.clear(released);
    }
}
