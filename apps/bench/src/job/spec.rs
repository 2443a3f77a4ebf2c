//! The specification of a job, of a thread's loop, and the reasons why a job stops.

use std::num::NonZeroUsize;

use nearflash_units::{ByteLen, ByteOffset, Nanos};

use crate::engine::EngineError;
use crate::verify::Mismatch;
use crate::workload::{Direction, Op, Pattern, Rate, WorkloadError, WorkloadSpec};

/// The specification of a job.
#[derive(Clone, Debug)]
pub struct JobSpec {
    /// The operations.
    pub workload: WorkloadSpec,
    /// Queue depth.
    pub depth: usize,
    /// The schedule of their intended starts; `None` to start each as soon as there is a slot.
    pub rate: Option<Rate>,
    /// Seed with which written blocks are made verifiable, and read blocks are verified.
    pub verify_seed: Option<u64>,
    /// Whether writes are made durable before the job ends.
    pub end_fsync: bool,
}

impl JobSpec {
    /// A job without end over a range from offset 0, with a fixed seed.
    pub fn endless(pattern: Pattern, op_len: ByteLen, range_len: ByteLen, depth: u32) -> Self {
        Self {
            workload: WorkloadSpec {
                pattern,
                read_percent: 50,
                op_len,
                offset: ByteOffset(0),
                range_len,
                repeats: false,
                endless: true,
                seed: 1,
            },
            depth: usize::try_from(depth).expect("usize is at least 32 bits wide"),
            rate: None,
            verify_seed: None,
            end_fsync: false,
        }
    }
}

/// How a thread runs its jobs; the same for all jobs of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct DriveSpec {
    /// Time before counting starts.
    pub ramp: Nanos,
    /// Time counted; `None` to run until the workloads end.
    pub runtime: Option<Nanos>,
    /// How the thread waits.
    pub spin: Spin,
    /// Time without a completion, though something is in flight, after which the target is
    /// considered dead; `None` for no limit. Must exceed any pause due to a rate.
    pub stall_max: Option<Nanos>,
    /// Number of completions that are counted before their slots are refilled and submitted at
    /// once, even if there are more; `None` for no limit. With 1, each completion is followed by
    /// the submission of one operation, as on most hosts.
    pub batch: Option<NonZeroUsize>,
    /// Whether the client's side of each operation is measured: [`crate::recorder::SideTimes`].
    pub sides: bool,
}

/// How a thread waits for completions.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub enum Spin {
    /// Spin; sleep after a millisecond without a completion
    #[default]
    Adaptive,
    /// Always spin
    Always,
    /// Always sleep
    Never,
}

/// The reason why a job stopped.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum JobFailure {
    /// The workload is not valid.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// An operation failed.
    #[error("{} of {} at offset {}: {source}", verb(.op.direction), .op.len, .op.offset.0)]
    Operation { op: Op, source: EngineError },
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// No operation completes.
    #[error("no operation completed for {} s: does the target still answer?", .span.0 / 1_000_000_000)]
    Stalled { span: Nanos },
    /// A block read is not the block written.
    #[error("verify: {0}")]
    Verify(#[from] Mismatch),
}

fn verb(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "read",
        Direction::Write => "write",
    }
}
