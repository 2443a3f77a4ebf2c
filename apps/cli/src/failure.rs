//! Failures of commands: one line and an exit code.

use std::fmt::Display;
use std::process::ExitCode;

use nearflash_bench::BenchError;
use nearflash_units::OneLine;

/// The reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The node does not start.
    #[error(transparent)]
    Node(#[from] nearflash_node::StartError),
    /// A command about the cluster failed.
    #[error(transparent)]
    Cluster(#[from] nearflash_cluster_store::ClusterError),
    /// The running node did not answer, or refused.
    #[error(transparent)]
    Control(#[from] nearflash_api::client::ControlError),
    /// The address of a seal is not one.
    #[error(transparent)]
    SealPlace(#[from] nearflash::direct::UrlError),
    /// A plan is not made.
    #[error(transparent)]
    Apply(#[from] crate::apply::ApplyFailure),
    /// A command about files failed.
    #[error(transparent)]
    Files(#[from] crate::files::FilesFailure),
    /// A volume could not be mounted or unmounted.
    #[error(transparent)]
    Mount(#[from] crate::mount::MountFailure),
    /// A program could not be run with the library.
    #[error(transparent)]
    Interpose(#[from] crate::interpose::InterposeError),
    /// The measurement failed.
    #[error(transparent)]
    Bench(#[from] nearflash_bench::BenchError),
    /// The program of the studies does not start.
    #[error(transparent)]
    Study(#[from] crate::study::StudyError),
    /// The demonstration failed.
    #[error(transparent)]
    Demo(#[from] crate::demo::DemoError),
    /// The data directory is not known.
    #[error(transparent)]
    DataDir(#[from] nearflash_api::socket::NoDataDir),
    /// The flag is given to a command that does not use it.
    #[error(
        "--data-dir names the directory of a node, which this command does not use: leave it out"
    )]
    NoUseForDataDir,
    /// A job failed.
    #[error("job {id}: {error}")]
    Job { id: u64, error: nearflash_api::ApiError },
    /// A job was cancelled by an operator during the wait.
    #[error("job {id} was cancelled, and its change was undone")]
    JobCancelled { id: u64 },
    /// The node serves no direct clients.
    #[error(
        "the node has no address for the direct protocol, which seals need: serve with --direct or \
         --direct-local, or give --at HOST:PORT"
    )]
    NoDirectDoor,
    /// A person declined to go on.
    #[error("nothing was changed")]
    Declined,
    /// The volume's description is not valid.
    #[error(transparent)]
    Volume(#[from] crate::new_volume::NewVolumeError),
    /// Keys are meant for an initiator, which has none.
    #[error(
        "initiator '{initiator}' has no keys here: add --volume VOLUME for its list of volumes, and \
         create its CHAP account with 'nearflash chap add'"
    )]
    InitiatorHasNoKeys { initiator: String },
    /// A secret could not be written to a file.
    #[error(transparent)]
    Secret(#[from] crate::secret::SecretFileError),
    /// The terminal failed.
    #[error("cannot ask on the terminal: {0}")]
    Terminal(std::io::Error),
    /// A live view needs a terminal.
    #[error("a live view needs a terminal: give --json for lines that a program reads")]
    NoTerminal,
    /// The terminal failed.
    #[error("cannot draw on the terminal: {0}")]
    Display(std::io::Error),
    /// A trace could not be written.
    #[error("cannot write the trace to {}: {source}", path.display())]
    TraceFile { path: std::path::PathBuf, source: std::io::Error },
    /// The file of changes could not be read.
    #[error(
        "cannot read the changes that {} has recorded: {source}: run this as the user of the node, and name its \
         directory with --data-dir",
        data_dir.display()
    )]
    Changes { data_dir: std::path::PathBuf, source: std::io::Error },
    /// The manual pages could not be written.
    #[error("cannot write the manual pages: {0}")]
    ManualPages(std::io::Error),
    /// The answer to a change, which has a secret, could not be printed.
    #[error(
        "cannot write to stdout: {0}: the change is made, and a secret in its answer is lost: \
         remove what was created, and create it again"
    )]
    SecretLost(std::io::Error),
    /// The answer could not be printed.
    #[error("cannot write to stdout: {0}")]
    Stdout(#[from] std::io::Error),
}

impl Failure {
    /// 2 if the command line is wrong, 1 otherwise.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Node(error) => error.exit_code().into(),
            Self::Cluster(error) => error.exit_code().into(),
            Self::Files(error) => error.exit_code().into(),
            Self::Mount(error) => error.exit_code().into(),
            Self::Interpose(error) => error.exit_code().into(),
            Self::Bench(
                BenchError::Options(_) | BenchError::Workload(_) | BenchError::Nqn { .. },
            )
            | Self::Volume(_)
            | Self::InitiatorHasNoKeys { .. }
            | Self::DataDir(_)
            | Self::NoUseForDataDir
            | Self::NoTerminal
            | Self::SealPlace(_) => 2.into(),
            Self::Control(_)
            | Self::Apply(_)
            | Self::Job { .. }
            | Self::JobCancelled { .. }
            | Self::Declined
            | Self::Changes { .. }
            | Self::SecretLost(_)
            | Self::NoDirectDoor
            | Self::Bench(_)
            | Self::Study(_)
            | Self::Demo(_)
            | Self::Secret(_)
            | Self::Terminal(_)
            | Self::Display(_)
            | Self::TraceFile { .. }
            | Self::ManualPages(_)
            | Self::Stdout(_) => 1.into(),
        }
    }
}

/// Writes errors to stderr, each as a line; returns the exit code.
pub(crate) fn report<E: Display>(errors: &[E], code: u8) -> ExitCode {
    for error in errors {
        eprintln!("nearflash: {}", OneLine(error));
    }
    code.into()
}
