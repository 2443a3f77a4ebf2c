//! Why a measurement could not be made.

use std::io;
use std::path::PathBuf;

use crate::engine::FileError;
use crate::floor::FloorError;
use crate::job::JobFailure;
use crate::placement::PlacementError;
use crate::workload::WorkloadError;

/// Why a measurement could not be made. Each names its remedy, on one line.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The options contradict each other or the target.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// No such workload.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A core is missing.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The file.
    #[error(transparent)]
    File(#[from] FileError),
    /// io_uring is not to be had.
    #[error("{}", ring_refusal(.source))]
    NoRing {
        /// What the system said.
        source: io::Error,
    },
    /// The floor.
    #[error(transparent)]
    Floor(#[from] FloorError),
    /// The remote target.
    #[error(transparent)]
    Remote(#[from] nearflash::nvme_tcp::HostError),
    /// The iSCSI target.
    #[error(transparent)]
    Iscsi(#[from] nearflash::iscsi::InitiatorError),
    /// The CHAP account.
    #[error(transparent)]
    Account(#[from] nearflash::iscsi::AccountFileError),
    /// The direct target.
    #[error(transparent)]
    Direct(#[from] nearflash::direct::Error),
    /// No NQN.
    #[error("'{name}' is no NQN: {source}")]
    Nqn {
        /// As written.
        name: String,
        /// Why.
        source: nearflash::nvme_tcp::NqnError,
    },
    /// The node that was started for a comparison.
    #[error(transparent)]
    Node(#[from] crate::compare::NodeError),
    /// The peer that was started for a comparison.
    #[error(transparent)]
    Tgt(#[from] crate::compare::TgtError),
    /// fio.
    #[error(transparent)]
    Fio(#[from] crate::compare::FioError),
    /// The peer's client.
    #[error(transparent)]
    IscsiPerf(#[from] crate::compare::IscsiPerfError),
    /// A job stopped.
    #[error("job {job}: {source}")]
    Job {
        /// Which.
        job: usize,
        /// Why.
        source: JobFailure,
    },
    /// The report could not be written.
    #[error("cannot write the report to {path}: {source}")]
    Output {
        /// Where to.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Options that contradict each other or the target.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OptionsError {
    /// The floor is one direction.
    #[error("floor:// measures reads or writes, not a mix: give --rw read or --rw write")]
    MixedFloor,
    /// The floor has no blocks.
    #[error("floor:// stores nothing and cannot verify: drop --verify, or give another target")]
    NothingToVerify,
    /// A block too small for a verify header.
    #[error("--verify needs blocks of at least 512 bytes: give a larger --bs")]
    BlockTooSmallToVerify,
    /// The floor beside something that is not remote.
    #[error(
        "--floor measures the wire beside a remote target: give an nvme-tcp://, iscsi:// or \
         direct:// target"
    )]
    FloorOfLocal,
    /// Of the null engine.
    #[error("--iodepth-batch is about a file, a remote volume or floor://: drop it")]
    BatchOfNothing,
    /// More than the target has.
    #[error(
        "--offset, --offset-increment of all jobs and --size end at {end}, but {target} ends at \
         {len}: give smaller ones"
    )]
    BeyondTarget {
        /// Where the range ends.
        end: nearflash_units::ByteLen,
        /// Which target.
        target: String,
        /// Where it ends.
        len: nearflash_units::ByteLen,
    },
    /// Not whole blocks of the namespace.
    #[error(
        "--bs {op_len}, --offset and --offset-increment must be multiples of the volume's block \
         size: {block_len}"
    )]
    PartOfBlock {
        /// One operation.
        op_len: nearflash_units::ByteLen,
        /// One block.
        block_len: nearflash_units::ByteLen,
    },
    /// More than one command carries.
    #[error(
        "--bs {op_len} exceeds the {max} that the target takes in one command: make it smaller"
    )]
    OpTooLong {
        /// One operation.
        op_len: nearflash_units::ByteLen,
        /// The target's limit.
        max: nearflash_units::ByteLen,
    },
    /// More than a queue holds.
    #[error("--iodepth {depth} exceeds the {max} of one queue: add queues=N to the target")]
    TooDeep {
        /// Of one queue pair.
        depth: usize,
        /// The target's limit.
        max: u16,
    },
    /// More than a queue pair takes.
    #[error("--iodepth {depth} exceeds the {max} of one connection: lower it, or add --numjobs")]
    DeeperThanPair {
        /// Of one job.
        depth: usize,
        /// The node's limit.
        max: usize,
    },
    /// More than a session's command window takes.
    #[error("--iodepth {depth} exceeds the {max} of one session: add sessions=N to the target")]
    DeeperThanWindow {
        /// Of one session.
        depth: usize,
        /// The target's limit.
        max: usize,
    },
    /// The target grants fewer queues.
    #[error("the target grants {granted} queues of {wanted}: lower queues=N")]
    TooManyQueues {
        /// By us.
        wanted: u16,
        /// By the target.
        granted: u16,
    },
    /// Digests that the target does not do.
    #[error("the target does not grant the digests asked for: drop digest= from the target")]
    NoDigests,
    /// Direct I/O of a part of a sector.
    #[error(
        "--bs, --offset and --offset-increment must be multiples of 512 with --direct 1: change \
         them, or --direct 0"
    )]
    Unaligned,
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
