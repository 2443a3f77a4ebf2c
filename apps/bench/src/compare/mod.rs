//! Comparisons of remote, local and floor, measured in turns.
//!
//! Machines are noisy, and virtual ones move their cores, so figures are never compared across
//! minutes. Every round measures all sides shortly after one another on the same cores, with the
//! core-to-core latency before and after. A round counts only if its cores stayed in one place and
//! were not used by others. The result is the median of the rounds' ratios, with their quartiles.

mod arena;
mod awake;
mod demo;
mod fio_job;
mod iscsi_perf;
mod node;
mod programs;
mod round;
mod tgt;
mod tgt_error;

pub use arena::{Arena, FILL, Measure, Ops, Side, Timing};
pub use awake::KeptAwake;
pub use demo::{DemoTargets, demo};
pub use fio_job::{
    FIO_NOT_INSTALLED, FioError, FioJob, FioLatency, FioSide, is_fio_installed, run_fio,
};
pub use iscsi_perf::{ISCSI_PERF_NOT_INSTALLED, IscsiPerfError, measure_iscsi_perf};
pub use node::{Node, NodeError, NodeSpec};
pub use programs::find;
pub use round::{CORE_SHARE_MIN, Figure, OwnTime, Part, Ratio, Round, Verdict};
pub use tgt::{TGT_NOT_INSTALLED, Tgt};
pub use tgt_error::TgtError;
