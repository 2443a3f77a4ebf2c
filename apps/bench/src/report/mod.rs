//! What a run is reported as: a summary for people, or fio's JSON.

mod human;
mod json;
mod percentiles;
mod samples;

use nearflash_units::Nanos;

pub(crate) use human::{count, micros};
pub use percentiles::{PercentileList, PercentilesError};
pub use samples::{Sample, Samples, Spread};

use crate::placement::Place;
use crate::recorder::Record;

/// The version of every JSON document of this crate.
pub const SCHEMA: u32 = 1;

/// A run and what it was.
#[derive(Clone, Debug)]
pub struct Report {
    /// The run's name.
    pub name: String,
    /// The target, as on the command line.
    pub target: String,
    /// The options, as fio names them.
    pub options: Vec<(&'static str, String)>,
    /// Seconds and milliseconds since 1970.
    pub timestamp_ms: u64,
    /// What was counted, all jobs together.
    pub record: Record,
    /// How many jobs.
    pub job_count: u32,
    /// What it was doing while it ran.
    pub samples: Samples,
    /// Which percentiles to tell.
    pub percentiles: PercentileList,
    /// The floor beside it.
    pub floor: Option<FloorComparison>,
}

/// A remote figure beside the floor of the same minute.
#[derive(Clone, Debug)]
pub struct FloorComparison {
    /// Exchanges per second: mean of before and after.
    pub iops: f64,
    /// Mean latency in nanoseconds: mean of before and after.
    pub latency_ns: f64,
    /// Operations per second over the floor's.
    pub iops_ratio: f64,
    /// Mean latency over the floor's.
    pub latency_ratio: f64,
    /// Core to core before and after.
    pub core_to_core: [Nanos; 2],
}

impl FloorComparison {
    /// Whether all was measured in one place: if not, the ratio says nothing.
    pub fn is_comparable(&self) -> bool {
        let [before, after] = self.core_to_core.map(Place::of);
        before == after
    }
}

impl Report {
    /// For people.
    pub fn to_text(&self) -> String {
        human::text(self)
    }

    /// fio's JSON, with our own `schema`.
    pub fn to_json(&self) -> String {
        json::document(self)
    }
}
