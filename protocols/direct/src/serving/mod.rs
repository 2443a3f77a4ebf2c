//! The node's end of one connection: bytes of the stream or entries of a ring in, requests for the
//! engine out; their answers in, bytes and payload buffers of the stream or entries out.
//!
//! The protocol is defined in `docs/direct-protocol.md`. Knows nothing of sockets, of memory of
//! payload, or of volumes beyond their number, size and grants.
//!
//! It is driven as a [`ServingEnd`]; its demands are taken with [`TargetSession::poll_demand`].
//! With rings also: while [`TargetSession::takes_entries`], give entries to
//! [`TargetSession::handle_entry`]; do every [`TargetSession::poll_ring`].
//!
//! Invariants: every request is answered once or the connection is closing; what a request may do
//! is decided by the exports that the session has when the request is handed out; memory is bounded
//! by the session's credits.

mod access;
mod answers;
mod claim;
mod config;
mod data;
mod demands;
mod end;
mod exports;
mod handles;
mod handshake;
mod input;
mod requests;
mod rings;
mod slots;
#[cfg(test)]
mod tests;
mod volumes;

use std::collections::VecDeque;
use std::sync::Arc;

use nearflash_session::Outbox;
use nearflash_units::Nanos;

pub use nearflash_session::ServingEnd;

pub use access::Access;
pub use claim::ClientIdentity;
pub use config::{
    AttachDemand, CopyInDemand, Demand, LendDemand, Place, RingOutput, SessionConfig,
};
pub use exports::{CredentialExport, Export, Exports};

use crate::error::PeerError;
use crate::stream::{self, Stream};
use crate::wire::{LEN_MAX, SMALL_LEN_MAX};
use claim::Claim;
use data::Incoming;
use demands::Ready;
use handles::{Handles, Who};
use handshake::Hello;
use rings::Rings;
use slots::Slots;

/// Own bytes waiting to be sent, past which no further request is taken: far more than all requests
/// in flight can be answered with unless the client does not read.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// The state of the connection, which determines the messages that may come.
#[derive(Debug)]
enum State {
    /// Before HELLO.
    AwaitingHello,
    /// The client has to prove who it is.
    AwaitingProof(Box<Hello>),
    /// Requests come.
    Ready(Who),
    /// Rings are being made; until then nothing is taken.
    Attaching(Who, AttachDemand, u32),
    /// Earlier connections are being ended; until then nothing is taken.
    Claiming(Who, u32),
    /// Queued output is still sent; nothing more is received.
    Closing,
}

impl State {
    /// Whose connection it is, once that is known and while it lasts.
    fn who(&self) -> Option<&Who> {
        match self {
            Self::Ready(who) | Self::Attaching(who, ..) | Self::Claiming(who, _) => Some(who),
            Self::AwaitingHello | Self::AwaitingProof(_) | Self::Closing => None,
        }
    }
}

/// The node's end of one connection.
#[derive(Debug)]
pub struct TargetSession {
    config: SessionConfig,
    exports: Arc<Exports>,
    /// Grows with every change of the exports: a request that an older one allowed is looked at
    /// again before it is handed out.
    generation: u32,
    state: State,
    /// When the client must be in.
    handshake_until: Option<Nanos>,
    stream: Stream,
    incoming: Incoming,
    /// Payload of the session's own messages, and operands.
    small: Vec<u8>,
    handles: Handles,
    slots: Slots,
    /// The number of requests that the client may have in flight.
    credits: u32,
    /// Segments to be handed out, oldest first.
    ready: VecDeque<Ready>,
    /// Rings that are to be asked for.
    attach: Option<AttachDemand>,
    rings: Option<Rings>,
    claim: Claim,
    output: Outbox,
}

impl TargetSession {
    /// The end of a connection that was just accepted.
    ///
    /// # Panics
    /// When a limit is not what its field of the configuration says.
    pub fn new(config: SessionConfig, exports: Arc<Exports>, now: Nanos) -> Self {
        assert!((1..=LEN_MAX).contains(&config.len_max), "requests have 1 byte to {LEN_MAX}");
        assert!(
            (1..u16::MAX).contains(&config.handles_max),
            "a session has 1 to 65,534 volumes open"
        );
        Self {
            exports,
            generation: 0,
            state: State::AwaitingHello,
            handshake_until: Some(now.plus(config.handshake_timeout)),
            stream: stream::new(),
            incoming: Incoming::default(),
            small: Vec::with_capacity(crate::length(SMALL_LEN_MAX)),
            handles: Handles::new(config.handles_max),
            slots: Slots::new(config.credits),
            credits: config.credits,
            ready: VecDeque::new(),
            attach: None,
            rings: None,
            claim: Claim::None,
            output: Outbox::default(),
            config,
        }
    }

    /// Volumes or grants have changed. What was handed out goes on; whatever is handed out from now
    /// on, is decided by these, requests that were taken before included.
    pub fn set_exports(&mut self, exports: Arc<Exports>) {
        self.generation = self.generation.wrapping_add(1);
        if let Some(who) = self.state.who() {
            self.handles.recompile(who, &exports);
        }
        self.exports = exports;
    }

    /// Whether the client is in: the handshake is over, and the connection is not.
    #[inline]
    pub const fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready(_) | State::Attaching(..) | State::Claiming(..))
    }

    /// The key that the client came with, once it is in; `None` for an anonymous one.
    pub fn key(&self) -> Option<&str> {
        self.state.who()?.key()
    }

    /// How many requests are in flight: taken and not answered.
    pub fn requests_in_flight(&self) -> usize {
        self.slots.in_use()
    }

    /// Ends the connection for `error`, telling the client why. [`Self::handle_input`],
    /// [`Self::handle_entry`] and [`Self::handle_timeout`] do so by themselves.
    pub fn terminate(&mut self, error: PeerError) -> PeerError {
        if !self.is_closing() {
            self.stop();
            if let Some((status, tag, value)) = error.goodbye() {
                self.push_goodbye(status, tag, value);
            }
        }
        error
    }

    /// Nothing more is received. What was received is still handed out, as if it had been polled
    /// before.
    fn stop(&mut self) {
        self.state = State::Closing;
        self.handshake_until = None;
        self.attach = None;
    }
}
