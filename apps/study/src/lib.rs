//! The measurements of the papers on remote flash, one command each, beside the papers' own figures.
//!
//! A [study](studies::Study) asks one question. It plans [points](plan::Point), which are measured
//! one after another and [kept](result::Outcome) as they come, and makes [exhibits](exhibit::Exhibit)
//! of what was found: a figure, its table, and a sentence drawn from the data. A report puts the
//! exhibits of all studies on one page.
//!
//! A [run](run::Session) measures the points that have not been measured, on a [stand](run::Stand):
//! cores, a disk, and a node of ours.
//!
//! Knows nothing of how operations reach a target or are counted: that is `nearflash-bench`.

pub mod args;
mod asked;
mod command;
pub mod compare;
pub mod energy;
mod error;
pub mod exhibit;
mod folder;
mod local;
mod machine;
pub mod plan;
pub mod plot;
pub mod published;
pub mod report;
pub mod result;
pub mod run;
pub mod store;
pub mod studies;

pub use args::{CompareArgs, ReportArgs, RunArgs, StudyCommand};
pub use asked::AskedError;
pub use command::{Done, measure, run};
pub use error::StudyError;
pub use local::LocalError;
