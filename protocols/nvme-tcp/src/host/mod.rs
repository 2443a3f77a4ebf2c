//! The host's end of one connection: commands in, bytes and payload buffers of the stream out;
//! bytes in, completions out.
//!
//! Spec: NVMe/TCP 1.1, 3. One session is one queue pair; a host that wants several has several
//! sessions. Knows nothing of sockets, of memory of payload, or of what a command asks.
//!
//! A driver's turn: [`HostSession::submit`] as much as there is; send [`HostSession::output`] and
//! tell [`HostSession::advance_output`]; ask [`HostSession::receiving`], give bytes to
//! [`HostSession::handle_input`] or payload to its buffer and then to
//! [`HostSession::handle_payload`]; take every [`HostSession::poll_completion`]. With data digests,
//! also satisfy [`HostSession::wants_payload`].
//!
//! Buffers stay the caller's. A command's is not touched after its completion was polled.
//!
//! Invariants: every command submitted completes once, or the session is closing and
//! [`HostSession::in_flight`] names those that never will; memory is bounded by the queue's entries.

mod config;
mod input;
mod submit;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use nearflash_nvme::{CommandId, CompletionEntry, ControllerId};
use nearflash_request::BufferId;
use zerocopy::IntoBytes;

pub use config::{HostCompletion, HostConfig, HostData, SubmitError};
pub use nearflash_session::PayloadPart;

use crate::digest::Digests;
use crate::error::PeerError;
use crate::framer::{Accepted, Framer, Rules};
use crate::pdu::{DataAlignment, IcReq, PduType, TermReq};
use nearflash_session::{Chunk, Output, Posted};
use submit::PendingPart;

/// Parts waiting to be sent, past which nothing more is received: more than a full queue of
/// commands makes unless the controller does not read.
const PARTS_MAX: usize = 64 * 1024;

/// What the connection is, and so which PDUs may come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// ICReq is on its way.
    AwaitingIcResp,
    /// Connect is on its way.
    Connecting,
    /// A queue.
    Ready,
    /// What is queued is sent, nothing more is received.
    Closing,
}

/// Where the data of the current PDU goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Sink {
    cid: u16,
    /// The command is over once the data has come.
    completes: bool,
}

/// The host's end of one connection.
#[derive(Debug)]
pub struct HostSession {
    config: HostConfig,
    state: State,
    framer: Framer,
    sink: Option<Sink>,
    /// Commands by their identifier.
    posted: Posted<CompletionEntry>,
    /// Parts of payload that the controller asked for, waiting for their data digest.
    parts: VecDeque<PendingPart>,
    /// How the controller wants data aligned, and how much in one PDU.
    controller_alignment: DataAlignment,
    h2c_data_len_max: u32,
    output: Output,
    connected: Option<CompletionEntry>,
}

/// What a host receives.
const ACCEPTED: &[PduType] = &[
    PduType::C2H_DATA,
    PduType::CAPSULE_RESP,
    PduType::R2T,
    PduType::IC_RESP,
    PduType::C2H_TERM_REQ,
];

impl HostSession {
    /// The end of a connection that was just made. ICReq is in its output.
    ///
    /// # Panics
    /// When the queue has fewer than two entries or the alignment is none.
    pub fn new(config: HostConfig) -> Self {
        assert!(config.sq_entries >= 2, "a queue has at least two entries");
        assert!(config.alignment.is_valid(), "an alignment is at most 128 bytes");
        let rules = Rules {
            digests: Digests::NONE,
            alignment: config.alignment,
            capsule_data_max: 0,
            data_max: usize::MAX,
            accepted: Accepted::only(ACCEPTED),
        };
        let mut output = Output::default();
        let request = IcReq::new(config.alignment, config.digests.into(), 0);
        output.push_bytes(request.as_bytes());
        Self {
            state: State::AwaitingIcResp,
            framer: Framer::new(rules),
            sink: None,
            posted: Posted::new(config.sq_entries - 1),
            parts: VecDeque::new(),
            controller_alignment: DataAlignment(0),
            h2c_data_len_max: 0,
            output,
            connected: None,
            config,
        }
    }

    /// The answer to Connect, good or bad, once it is there.
    pub fn connect_response(&self) -> Option<CompletionEntry> {
        self.connected
    }

    /// The controller that an admin queue was connected to.
    pub fn controller(&self) -> Option<ControllerId> {
        let entry = self.connected.filter(|entry| entry.status().is_success())?;
        let [low, high, ..] = entry.dw0.get().to_le_bytes();
        Some(ControllerId(u16::from_le_bytes([low, high])))
    }

    /// Whether commands can be submitted.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// The digests agreed, once the transport's parameters are.
    pub fn digests(&self) -> Digests {
        self.framer.rules.digests
    }

    /// The next command that is over. Its place in the queue is free from here on.
    #[inline]
    pub fn poll_completion(&mut self) -> Option<HostCompletion> {
        let (cid, command) = self.posted.poll()?;
        let (entry, data) = (command.answer, command.take_small());
        Some(HostCompletion { cid: CommandId(cid), entry, data })
    }

    /// How many commands are in flight: submitted, and their completion not polled.
    #[inline]
    pub fn commands_in_flight(&self) -> usize {
        self.posted.in_use()
    }

    /// The commands in flight: on a lost connection, those that will never complete.
    pub fn in_flight(&self) -> impl Iterator<Item = CommandId> {
        self.posted.in_flight().map(CommandId)
    }

    /// What to send, in stream order, from where the last send stopped.
    pub fn output(&self) -> impl Iterator<Item = Chunk<'_>> {
        self.output.chunks()
    }

    /// How many bytes that is.
    #[inline]
    pub fn output_len(&self) -> usize {
        self.output.len()
    }

    /// The first `sent` bytes of [`Self::output`] are sent.
    ///
    /// # Panics
    /// When more was sent than there is.
    #[inline]
    pub fn advance_output(&mut self, sent: usize) {
        self.output.advance(sent, &mut |_: BufferId| {});
        self.posted.sent(self.output.position());
    }

    /// Ends the connection for `error`, telling the controller what the specification has for it.
    /// [`Self::handle_input`] does so by itself.
    pub fn terminate(&mut self, error: PeerError) {
        self.close(&error, &[]);
    }

    /// Whether the connection ends: close it once the output is sent.
    pub fn is_closing(&self) -> bool {
        self.state == State::Closing
    }

    fn close(&mut self, error: &PeerError, header: &[u8]) {
        if self.state == State::Closing {
            return;
        }
        self.state = State::Closing;
        if let Some((status, information)) = error.fatal_status() {
            let header = &header[..header.len().min(TermReq::DATA_LEN_MAX)];
            let header_len = u8::try_from(header.len()).expect("at most 128 bytes");
            let request = TermReq::new(PduType::H2C_TERM_REQ, status, information, header_len);
            self.output.push_bytes(request.as_bytes());
            self.output.push_bytes(header);
        }
    }
}
