//! The report of a run: a summary as text, or fio's JSON.

mod breakdown;
mod human;
mod json;
mod percentiles;
mod run;
mod samples;

pub use breakdown::{Breakdown, NodeStages, NodeUnknown};
pub use human::{count, micros};
pub use percentiles::{PercentileList, PercentilesError};
pub use run::{FloorComparison, Report, SCHEMA};
pub use samples::{Sample, Samples, Spread};

impl Report {
    /// The summary as text.
    pub fn to_text(&self) -> String {
        human::text(self)
    }

    /// fio's JSON, with our own `schema`.
    pub fn to_json(&self) -> String {
        json::document(self)
    }
}
