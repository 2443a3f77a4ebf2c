//! The application's end of one connection. Requests go in, and bytes and payload buffers of the
//! stream, or entries of a ring, come out. Bytes or entries go in, and completions come out.
//!
//! The protocol is defined in `docs/direct-protocol.md`. A session has no sockets, no payload
//! memory, and no view of the stored data. It never sends a request twice: after a lost connection,
//! [`ClientSession::in_flight`] returns the requests whose outcome is unknown.
//!
//! The loop of a driver: call [`ClientSession::submit`] for the pending requests. Send
//! [`ClientSession::output`] and report the length to [`ClientSession::advance_output`]. Ask
//! [`ClientSession::receiving`] for the destination of incoming bytes: pass them to
//! [`ClientSession::handle_input`], or receive them into the payload buffer and call
//! [`ClientSession::handle_payload`]. Take every [`ClientSession::poll_completion`] and
//! [`ClientSession::poll_event`].
//!
//! Buffers belong to the caller. A request's buffer is not used after its completion was polled.
//!
//! Invariants: every submitted request completes once, or the session is closing and
//! [`ClientSession::in_flight`] returns those that never will. The credits bound the memory.

mod answers;
mod config;
mod end;
mod handshake;
mod input;
mod operation;
mod rings;
mod seals;
mod submit;
#[cfg(test)]
mod tests;
mod volumes;

use std::collections::VecDeque;

use nearflash_session::{Output, Posted};

pub use config::{
    Agreed, ClientCompletion, ClientConfig, ClientEvent, GrantedKey, RequestTag, SubmitError,
    VolumeHandle, VolumeInfo,
};
pub use nearflash_session::RequestingEnd;
pub use operation::ClientOperation;
pub use seals::Void;

use crate::error::PeerError;
use crate::secret::Secret;
use crate::stream::{self, Stream, push_message, seal};
use crate::wire::{IDENTITY_LEN, Opcode, RequestHeader, SMALL_LEN_MAX, Status};
use input::Sink;
use volumes::{Asked, Volumes};

/// The state of the connection, which determines the messages that may come.
#[derive(Debug)]
enum State {
    /// HELLO is on its way; this was said.
    AwaitingHello(Vec<u8>),
    /// PROVE was sent, over this transcript.
    AwaitingProof(Vec<u8>),
    /// In.
    Ready,
    /// Queued output is still sent; nothing more is received.
    Closing,
}

/// The path of requests on volumes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Transport {
    /// By the stream.
    Stream,
    /// Rings were requested: nothing is submitted until the answer.
    Changing,
    /// By rings.
    Rings,
}

/// The state of a request, and its answer.
#[derive(Clone, Copy, Debug)]
struct Request {
    opcode: Opcode,
    offset: u64,
    /// The first byte of the request's data in its buffer.
    buffer_offset: usize,
    /// The received segments of a read, one bit each.
    segments: u32,
    status: Status,
    value: u64,
    /// The node will say that it has accepted the request.
    awaits_received: bool,
}

impl Default for Request {
    fn default() -> Self {
        let (opcode, status) = (Opcode::FLUSH, Status::OK);
        let (buffer_offset, segments) = (0, 0);
        let awaits_received = false;
        Self { opcode, offset: 0, buffer_offset, segments, status, value: 0, awaits_received }
    }
}

/// The application's end of one connection.
#[derive(Debug)]
pub struct ClientSession {
    key: Option<(Box<str>, Secret)>,
    /// The features requested in HELLO.
    wanted: u32,
    state: State,
    agreed: Option<Agreed>,
    stream: Stream,
    sink: Sink,
    /// Payload of the session's own messages.
    small: Vec<u8>,
    posted: Posted<Request>,
    /// The number of requests that may be in flight.
    credits: u32,
    events: VecDeque<ClientEvent>,
    volumes: Volumes,
    /// The unanswered messages of the session.
    asked: Vec<(u32, Asked)>,
    asked_count: u32,
    transport: Transport,
    output: Output,
}

impl ClientSession {
    /// A session over a new connection. HELLO is in its output.
    ///
    /// # Panics
    /// When the key's name is empty or longer than [`crate::wire::NAME_LEN_MAX`].
    pub fn new(config: ClientConfig) -> Self {
        let (hello, wanted) = handshake::hello(&config);
        let mut output = Output::default();
        output.push_bytes(&hello);
        Self {
            key: config.key,
            wanted,
            state: State::AwaitingHello(hello),
            agreed: None,
            stream: stream::new(),
            sink: Sink::Drop,
            small: Vec::with_capacity(crate::length(SMALL_LEN_MAX)),
            posted: Posted::new(0),
            credits: 0,
            events: VecDeque::new(),
            volumes: Volumes::default(),
            asked: Vec::new(),
            asked_count: 0,
            transport: Transport::Stream,
            output,
        }
    }

