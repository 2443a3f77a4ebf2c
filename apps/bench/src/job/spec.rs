//! What a job does, how a thread drives its jobs, and why a job stops.

use std::num::NonZeroUsize;

use nearflash_units::{ByteLen, ByteOffset, Nanos};

use crate::engine::EngineError;
use crate::verify::Mismatch;
use crate::workload::{Direction, Op, Pattern, Rate, WorkloadError, WorkloadSpec};

/// What a job does.
#[derive(Clone, Debug)]
pub struct JobSpec {
    /// The operations.
    pub workload: WorkloadSpec,
    /// Operations in flight.
    pub depth: usize,
    /// When they are meant to start; `None` for as soon as can be.
    pub rate: Option<Rate>,
    /// Payloads are made provable with this seed, and proved.
    pub verify_seed: Option<u64>,
    /// What was written is on stable media before the job ends.
    pub end_fsync: bool,
}

impl JobSpec {
    /// As many operations as can be, so many in flight, over and over a range from offset 0 on, in an
    /// order that is always the same.
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

/// How a thread drives its jobs: alike for all jobs of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct DriveSpec {
    /// Time not counted, at the start.
    pub ramp: Nanos,
    /// Time counted; `None` until the workloads end.
    pub runtime: Option<Nanos>,
    /// How it waits.
    pub spin: Spin,
    /// When nothing has ended for so long though something is in flight, the target is taken to be
    /// gone; `None` to wait for ever. Longer than any pause that a rate makes.
    pub stall_max: Option<Nanos>,
    /// So many completions are counted before their slots are filled and handed over at once, whatever
    /// else has completed; `None` for all that there are. With 1, a host that issues one operation for
    /// each completion, as most do.
    pub batch: Option<NonZeroUsize>,
}

/// How a thread waits for completions.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub enum Spin {
    /// Spins, and sleeps after a millisecond without a completion.
    #[default]
    Adaptive,
    /// Never sleeps.
    Always,
    /// Sleeps at once.
    Never,
}

/// Why a job stopped.
#[derive(Debug, thiserror::Error)]
pub enum JobFailure {
    /// There is no such workload.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// One operation failed.
    #[error("{} of {} at offset {}: {source}", verb(.op.direction), .op.len, .op.offset.0)]
    Operation {
        /// Which.
        op: Op,
        /// How.
        source: EngineError,
    },
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Nothing ends.
    #[error("nothing has ended for {} s: is the target still there?", .span.0 / 1_000_000_000)]
    Stalled {
        /// For so long.
        span: Nanos,
    },
    /// What was read is not what was written.
    #[error("verify: {0}")]
    Verify(#[from] Mismatch),
}

fn verb(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "read",
        Direction::Write => "write",
    }
}
