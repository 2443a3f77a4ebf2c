//! Errors of measurements.

use std::io;
use std::path::PathBuf;

use crate::engine::{EngineError, FileError};
use crate::floor::FloorError;
use crate::job::JobFailure;
use crate::options_error::OptionsError;
use crate::placement::PlacementError;
use crate::workload::WorkloadError;

/// The reason why a measurement could not be made. Each message is one line and names a remedy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum BenchError {
    /// The options contradict each other or the target.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The workload is not valid.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A core cannot be used.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The file cannot be measured.
    #[error(transparent)]
    File(#[from] FileError),
    /// The run would write to something that a person may want to keep.
    #[error("{target} holds {what}: choose another target, or add --force, which destroys it")]
    Holds { target: String, what: &'static str },
    /// The target cannot be read, so that nobody knows what it holds.
    #[error("cannot read what the target holds: {source}: add --force to write to it nevertheless")]
    Unread { source: Box<EngineError> },
    /// io_uring is not available.
    #[error("{}", ring_refusal(.source))]
    NoRing { source: io::Error },
    /// The floor could not be measured.
    #[error(transparent)]
    Floor(#[from] FloorError),
    /// The NVMe/TCP target failed.
    #[error(transparent)]
    Remote(#[from] nearflash::nvme_tcp::HostError),
    /// The PSK could not be read.
    #[error(transparent)]
    Psk(#[from] nearflash::nvme_tcp::PskFileError),
    /// The iSCSI target failed.
    #[error(transparent)]
    Iscsi(#[from] nearflash::iscsi::InitiatorError),
    /// The CHAP account could not be read.
    #[error(transparent)]
    Account(#[from] nearflash::iscsi::AccountFileError),
    /// The direct target failed.
    #[error(transparent)]
    Direct(#[from] nearflash::direct::Error),
    /// The NQN is not valid.
    #[error("'{name}' is not a valid NQN: {source}")]
    Nqn { name: String, source: nearflash::nvme_tcp::NqnError },
    /// The node that was started for a comparison failed.
    #[error(transparent)]
    Node(#[from] crate::compare::NodeError),
    /// The peer that was started for a comparison failed.
    #[error(transparent)]
    Tgt(#[from] crate::compare::TgtError),
    /// fio failed.
    #[error(transparent)]
    Fio(#[from] crate::compare::FioError),
    /// The peer's client failed.
    #[error(transparent)]
    IscsiPerf(#[from] crate::compare::IscsiPerfError),
    /// A job stopped.
    #[error("job {job}: {source}")]
    Job { job: usize, source: JobFailure },
    /// The report could not be written.
    #[error("cannot write the report to {path}: {source}")]
    Output { path: PathBuf, source: io::Error },
}

fn ring_refusal(source: &io::Error) -> String {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "io_uring is forbidden here: set the sysctl kernel.io_uring_disabled to 0, and in a \
             container allow the io_uring system calls (docker: --security-opt seccomp=unconfined)"
                .to_owned()
        }
        Some(libc::ENOSYS) => {
            "this kernel has no io_uring: Linux 5.19 or later is needed".to_owned()
        }
        Some(libc::ENOMEM) => {
            "io_uring may not lock enough memory: raise `ulimit -l`, or lower --iodepth".to_owned()
        }
        _ => format!("io_uring: {source}"),
    }
}
