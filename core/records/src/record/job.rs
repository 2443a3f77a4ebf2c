//! The records of jobs that change volumes.

use nearflash_space::Name;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Record, Schema, as_text};

/// Longest text of an error, in bytes.
pub const JOB_ERROR_LEN_MAX: usize = 1024;

/// A job: a change of a volume that takes longer than a transaction. One node carries it on. If that node stops
/// running, another one does.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JobRecord {
    /// The schema.
    pub schema: Schema,
    /// Its kind.
    pub kind: JobKind,
    /// The volume that it changes; zeroes if it drains a node.
    pub volume: Uuid,
    /// The name of the volume, or of the node that it drains.
    #[serde(with = "as_text")]
    pub name: Name,
    /// The replicas that it moves, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves: Option<MovesRecord>,
    /// Its progress.
    pub state: JobState,
    /// The process that carries it on.
    pub worker: Worker,
    /// The bytes that it zeroes, over all replicas, or that it moves.
    pub total_bytes: u64,
    /// When it began, in seconds since 1970.
    pub began: u64,
    /// When it ended, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// Why it failed, or is being undone. Absent if it was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The replicas that a job moves: those of its volume on a node, or all on that node.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MovesRecord {
    /// The node that they leave.
    pub from: Uuid,
    /// The node that gets them; absent for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Uuid>,
}

/// The kind of a job.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobKind {
    /// It adds the rows of a new volume, and has them zeroed.
    CreateVolume,
    /// It adds further rows to a volume, and has them zeroed.
    GrowVolume,
    /// It releases the rows of a volume.
    RemoveVolume,
    /// It moves the replicas of a volume from one node to others.
    MoveVolume,
    /// It moves all replicas from a node to others.
    DrainNode,
}

/// The progress of a job.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// It goes on.
    Running,
    /// Its steps are being undone.
    Undoing,
    /// It has reached its goal.
    Done,
    /// It was undone, because a step failed.
    Failed,
    /// It was undone, because an operator cancelled it.
    Cancelled,
}

/// A process of a node.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Worker {
    /// The node.
    pub node: Uuid,
    /// The random number of the process, as in `alive/<node>`.
    pub run: u64,
}

impl JobKind {
    /// Whether it moves replicas.
    pub fn is_move(self) -> bool {
        matches!(self, Self::MoveVolume | Self::DrainNode)
    }

    /// The name of the call that begins such a job.
    pub fn call(self) -> &'static str {
        match self {
            Self::CreateVolume => "volume-create",
            Self::GrowVolume => "volume-resize",
            Self::RemoveVolume => "volume-remove",
            Self::MoveVolume => "volume-move",
            Self::DrainNode => "node-drain",
        }
    }
}

impl JobState {
    /// Whether the job has ended.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

impl Record for JobRecord {
    fn check(&self) -> Result<(), &'static str> {
        match self {
            _ if self.state.is_over() != self.ended.is_some() => {
                Err("ended is not that of its state")
            }
            _ if self.moves.is_some() != self.kind.is_move() => {
                Err("moves is not that of its kind")
            }
            _ if self.error.as_ref().is_some_and(|it| it.len() > JOB_ERROR_LEN_MAX) => {
                Err("error is longer than 1024 bytes")
            }
            _ => Ok(()),
        }
    }
}
