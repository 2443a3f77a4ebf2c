//! The target's end of one connection. Bytes of the stream go in, and requests for the engine and
//! for the control side come out. Their answers go in, and bytes and payload buffers of the stream
//! come out.
//!
//! Spec: RFC 7143. The crate `nearflash-scsi` interprets the commands; this end transports them.
//! This module knows nothing about sockets, memory for payload, or volumes beyond their units.
//!
//! A driver uses it as a [`ServingEnd`], and takes its demands with [`TargetSession::poll_demand`].
//! Whenever [`TargetSession::concerns_siblings`] is true for one connection of a session with
//! several, the driver carries the [`TargetSession::sibling_request`] of each to the others, and
//! calls [`TargetSession::resume`] of each. If [`TargetSession::awaits_others`] is true for a
//! connection, the driver calls its [`TargetSession::lift_fence`] when
//! [`TargetSession::is_acknowledged`] is true for every other one.
//!
//! Invariants: every command is answered once, or was aborted by its initiator, or the connection
//! is closing; commands begin in the order of their numbers; answers are sent in the order in which
//! they were given; memory is bounded by the session's window.

mod answers;
mod attentions;
mod commands;
mod config;
mod data;
mod demands;
mod end;
mod exports;
mod functions;
mod input;
mod login;
mod logout;
mod numbers;
mod portal;
mod series;
mod shared;
mod siblings;
mod slots;
#[cfg(test)]
mod tests;
mod text;
mod window;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use nearflash_scsi::LogicalUnits;
use nearflash_session::{BufferQueue, Outbox};
use nearflash_units::Nanos;

pub use nearflash_session::ServingEnd;

pub use config::{Demand, Granted, NONCE_LEN, SessionConfig};
pub use exports::{Exports, PORTAL_GROUP, RemotePortal};
pub use portal::{
    Admission, CONNECTIONS_PER_SESSION_MAX, ConnectionPlace, Portal, PortalConfig, SessionStatus,
};
pub use shared::SessionShared;
pub use siblings::{SiblingOutcome, SiblingRequest};

use crate::Digests;
use crate::chap::{CHALLENGE_LEN, Challenge};
use crate::error::PeerError;
use crate::framer::{Framer, Rules};
use crate::login::{LoginDemand, TargetLogin, TargetLoginConfig};
use crate::params::{ConnectionParams, RECEIVE_LEN_DEFAULT};
use crate::pdu::{HEADER_LEN, Serial};
use crate::text::{Gathering, Outgoing, TEXT_LEN_MAX};
use attentions::Presence;
use functions::Function;
use siblings::Fence;
use slots::{Slot, Slots};
use window::EarlyCommands;

/// The bytes of unsent headers above which no further command is taken. This is far more than the
/// answers to a window of commands need, unless the initiator does not read.
const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// The target transfer tag of this end's pings.
const PING_TAG: u32 = 0x7F01_B16A;

/// The state of the connection, which determines the PDUs that are allowed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// A login is under way.
    Login,
    /// The login waits for its answer.
    Granting,
    /// The login failed; the answer waits.
    Refusing,
    /// Commands come.
    FullFeature,
    /// Nothing more is received; requests that were handed out are awaited.
    LoggingOut,
    /// The queued output is sent, nothing more is received.
    Closing,
}

/// The destination of the current PDU's data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Sink {
    /// Nowhere.
    Drop,
    /// To the session's own bytes.
    Small,
    /// To the command in this slot.
    Slot {
        /// Which.
        index: u16,
        /// No more of its sequence follows.
        is_last: bool,
    },
}

/// The connection as a stream of PDUs.
#[derive(Debug)]
struct Link {
    params: ConnectionParams,
    framer: Framer,
    sink: Sink,
    /// The header of the PDU whose data is being received, if it may be needed.
    current: [u8; HEADER_LEN],
    /// Data that belongs to no SCSI command.
    small: Vec<u8>,
    stat_sn: u32,
    output: Outbox,
}

/// The login, and its demand under way.
#[derive(Debug)]
struct Login {
    exchange: Box<TargetLogin>,
    /// The demand that is to be handed out.
    demand: Option<Box<LoginDemand>>,
    /// The demand that has no answer yet, whether handed out or not.
    demanded: Option<Box<LoginDemand>>,
    /// The time before which a failed authentication is not answered.
    refuse_at: Nanos,
}

/// The names of both ends, once the login is granted.
#[derive(Debug, Default)]
struct Names {
    cid: u16,
    initiator: Box<str>,
    target: Box<str>,
    is_discovery: bool,
}

