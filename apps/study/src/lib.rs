//! The measurements of the papers on remote flash, one command each, compared with the papers' own
//! figures.
//!
//! A [study](studies::Study) asks one question. It plans [points](plan::Point), which are measured
//! one after another; each [outcome](result::Outcome) is stored at once. From the outcomes it makes
//! [exhibits](exhibit::Exhibit): a figure, its table, and [findings](finding::Finding), which judge the papers' claims. A report
//! puts the exhibits of all studies on one page.
//!
//! A [session](run::Session) measures the points that have not been measured yet, on a
//! [stand](run::Stand): cores, a disk, and a node: the program `nearflash`, started for the run.
//!
//! Engines and counting are in `nearflash-bench`.

pub mod args;
mod asked;
mod command;
pub mod compare;
pub mod energy;
mod error;
pub mod exhibit;
pub mod finding;
mod folder;
mod local;
mod machine;
mod number;
pub mod plan;
pub mod plot;
mod program;
pub mod published;
pub mod report;
pub mod result;
pub mod run;
pub mod simulation;
pub mod store;
pub mod studies;
pub mod timing;

pub use args::{CompareArgs, ReportArgs, RunArgs, StudyCommand};
pub use command::{Done, measure, print, run};
pub use error::{AskedError, LocalError, StudyError};
