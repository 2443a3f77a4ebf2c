//! Errors of measurements.

use std::io;
use std::path::PathBuf;

use crate::engine::{EngineError, FileError};
use crate::floor::FloorError;
use crate::job::JobFailure;
use crate::placement::PlacementError;
use crate::workload::WorkloadError;

/// The reason why a measurement could not be made. Each message is one line and names a remedy.
#[derive(Debug, thiserror::Error)]
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
    Holds {
        /// The target.
        target: String,
        /// Its contents.
        what: &'static str,
    },
    /// The target cannot be read, so that nobody knows what it holds.
    #[error("cannot read what the target holds: {source}: add --force to write to it nevertheless")]
    Unread {
        /// The reason.
        source: Box<EngineError>,
    },
    /// io_uring is not available.
    #[error("{}", ring_refusal(.source))]
    NoRing {
        /// The system's error.
        source: io::Error,
    },
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
    Nqn {
        /// The name as given.
        name: String,
        /// The reason.
        source: nearflash::nvme_tcp::NqnError,
    },
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
    Job {
        /// Its index.
        job: usize,
        /// The reason.
        source: JobFailure,
    },
    /// The report could not be written.
    #[error("cannot write the report to {path}: {source}")]
    Output {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Options that contradict each other or the target.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OptionsError {
    /// The floor has only one direction.
    #[error("floor:// measures reads or writes, not a mix: give --rw read or --rw write")]
    MixedFloor,
    /// The third party of the floor has no core of its own.
    #[error(
        "floor://relay has three sides that spin, and only two cores: add --spin never, or name \
         three with --floor-cores S,C,T"
    )]
    RelayOnTwoCores,
    /// The floor stores no blocks.
    #[error("floor:// stores nothing and cannot verify: drop --verify, or give another target")]
    NothingToVerify,
    /// The block is too small for a verify header.
    #[error("--verify needs blocks of at least 512 bytes: give a larger --bs")]
    BlockTooSmallToVerify,
    /// `--floor` with a target that is not remote.
    #[error(
        "--floor compares a remote target with the wire: give an nvme-tcp://, iscsi:// or \
         direct:// target"
    )]
    FloorOfLocal,
    /// `--breakdown` with a target that is not remote.
    #[error(
        "--breakdown shows the parts of a remote operation: give an nvme-tcp://, iscsi:// or direct:// \
         target"
    )]
    BreakdownOfLocal,
    /// `--breakdown` of a mix.
    #[error(
        "--breakdown has one kind of operation: give --rw read or --rw write, or their random forms"
    )]
    BreakdownOfMix,
    /// `--iodepth-batch` with the null engine.
    #[error("--iodepth-batch applies to a file, a remote volume or floor://: drop it")]
    BatchOfNothing,
    /// `--ioengine psync` with a target that is not a file.
    #[error("--ioengine psync applies to a file: drop it, or give a file:PATH target")]
    BlockingRemote,
    /// `--ioengine psync` with more than one operation in flight.
    #[error("--ioengine psync has one operation in flight: use --numjobs in place of --iodepth")]
    BlockingDepth,
    /// The ranges exceed the target.
    #[error(
        "--offset, --offset-increment of all jobs and --size end at {end}, but {target} ends at \
         {len}: reduce one of them"
    )]
    BeyondTarget {
        /// End of the last range.
        end: nearflash_units::ByteLen,
        /// The target.
        target: String,
        /// Length of the target.
        len: nearflash_units::ByteLen,
    },
    /// The operations are not aligned to the volume's block size.
    #[error(
        "--bs {op_len}, --offset and --offset-increment must be multiples of the volume's block \
         size: {block_len}"
    )]
    PartOfBlock {
        /// Length of one operation.
        op_len: nearflash_units::ByteLen,
        /// The block size.
        block_len: nearflash_units::ByteLen,
    },
    /// The operations exceed the target's maximum transfer length.
    #[error("--bs {op_len} exceeds the {max} that the target takes in one command: reduce it")]
    OpTooLong {
        /// Length of one operation.
        op_len: nearflash_units::ByteLen,
        /// The target's limit.
        max: nearflash_units::ByteLen,
    },
    /// The queue depth exceeds that of a queue.
    #[error("--iodepth {depth} exceeds the {max} of one queue: add queues=N to the target")]
    TooDeep {
        /// Queue depth per queue pair.
        depth: usize,
        /// The target's limit.
        max: u16,
    },
    /// The queue depth exceeds that of a connection.
    #[error("--iodepth {depth} exceeds the {max} of one connection: lower it, or add --numjobs")]
    DeeperThanPair {
        /// Queue depth per job.
        depth: usize,
        /// The node's limit.
        max: usize,
    },
    /// The queue depth exceeds a session's command window.
    #[error("--iodepth {depth} exceeds the {max} of one session: add sessions=N to the target")]
    DeeperThanWindow {
        /// Queue depth per session.
        depth: usize,
        /// The target's limit.
        max: usize,
    },
    /// The target grants fewer queues than requested.
    #[error("the target grants {granted} queues of {wanted}: lower queues=N")]
    TooManyQueues {
        /// Queues requested.
        wanted: u16,
        /// Queues granted.
        granted: u16,
    },
    /// The target does not support the digests.
    #[error("the target does not grant the requested digests: drop digest= from the target")]
    NoDigests,
    /// Direct I/O that is not aligned to sectors.
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