/// Supervision of the initiator by pings.
#[derive(Debug)]
struct Liveness {
    /// The time at which the initiator counts as silent.
    silent_at: Nanos,
    /// Whether something was received since the last check.
    has_heard: bool,
    /// A ping waits for its answer.
    has_pinged: bool,
}

/// The tasks of the connection.
#[derive(Debug, Default)]
struct Tasks {
    slots: Slots,
    /// Commands whose unsolicited data follows them, oldest first.
    unsolicited: VecDeque<u16>,
    /// Commands that request their data only when they have a buffer.
    awaiting_buffer: BufferQueue<u16>,
    /// Commands to hand out, oldest first.
    ready: VecDeque<u16>,
    /// Immediate commands and functions under way.
    immediate_count: u32,
    /// Whether commands were given up whose data may still arrive.
    has_aborted: bool,
}

/// Pending work that involves the other connections of the session.
#[derive(Debug, Default)]
struct Siblings {
    functions: Vec<Function>,
    fence: Fence,
    /// See [`TargetSession::concerns_siblings`].
    is_concerned: bool,
}

/// The target's end of one connection.
#[derive(Debug)]
pub struct TargetSession {
    config: SessionConfig,
    exports: Arc<Exports>,
    /// The local address of the connection.
    local: SocketAddr,
    state: State,
    liveness: Liveness,
    login: Login,
    shared: Arc<SessionShared>,
    names: Names,
    presence: Presence,
    units: Arc<LogicalUnits>,
    link: Link,
    text_in: Gathering,
    text_out: Outgoing,
    tasks: Tasks,
    early: EarlyCommands,
    siblings: Siblings,
    has_logged_out: bool,
}

impl TargetSession {
    /// A session over a connection that was accepted at `local`.
    pub fn new(
        config: SessionConfig,
        exports: Arc<Exports>,
        local: SocketAddr,
        now: Nanos,
    ) -> Self {
        let rules = Rules { digests: Digests::NONE, data_len_max: RECEIVE_LEN_DEFAULT };
        let login = Login {
            exchange: Box::new(TargetLogin::new(login_config(&config, &exports))),
            demand: None,
            demanded: None,
            refuse_at: now.plus(config.refusal_delay),
        };
        let silent_at = now.plus(config.login_timeout);
        let link = Link {
            params: ConnectionParams::default(),
            framer: Framer::new(rules),
            sink: Sink::Drop,
            current: [0; HEADER_LEN],
            small: Vec::new(),
            stat_sn: 0,
            output: Outbox::default(),
        };
        Self {
            exports,
            local,
            state: State::Login,
            liveness: Liveness { silent_at, has_heard: false, has_pinged: false },
            login,
            shared: Arc::new(SessionShared::none()),
            names: Names::default(),
            presence: Presence::Present,
            units: Arc::default(),
            link,
            text_in: Gathering::new(TEXT_LEN_MAX),
            text_out: Outgoing::default(),
            tasks: Tasks::default(),
            early: EarlyCommands::default(),
            siblings: Siblings::default(),
            has_logged_out: false,
            config,
        }
    }

    /// The number of commands in flight: taken and not answered.
    pub(crate) fn commands_in_flight(&self) -> usize {
        self.tasks.slots.in_use()
    }

    /// Ends the connection for `error`. [`Self::handle_input`], [`Self::resume`] and
    /// [`Self::handle_timeout`] do so themselves. At error recovery level 0, no PDU reports it.
    pub fn terminate(&mut self, error: PeerError) -> PeerError {
        self.stop();
        error
    }

    /// Stops receiving. Commands that were received are still handed out, as if they had been
    /// polled before.
    fn stop(&mut self) {
        if self.state == State::Closing {
            return;
        }
        self.state = State::Closing;
        let in_window = |slot: &Slot| !slot.is_immediate && slot.is_due;
        let taken = self.tasks.slots.iter().filter(|(_, slot)| in_window(slot)).count();
        let functions =
            self.siblings.functions.iter().filter(|function| !function.is_immediate).count();
        (0..taken + functions).for_each(|_| self.shared.numbers.give_back());
        if !self.has_logged_out {
            // At error recovery level 0 a session does not outlive the loss of a connection.
            self.shared.close_all();
            self.siblings.is_concerned = self.shared.is_multiple;
        }
        self.login.demand = None;
        self.skip_all();
        self.siblings.functions.clear();
        self.drop_fence();
    }
}

fn login_config(config: &SessionConfig, exports: &Exports) -> TargetLoginConfig {
    let [identifier, bytes @ ..] = config.nonce;
    TargetLoginConfig {
        offer: config.offer,
        portal_group: exports.portal_group(),
        challenge: Challenge { identifier, bytes },
        stat_sn: Serial(0),
    }
}

const _: () = assert!(NONCE_LEN == 1 + CHALLENGE_LEN);
