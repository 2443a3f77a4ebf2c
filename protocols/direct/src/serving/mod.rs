//! The node's end of one connection. Bytes of the stream or entries of a ring go in, and requests
//! for the engine come out. Their answers go in, and bytes and payload buffers of the stream, or
//! entries, come out.
//!
//! The protocol is defined in `docs/direct-protocol.md`. A session has no sockets and no payload
//! memory, and knows only the number, size and grants of a volume.
//!
//! A driver uses it as a [`ServingEnd`], and takes its demands with [`TargetSession::poll_demand`].
//! With rings, the driver also passes entries to [`TargetSession::handle_entry`] while
//! [`TargetSession::takes_entries`] is true, and carries out every [`TargetSession::poll_ring`].
//!
//! Invariants: every request is answered once, or the connection is closing. The exports at the
//! time when a request is handed out decide whether it is allowed. The session's credits bound the
//! memory.

mod access;
mod answers;
mod claim;
mod config;
mod data;
mod demands;
mod end;
mod exports;
mod faces;
mod files;
mod handles;
mod handshake;
mod input;
mod requests;
mod revoked;
mod rings;
mod runs;
mod seals;
mod slots;
#[cfg(test)]
mod tests;
mod tls;
mod volumes;

use std::collections::VecDeque;
use std::sync::Arc;

use nearflash_request::VolumeId;
use nearflash_session::Outbox;
use nearflash_units::Nanos;

pub use nearflash_session::ServingEnd;

pub use access::{Access, FilesGrant};
pub use claim::ClientIdentity;
pub use config::{
    AttachDemand, CopyInDemand, Demand, LendDemand, PEER_HANDLES_MAX, Place, RingOutput,
    SessionConfig,
};
pub use exports::{CredentialExport, Export, Exports};
pub use files::{FILES_IN_FLIGHT_MAX, FilesDemand};
pub use revoked::{KEYS_TAKEN_MAX, KeyName, REVOKED_MAX, Revocation, Revoked};
pub use seals::{REVOCATIONS_MAX, RevokeDemand};
pub use tls::TlsKeyRefused;

use crate::Face;
use crate::error::PeerError;
use crate::stream::{self, Stream};
use crate::wire::{LEN_MAX, SMALL_LEN_MAX};
use claim::Claim;
use data::Incoming;
use demands::Ready;
use files::FilesAsked;
use handles::{Handles, Who};
use handshake::{Hello, Proving};
use rings::Rings;
use seals::{Revocations, Sealing};
use slots::Slots;

/// The bytes of unsent headers past which no further request is taken. This is far more than the
/// answers to all requests in flight need, unless the client does not read.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// The state of the connection, which determines the messages that may come.
#[derive(Debug)]
enum State {
    /// Before HELLO.
    AwaitingHello,
    /// The client has to prove who it is.
    AwaitingProof(Box<Hello>),
    /// The driver is asked about the seal key of a bearer; nothing is taken meanwhile.
    Proving(Box<Proving>),
    /// Requests come.
    Ready(Who),
    /// Rings are being created; nothing is taken meanwhile.
    Attaching(Who, AttachDemand, u32),
    /// Earlier connections are being ended; nothing is taken meanwhile.
    Claiming(Who, u32),
    /// The driver is asked about seals; nothing is taken meanwhile.
    Sealing(Who, Sealing),
    /// Queued output is still sent; nothing more is received.
    Closing,
}

impl State {
    /// The client of the connection, once it is known and while the connection lasts.
    fn who(&self) -> Option<&Who> {
        match self {
            Self::Ready(who)
            | Self::Attaching(who, ..)
            | Self::Claiming(who, _)
            | Self::Sealing(who, _) => Some(who),
            Self::AwaitingHello | Self::AwaitingProof(_) | Self::Proving(_) | Self::Closing => None,
        }
    }
}

