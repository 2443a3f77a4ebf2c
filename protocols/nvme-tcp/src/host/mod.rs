//! The host's end of one connection: commands go in and the outgoing stream comes out; the incoming
//! stream goes in and completions come out.
//!
//! Spec: NVMe/TCP 1.1, 3. One session is one queue pair. A host with several queues has several
//! sessions. A session has no sockets and no payload memory, and does not interpret commands.
//!
//! The loop of a driver: call [`HostSession::submit`] for the pending commands. Send
//! [`HostSession::output`] and report the length to [`HostSession::advance_output`]. Ask
//! [`HostSession::receiving`] for the destination of incoming bytes: pass them to
//! [`HostSession::handle_input`], or receive them into the payload buffer and call
//! [`HostSession::handle_payload`]. Take every [`HostSession::poll_completion`]. With data digests,
//! also serve [`HostSession::wants_payload`].
//!
//! Buffers belong to the caller. A command's buffer is not used after its completion was polled.
//!
//! Invariants: every submitted command completes once, or the session is closing and
//! [`HostSession::in_flight`] returns the commands that never will. The queue's entries bound the
//! memory.

mod config;
mod end;
mod input;
mod submit;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use nearflash_nvme::{CommandId, CompletionEntry, ControllerId};
use zerocopy::IntoBytes;

pub use config::{HostCompletion, HostConfig, SubmitError};
pub use nearflash_session::{CommandData, PayloadPart, RequestingEnd};

use crate::digest::Digests;
use crate::error::PeerError;
use crate::framer::{Accepted, Framer, Rules};
use crate::pdu::{DataAlignment, InitPdu, PduType};
use nearflash_session::{Output, Posted};
use submit::PendingPart;

/// The limit of outgoing parts above which the session receives nothing more. A full queue stays
/// below it unless the controller does not read.
const PARTS_MAX: usize = 64 * 1024;

/// The connection's state, which determines the PDUs that are allowed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// ICReq was sent.
    AwaitingIcResp,
    /// Connect was sent.
    Connecting,
    /// The queue is connected.
    Ready,
    /// Pending output is sent, and nothing more is received.
    Closing,
}

/// The destination of the current PDU's data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Sink {
    cid: u16,
    /// Whether the command completes with the end of the data.
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
    /// Parts of payload that an R2T requested and that wait for their data digest.
    parts: VecDeque<PendingPart>,
    /// CPDA and MAXH2CDATA of the controller.
    controller_alignment: DataAlignment,
    h2c_data_len_max: u32,
    output: Output,
    connected: Option<CompletionEntry>,
}

/// The PDU types that a host receives.
const ACCEPTED: &[PduType] = &[
    PduType::C2H_DATA,
    PduType::CAPSULE_RESP,
    PduType::R2T,
    PduType::IC_RESP,
    PduType::C2H_TERM_REQ,
];

impl HostSession {
    /// A session for a new connection. Its output holds ICReq.
    ///
    /// # Panics
    /// If the queue has fewer than two entries or the alignment is not valid.
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
        let request = InitPdu::request(config.alignment, config.digests.into(), 0);
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

    /// The completion of Connect, once it has arrived.
    pub fn connect_response(&self) -> Option<CompletionEntry> {
        self.connected
    }

    /// The controller to which an admin queue is connected.
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

    /// The digests in use. They are negotiated by ICReq and ICResp.
    pub fn digests(&self) -> Digests {
        self.framer.rules.digests
    }

    /// The next completion. The command's slot in the queue becomes free.
    #[inline]
    pub fn poll_completion(&mut self) -> Option<HostCompletion> {
        let (cid, command) = self.posted.poll()?;
        let (entry, data) = (command.answer, command.take_small());
        Some(HostCompletion { cid: CommandId(cid), entry, data })
    }

    /// The number of commands in flight: submitted, with their completion not polled.
    #[inline]
    pub fn commands_in_flight(&self) -> usize {
        self.posted.in_use()
    }

    /// The commands in flight. On a lost connection these never complete.
    pub fn in_flight(&self) -> impl Iterator<Item = CommandId> {
        self.posted.in_flight().map(CommandId)
    }

    /// Ends the connection because of `error`, with the termination request that the specification
    /// defines. [`Self::handle_input`] does this by itself.
    pub fn terminate(&mut self, error: PeerError) {
        self.close(&error, &[]);
    }

    fn close(&mut self, error: &PeerError, header: &[u8]) {
        if self.state == State::Closing {
            return;
        }
        self.state = State::Closing;
        error.push_request(&mut self.output, PduType::H2C_TERM_REQ, header);
    }
}
