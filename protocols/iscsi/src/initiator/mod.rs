//! The initiator's end of one connection. Commands go in, and bytes and payload buffers of the
//! stream come out. Bytes go in, and completions come out.
//!
//! Spec: RFC 7143, 4 and 11. A session has one connection or several, each an [`InitiatorSession`];
//! they share a [`CommandWindow`]. This module knows nothing about sockets, memory for payload, or
//! the meaning of commands.
//!
//! The loop of a driver: call [`InitiatorSession::submit`] for the pending commands. Send
//! [`InitiatorSession::output`] and report the length to [`InitiatorSession::advance_output`]. Ask
//! [`InitiatorSession::receiving`] for the destination of incoming bytes: pass them to
//! [`InitiatorSession::handle_input`], or receive them into the payload buffer and call
//! [`InitiatorSession::handle_payload`]. Take every [`InitiatorSession::poll_completion`] and
//! [`InitiatorSession::poll_event`]. With data digests, also serve
//! [`InitiatorSession::wants_payload`].
//!
//! Buffers belong to the caller. A command's buffer is not used after its completion was polled.
//!
//! Invariants: every submitted command completes once, or the session is closing and
//! [`InitiatorSession::in_flight`] returns those that never will. The number of tasks and the
//! declared lengths bound the memory.

mod answers;
pub mod cdb;
mod config;
mod control;
mod data_out;
mod discovery;
mod end;
mod input;
mod sense;
mod submit;
#[cfg(test)]
mod tests;
mod window;

use std::collections::VecDeque;
use std::sync::Arc;

use nearflash_session::{Output, Posted};

pub use config::{
    Ending, Event, InitiatorConfig, Status, SubmitError, TASKS_MAX, TaskCompletion, TaskId,
};
pub use control::Managing;
pub use discovery::{DiscoveredTarget, TARGETS_TEXT_LEN_MAX};
pub use nearflash_session::{CommandData, RequestingEnd};
pub use sense::Sense;
pub use window::CommandWindow;

use crate::Digests;
use crate::error::PeerError;
use crate::framer::{Framer, Rules};
use crate::login::{Established, InitiatorLogin, LOGIN_DATA_LEN_MAX};
use crate::params::{ConnectionParams, SessionParams};
use crate::pdu::{HEADER_LEN, LunField, Serial, TaskResult};
use crate::text::Gathering;
use data_out::PendingPart;

/// The number of parts waiting to be sent above which nothing more is received: more than all tasks
/// have, unless the target does not read.
const PARTS_MAX: usize = 64 * 1024;
/// The number of unpolled events above which nothing more is received.
const EVENTS_MAX: usize = 64;

/// The state of the connection, which determines the PDUs that are allowed.
#[derive(Debug)]
enum State {
    LoggingIn(Box<InitiatorLogin>),
    /// Full feature phase.
    Ready,
    /// A logout is under way: no command is accepted.
    LoggingOut,
    /// The queued output is sent, nothing more is received.
    Closing,
}

/// The destination of the current PDU's data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Sink {
    /// Nowhere.
    Skipped,
    /// To a task, which its answer may end.
    Task { id: TaskId, completes: Option<Answer> },
    /// Collected until the PDU is complete.
    Small,
}

/// The status of a task in the target's answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Answer {
    status: Status,
    /// The reported underflow of the transfer length, in bytes.
    underflow: u32,
}

/// The state and the answer of a command.
#[derive(Clone, Copy, Debug)]
struct Task {
    lun: LunField,
    cmd_sn: Serial,
    /// The number of Data-In or R2T PDUs received.
    data_sn: u32,
    ending: Ending,
    sense: Option<Sense>,
}

impl Task {
    const fn new(lun: LunField, cmd_sn: Serial) -> Self {
        Self { lun, cmd_sn, data_sn: 0, ending: Ending::Answered(Status::GOOD), sense: None }
    }
}

impl Default for Task {
    fn default() -> Self {
        Self::new(LunField([0; 8]), Serial(0))
    }
}

/// The task management function, ping and text exchange under way, and pending events.
#[derive(Debug, Default)]
struct Errands {
    is_pinging: bool,
    managing: Option<control::Managing>,
    /// Functions of other connections that have ended.
    concluded: Vec<(control::Managing, TaskResult)>,
    /// The number of `concluded` that wait for the answer to a ping.
    fenced: usize,
    text: Option<Gathering>,
    events: VecDeque<Event>,
}