/// The node's end of one connection.
#[derive(Debug)]
pub struct TargetSession {
    config: SessionConfig,
    exports: Arc<Exports>,
    /// Grows with every change of the exports. A request that older exports allowed is checked
    /// again before it is handed out.
    generation: u32,
    state: State,
    /// The id of the key that TLS has proved; `None` without TLS.
    tls_key_id: Option<Box<str>>,
    /// The key of HELLO; `None` before HELLO, and without a key.
    claimed_key: Option<Box<str>>,
    /// When the client must be in.
    handshake_until: Option<Nanos>,
    stream: Stream,
    incoming: Incoming,
    /// Payload of the session's own messages, and operands.
    small: Vec<u8>,
    handles: Handles,
    /// The kind of the faces that the client has opened: those of a connection are alike.
    face: Option<Face>,
    slots: Slots,
    /// The number of requests that the client may have in flight.
    credits: u32,
    /// Segments to hand out, oldest first.
    ready: VecDeque<Ready>,
    /// Rings that are to be asked for.
    attach: Option<AttachDemand>,
    rings: Option<Rings>,
    claim: Claim,
    /// The number of seals that the client has opened.
    seals_opened: u32,
    revocations: Revocations,
    files: FilesAsked,
    refused: volumes::Refused,
    output: Outbox,
}

impl TargetSession {
    /// A session over a newly accepted connection.
    ///
    /// # Panics
    /// When a limit is outside the range that its field of the configuration documents.
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
            tls_key_id: None,
            claimed_key: None,
            handshake_until: Some(now.plus(config.handshake_timeout)),
            stream: stream::new(),
            incoming: Incoming::default(),
            small: Vec::with_capacity(crate::length(SMALL_LEN_MAX)),
            handles: Handles::new(config.handles_max),
            face: None,
            slots: Slots::none(),
            credits: config.credits,
            ready: VecDeque::new(),
            attach: None,
            rings: None,
            claim: Claim::None,
            seals_opened: 0,
            revocations: Revocations::default(),
            files: FilesAsked::default(),
            refused: volumes::Refused::default(),
            output: Outbox::default(),
            config,
        }
    }

    /// Records that volumes or grants have changed. Requests that were handed out continue. The new
    /// exports apply to all requests that are handed out from now on, including those that were
    /// taken earlier. Returns the volumes on which the client had seals that this has ended.
    pub fn set_exports(&mut self, exports: Arc<Exports>) -> Vec<VolumeId> {
        self.generation = self.generation.wrapping_add(1);
        let ended = match self.state.who() {
            Some(who) => self.handles.recompile(who, &exports),
            // A client that is gone has no rights that the new exports could be compared with.
            None => {
                self.handles.end();
                Vec::new()
            }
        };
        self.exports = exports;
        ended
    }

    /// Whether the client is admitted: the handshake is complete, and the connection has not ended.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.state.who().is_some()
    }

    /// The key of the client, once it is admitted: with a bearer, that of the minter. `None` for an anonymous
    /// one.
    pub fn key(&self) -> Option<&str> {
        self.state.who()?.key()
    }

    /// The key that the client has named, proved or not.
    pub fn claimed_key(&self) -> Option<&str> {
        self.claimed_key.as_deref()
    }

    /// Whether the client has a volume open, or a sealed object of one.
    pub fn has_open(&self, volume: VolumeId) -> bool {
        self.is_ready() && self.handles.is_open(volume)
    }

    /// The number of requests in flight: taken and not answered.
    pub fn requests_in_flight(&self) -> usize {
        self.slots.in_use()
    }

    /// Ends the connection for `error`, and reports the reason to the client.
    /// [`Self::handle_input`], [`Self::handle_entry`] and [`Self::handle_timeout`] do so
    /// themselves.
    pub fn terminate(&mut self, error: PeerError) -> PeerError {
        if !self.is_closing() {
            self.stop();
            if let Some((status, tag, value)) = error.goodbye() {
                self.push_goodbye(status, tag, value);
            }
        }
        error
    }

    /// Stops receiving. Requests that were received are still handed out, as if they had been
    /// polled earlier.
    fn stop(&mut self) {
        self.state = State::Closing;
        self.handshake_until = None;
        self.attach = None;
    }
}
