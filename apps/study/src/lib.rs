//! The measurements of the papers on remote flash, one command each, beside the papers' own figures.
//!
//! A [study](studies::Study) asks one question. It plans [points](plan::Point), which are measured
//! one after another and [kept](result::Outcome) as they come, and makes [exhibits](exhibit::Exhibit)
//! of what was found: a figure, its table, and a sentence drawn from the data. A report puts the
//! exhibits of all studies on one page.
//!
//! Knows nothing of how operations reach a target or are counted: that is `nearflash-bench`.

pub mod compare;
pub mod energy;
pub mod exhibit;
pub mod plan;
pub mod plot;
pub mod published;
pub mod report;
pub mod result;
pub mod studies;
