//! The tables of docs/performance.md: the rows of each, their goals, and their Markdown and JSON.
//! `cargo bench -p nearflash-tables` measures them, with the sides and rounds of
//! [`nearflash_bench::compare`].

mod agreement;
mod contest;
mod direct;
mod fio;
mod iscsi;
mod mirror;
mod mirror_rows;
mod nvme_tcp;
mod resources;
mod results;

pub use agreement::{
    AGREEMENT_LOADS, Agreement, AgreementLoad, AgreementRound, agreements_to_json,
    agreements_to_markdown, measure_agreement,
};
pub use contest::{Contest, ContestResult, ContestSide, Score};
pub use direct::{DirectTargets, GRANTS, contests};
pub use fio::{FioSpec, LoadFigure, measure_fio};
pub use iscsi::{IscsiTargets, Skipped, figures_to_markdown, iscsi_contests, skipped_to_markdown};
pub use mirror::{
    MIRROR_SIDES, MirrorFigure, MirrorRound, MirrorSide, MirrorTargets, measure_mirror,
};
pub use mirror_rows::{MirrorRow, mirror_rows, mirror_to_json, mirror_to_markdown};
pub use nvme_tcp::{NvmeTcpTargets, nvme_tcp_contests};
pub use resources::{Resources, resources};
pub use results::{is_reached, round_line, to_json, to_markdown};
