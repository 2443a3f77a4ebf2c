//! The configuration, data and results of an initiator's session.

use std::sync::Arc;

pub use nearflash_scsi::Status;

use super::discovery::DiscoveredTarget;
use super::sense::Sense;
use super::window::CommandWindow;
use crate::login::LoginConfig;
use crate::pdu::{LogoutResult, RejectReason, TaskResult};

/// The most tasks of a connection.
pub const TASKS_MAX: u16 = 4096;

/// The parameters of one connection of an initiator.
#[derive(Clone, Debug)]
pub struct InitiatorConfig {
    /// The names, credentials and offers of the login.
    pub login: LoginConfig,
    /// The session's command window, shared by its connections.
    pub window: Arc<CommandWindow>,
    /// The maximum number of commands in flight: 1 to [`TASKS_MAX`].
    pub task_count: u16,
}

/// A command in flight on this connection.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TaskId(pub u16);

/// How a command ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ending {
    /// The logical unit answered.
    Answered(Status),
    /// The target failed: the response code.
    TargetFailed(u8),
    /// The target rejected it.
    Rejected(RejectReason),
    /// A task management function ended it.
    Aborted,
    /// Data was damaged on the way, or did not arrive although the status is GOOD.
    Damaged,
}

/// A command is over.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TaskCompletion {
    /// The number that [`super::InitiatorSession::submit`] returned.
    pub id: TaskId,
    /// How it ended.
    pub ending: Ending,
    /// The sense data, with CHECK CONDITION.
    pub sense: Option<Sense>,
    /// The length of the data received, or sent according to the target.
    pub moved: u32,
    /// The data of [`nearflash_session::CommandData::SmallIncoming`]; otherwise empty.
    pub data: Vec<u8>,
}

impl TaskCompletion {
    /// Whether the command succeeded.
    pub fn is_good(&self) -> bool {
        self.ending == Ending::Answered(Status::GOOD)
    }
}

/// An event other than the completion of a command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// The target answered a ping.
    Pong,
    /// A task management function has completed, and so have the commands that it ended.
    Managed(TaskResult),
    /// The targets that were asked for.
    Targets(Vec<DiscoveredTarget>),
    /// The target requests a logout within this many seconds.
    LogoutRequested {
        /// How long it waits.
        seconds: u16,
    },
    /// An asynchronous event, with its sense data if any.
    Reported(Option<Sense>),
    /// The logout has completed, and the connection has ended.
    LoggedOut(LogoutResult),
}

/// Why a command was not taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SubmitError {
    /// All places of the connection are in use: wait for a completion.
    #[error("the connection has no free command slot: wait for a completion")]
    QueueFull,
    /// The session's command window is closed: wait for an answer of the target.
    #[error("the command window is closed: wait for an answer")]
    WindowClosed,
    /// The connection is not logged in, or an exchange of the same kind is under way.
    #[error("the connection is not logged in, or such a request is pending")]
    NotReady,
}
