//! Jobs: changes that take longer than a call may.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ApiError;

/// A job. It survives a restart of the node, and its number is never reused.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct JobInfo {
    /// Its number.
    pub id: u64,
    /// The call that started it, for example `volume-create`.
    pub kind: String,
    /// The volume that it changes, or the node that it drains.
    pub volume: String,
    /// Its state.
    pub state: JobState,
    /// The nodes that a job of a cluster waits for. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<AwaitedNode>,
    /// Bytes processed.
    pub done_bytes: u64,
    /// Bytes in total.
    pub total_bytes: u64,
    /// Start time, in seconds since 1970.
    pub started_at: u64,
    /// End time, in seconds since 1970. Absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    /// The reason why it failed. Absent unless it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ApiError>,
}

/// A node that a job of a cluster waits for.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct AwaitedNode {
    /// Its name.
    pub node: String,
    /// The reason.
    pub reason: AwaitedReason,
}

/// Why a job waits for a node.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AwaitedReason {
    /// It zeroes its part of the volume.
    Zeroing,
    /// It runs without a slice that has, or must have, a part of the volume.
    SliceClosed,
    /// It is down.
    Down,
}

impl AwaitedReason {
    /// The reason in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Zeroing => "zeroing",
            Self::SliceClosed => "runs without its slice",
            Self::Down => "down",
        }
    }
}

/// The state of a job.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// It waits for other jobs.
    Waiting,
    /// It is running.
    Running,
    /// Its change is being undone, because it was cancelled or has failed.
    Undoing,
    /// It is complete.
    Done,
    /// It failed; the volume is unchanged.
    Failed,
    /// An operator cancelled it; the volume is unchanged.
    Cancelled,
}

impl JobState {
    /// Every state.
    pub const ALL: [Self; 6] =
        [Self::Waiting, Self::Running, Self::Undoing, Self::Done, Self::Failed, Self::Cancelled];

    /// Whether the job has ended.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }

    /// The state's name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Undoing => "undoing",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Lists the running jobs and the most recent ended ones.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobList {}

/// Shows one job.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobShow {
    /// Its number.
    pub id: u64,
}

/// Cancels a job and undoes its change.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobCancel {
    /// Its number.
    pub id: u64,
}

/// Waits until a job has ended or the time is up. The job's state shows which.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobWait {
    /// Its number.
    pub id: u64,
    /// Maximum time in seconds; the node limits it further.
    pub seconds: u64,
}

/// Moves the replicas of a volume from one node of the cluster to others. A job does this.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeMove {
    /// The volume.
    pub name: String,
    /// The node that its replicas leave.
    pub node: String,
    /// The node that gets them; by default each gets a place on any node with room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// Moves all replicas from a node of the cluster to others, and places none there any more. A job does this.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeDrain {
    /// The node.
    pub node: String,
}

/// Places replicas on a node again that was drained.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeUndrain {
    /// The node.
    pub node: String,
}

/// A node of the cluster.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct OneNode {
    /// Its name.
    pub node: String,
}

/// A job in its current state.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct OneJob {
    /// The job.
    pub job: JobInfo,
}

/// Jobs.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Jobs {
    /// In the order of their numbers.
    pub jobs: Vec<JobInfo>,
}