/// The initiator's end of one connection.
#[derive(Debug)]
pub struct InitiatorSession {
    state: State,
    window: Arc<CommandWindow>,
    /// The session may have other connections.
    is_shared: bool,
    /// CID, in the upper half of every tag.
    tag_base: u32,
    established: Option<Established>,
    session: SessionParams,
    connection: ConnectionParams,
    exp_stat_sn: Serial,
    framer: Framer,
    sink: Sink,
    /// The header of the PDU whose data is collected, and the data.
    small_header: [u8; HEADER_LEN],
    small: Vec<u8>,
    /// Commands by the lower half of their tag.
    posted: Posted<Task>,
    /// Parts of payload that are to be sent, waiting for their data digest.
    parts: VecDeque<PendingPart>,
    errands: Errands,
    output: Output,
}

impl InitiatorSession {
    /// A session over a new connection. Its first login request is in its output.
    ///
    /// # Panics
    /// When `task_count` is 0, or more than [`TASKS_MAX`].
    pub fn new(config: InitiatorConfig) -> Self {
        let InitiatorConfig { mut login, window, task_count } = config;
        assert!((1..=TASKS_MAX).contains(&task_count), "1 to {TASKS_MAX} tasks");
        // Features that this end does not support are not offered.
        login.offer.session.data_pdu_in_order = true;
        login.offer.session.data_sequence_in_order = true;
        login.offer.session.error_recovery_level = 0;
        let rules = Rules { digests: Digests::NONE, data_len_max: LOGIN_DATA_LEN_MAX };
        let mut output = Output::default();
        let tag_base = u32::from(login.cid) << 16;
        let login = InitiatorLogin::begin(login, window.next(), &mut output);
        Self {
            state: State::LoggingIn(Box::new(login)),
            window,
            is_shared: true,
            tag_base,
            established: None,
            session: SessionParams::default(),
            connection: ConnectionParams::default(),
            exp_stat_sn: Serial::default(),
            framer: Framer::new(rules),
            sink: Sink::Skipped,
            small_header: [0; HEADER_LEN],
            small: Vec::new(),
            posted: Posted::new(task_count),
            parts: VecDeque::new(),
            errands: Errands::default(),
            output,
        }
    }

    /// The negotiated parameters, once the login is complete.
    pub const fn established(&self) -> Option<&Established> {
        self.established.as_ref()
    }

    /// Whether commands can be submitted.
    pub const fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready)
    }

    /// The negotiated digests, once the login is complete.
    pub const fn digests(&self) -> Digests {
        self.connection.digests
    }

    /// The next completed command. Its place is free from now on.
    #[inline]
    pub fn poll_completion(&mut self) -> Option<TaskCompletion> {
        let (id, command) = self.posted.poll()?;
        let Task { ending, sense, .. } = command.answer;
        let (moved, data) = (command.moved, command.take_small());
        Some(TaskCompletion { id: TaskId(id), ending, sense, moved, data })
    }

    /// The next event other than the completion of a command.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.errands.events.pop_front()
    }

    /// The number of commands in flight: submitted, and their completion not polled.
    #[inline]
    pub const fn tasks_in_flight(&self) -> usize {
        self.posted.in_use()
    }

    /// The commands in flight: on a lost connection, those that will never complete.
    pub fn in_flight(&self) -> impl Iterator<Item = TaskId> {
        self.posted.in_flight().map(TaskId)
    }

    /// Ends the connection without a PDU: iSCSI has none for it. [`Self::handle_input`] does so
    /// itself.
    pub fn terminate(&mut self) {
        self.state = State::Closing;
    }

    /// The full feature phase begins.
    fn establish(&mut self, established: Established) {
        let connection = established.connection;
        self.session = self.window.agree(&established);
        self.is_shared = self.session.max_connections > 1;
        self.connection = connection;
        self.exp_stat_sn = established.exp_stat_sn;
        self.framer.rules =
            Rules { digests: connection.digests, data_len_max: connection.receive_len_max };
        self.established = Some(Established { session: self.session, ..established });
        self.state = State::Ready;
    }

    /// Ends the connection after an error.
    #[cold]
    fn fail(&mut self, error: PeerError) -> PeerError {
        self.state = State::Closing;
        error
    }
}
