//! Comparisons of remote, local and floor, measured in turns.
//!
//! Machines are noisy, and virtual ones move their cores, so figures are never compared across
//! minutes. Every round measures all sides shortly after one another on the same cores, with the
//! core-to-core latency before and after. A round counts only if its cores stayed in one place and
//! were not used by others. The result is the median of the rounds' ratios, with their quartiles.

mod agreement;
mod awake;
mod contest;
mod demo;
mod direct;
mod fio;
mod fio_job;
mod iscsi;
mod iscsi_perf;
mod mirror;
mod mirror_rows;
mod node;
mod nvme_tcp;
mod programs;
mod resources;
mod results;
mod round;
mod tgt;
mod tgt_error;

pub use agreement::{
    AGREEMENT_LOADS, Agreement, AgreementLoad, AgreementRound, agreements_to_json,
    agreements_to_markdown, measure_agreement,
};
pub use awake::KeptAwake;
pub use contest::{Arena, Contest, ContestResult, Ops, Score, Side, Timing};
pub use demo::{DemoTargets, demo};
pub use direct::{DirectTargets, GRANTS, contests};
pub use fio::{FioSpec, LoadFigure, measure_fio};
pub use fio_job::{
    FIO_NOT_INSTALLED, FioError, FioJob, FioLatency, FioSide, is_fio_installed, run_fio,
};
pub use iscsi::{IscsiTargets, Skipped, figures_to_markdown, iscsi_contests, skipped_to_markdown};
pub use iscsi_perf::IscsiPerfError;
pub use mirror::{
    MIRROR_SIDES, MirrorFigure, MirrorRound, MirrorSide, MirrorTargets, measure_mirror,
};
pub use mirror_rows::{MirrorRow, mirror_rows, mirror_to_json, mirror_to_markdown};
pub use node::{Node, NodeError, NodeSpec};
pub use nvme_tcp::{NvmeTcpTargets, nvme_tcp_contests};
pub use programs::find;
pub use resources::{Resources, resources};
pub use results::{round_line, to_json, to_markdown};
pub use round::{CORE_SHARE_MIN, Figure, OwnTime, Part, Ratio, Round, Verdict};
pub use tgt::Tgt;
pub use tgt_error::TgtError;
