//! Jobs: changes that take longer than an answer may.

use serde::{Deserialize, Serialize};

use crate::ApiError;

/// A job. It survives a restart of the node, and its number is never used again.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct JobInfo {
    /// Its number.
    pub id: u64,
    /// The call that started it, for example `volume-create`.
    pub kind: String,
    /// The volume that it changes.
    pub volume: String,
    /// Where it stands.
    pub state: JobState,
    /// The bytes that are done.
    pub done_bytes: u64,
    /// The bytes to do.
    pub total_bytes: u64,
    /// When it was started, in seconds since 1970.
    pub started_at: u64,
    /// When it ended, in seconds since 1970. Absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    /// Why it failed. Absent unless it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ApiError>,
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// It waits for others.
    Waiting,
    /// It is being done.
    Running,
    /// It is complete.
    Done,
    /// It could not be done; the volume is as it was before.
    Failed,
    /// An operator has ended it; the volume is as it was before.
    Cancelled,
}

impl JobState {
    /// Whether nothing more happens.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }

    /// As documents write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Lists jobs: those that run, and the last that ended.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JobList {}

/// Shows one job.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JobShow {
    /// Its number.
    pub id: u64,
}

/// Ends a job and undoes its change.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JobCancel {
    /// Its number.
    pub id: u64,
}

/// Waits until a job is over, or the time is. The answer says which.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JobWait {
    /// Its number.
    pub id: u64,
    /// For at most so many seconds; the node bounds them.
    pub seconds: u64,
}

/// A job as it is now.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct OneJob {
    /// The job.
    pub job: JobInfo,
}

/// Jobs.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Jobs {
    /// In the order of their numbers.
    pub jobs: Vec<JobInfo>,
}