    /// The agreed limits and features; `None` before the end of the handshake.
    pub fn agreed(&self) -> Option<&Agreed> {
        match self.state {
            State::AwaitingHello(_) | State::AwaitingProof(_) => None,
            State::Ready | State::Closing => self.agreed.as_ref(),
        }
    }

    /// Whether requests can be submitted.
    pub const fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready)
    }

    /// The next completed request. Its tag is free from now on.
    #[inline]
    pub fn poll_completion(&mut self) -> Option<ClientCompletion> {
        let (tag, request) = self.posted.poll()?;
        let Request { status, value, .. } = request.answer;
        Some(ClientCompletion { tag: RequestTag::of(tag), status, value })
    }

    /// The next event other than a completion.
    #[inline]
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        self.events.pop_front()
    }

    /// The number of further requests that can be submitted now.
    #[inline]
    pub fn credits_left(&self) -> u32 {
        let in_use = u32::try_from(self.posted.in_use()).expect("credits are 32 bits");
        if self.is_ready() { self.credits.saturating_sub(in_use) } else { 0 }
    }

    /// The number of requests in flight: submitted, and their completion not polled.
    #[inline]
    pub fn requests_in_flight(&self) -> usize {
        self.posted.in_use()
    }

    /// The requests in flight that were not answered. After a lost connection, their outcome is
    /// unknown.
    pub fn in_flight(&self) -> impl Iterator<Item = RequestTag> {
        self.posted.unanswered().map(RequestTag::of)
    }

    /// Asks whether the node is alive. [`ClientEvent::Pong`] reports the answer.
    ///
    /// # Errors
    /// When the session is not connected.
    pub fn ping(&mut self) -> Result<(), SubmitError> {
        self.ask(Opcode::PING, 0, &[], Asked::Ping)?;
        Ok(())
    }

    /// Whether the node owes an answer to a message of the session.
    pub fn has_unanswered(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Ends earlier connections that claimed the same identity. [`ClientEvent::Claimed`] reports
    /// that none of their requests is under way any more, so none of them takes effect after a
    /// later request. It must be called once, before any volume is open.
    ///
    /// # Errors
    /// When the session is not connected.
    pub fn claim(&mut self, identity: [u8; IDENTITY_LEN]) -> Result<(), SubmitError> {
        self.ask(Opcode::CLAIM, 0, &identity, Asked::Claim)?;
        Ok(())
    }

    /// Ends the connection: GOODBYE is the last message. Requests in flight are not answered.
    pub fn goodbye(&mut self) {
        self.end(Status::OK);
    }

    /// Ends the connection for `error`, and reports the reason to the node. [`Self::handle_input`]
    /// and [`Self::handle_entry`] do so themselves.
    pub fn terminate(&mut self, error: PeerError) -> PeerError {
        match error.goodbye() {
            Some((status, ..)) => self.end(status),
            None => self.state = State::Closing,
        }
        error
    }

    fn end(&mut self, status: Status) {
        if self.is_closing() {
            return;
        }
        self.state = State::Closing;
        let header = RequestHeader {
            opcode: Opcode::GOODBYE.0,
            volume: status.0.into(),
            tag: crate::wire::NO_TAG.into(),
            ..RequestHeader::default()
        };
        self.output.push_words(seal(header.to_words(), self.stream.rules.digests));
    }

    /// Sends a message of the session. The answer returns its number.
    fn ask(
        &mut self,
        opcode: Opcode,
        volume: u16,
        payload: &[u8],
        asked: Asked,
    ) -> Result<u32, SubmitError> {
        if !self.is_ready() {
            return Err(SubmitError::NotConnected);
        }
        let number = self.asked_count;
        self.asked_count = self.asked_count.wrapping_add(1);
        self.asked.push((number, asked));
        self.push_message(opcode, volume, number, payload);
        Ok(number)
    }

    fn push_message(&mut self, opcode: Opcode, volume: u16, tag: u32, payload: &[u8]) {
        let header = RequestHeader {
            opcode: opcode.0,
            volume: volume.into(),
            tag: tag.into(),
            len: u32::try_from(payload.len()).expect("small payload").into(),
            ..RequestHeader::default()
        };
        push_message(&mut self.output, header.to_words(), payload, self.stream.rules.digests);
    }
}
