//! What a command fails with: one line, and an exit code.

use std::process::ExitCode;

/// Why a command did not do what it was told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The node does not start.
    #[error(transparent)]
    Node(#[from] nearflash_node::NodeError),
    /// The running node gave no answer, or refuses.
    #[error(transparent)]
    Control(#[from] nearflash_api::client::ControlError),
    /// Nothing was measured.
    #[error(transparent)]
    Bench(#[from] nearflash_bench::BenchError),
    /// No study, or not all of it.
    #[error(transparent)]
    Study(#[from] nearflash_study::StudyError),
    /// There is nothing to see.
    #[error(transparent)]
    Demo(#[from] crate::demo::DemoError),
    /// Nobody says which node.
    #[error(transparent)]
    DataDir(#[from] nearflash_api::socket::NoDataDir),
    /// A job did not do what it was started for.
    #[error("job {id}: {error}")]
    Job {
        /// Its number.
        id: u64,
        /// Why.
        error: nearflash_api::ApiError,
    },
    /// An operator has ended a job that was waited for.
    #[error("job {id} is cancelled: its change is undone")]
    JobCancelled {
        /// Its number.
        id: u64,
    },
    /// The volume to create is not written as one.
    #[error(transparent)]
    Volume(nearflash_node::config::ValueError),
    /// A secret could not be written down.
    #[error(transparent)]
    Secret(#[from] crate::secret::SecretFileError),
    /// The answer could not be shown.
    #[error("cannot write to stdout: {0}")]
    Stdout(#[from] std::io::Error),
}

impl Failure {
    /// 2 when what the user wrote is wrong, 1 otherwise.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Node(error) => error.exit_code().into(),
            Self::Volume(_) | Self::DataDir(_) => 2.into(),
            Self::Study(error) if error.is_usage() => 2.into(),
            Self::Control(_)
            | Self::Job { .. }
            | Self::JobCancelled { .. }
            | Self::Bench(_)
            | Self::Study(_)
            | Self::Demo(_)
            | Self::Secret(_)
            | Self::Stdout(_) => 1.into(),
        }
    }
}
