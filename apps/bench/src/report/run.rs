//! A run and its results, of which the reports speak.

use nearflash_units::Nanos;

use super::{Breakdown, PercentileList, Samples};
use crate::placement::Place;
use crate::recorder::Record;

/// Version of all JSON documents of this crate.
pub const SCHEMA: u32 = 1;

/// A run and its results.
#[derive(Clone, Debug)]
pub struct Report {
    /// The run's name.
    pub name: String,
    /// The target, as on the command line.
    pub target: String,
    /// The options, with fio's names.
    pub options: Vec<(&'static str, String)>,
    /// Milliseconds since 1970.
    pub timestamp_ms: u64,
    /// The counts of all jobs.
    pub record: Record,
    /// Number of jobs.
    pub job_count: u32,
    /// Counts per interval.
    pub samples: Samples,
    /// The percentiles to report.
    pub percentiles: PercentileList,
    /// The floor, if it was measured.
    pub floor: Option<FloorComparison>,
    /// The parts of the mean latency, if they were measured.
    pub breakdown: Option<Breakdown>,
    /// Whether the jobs mostly ran on the processor of the node's core.
    pub shared_processor: bool,
}

/// A remote result compared with the floor, measured within the same minute.
#[derive(Clone, Debug)]
pub struct FloorComparison {
    /// Exchanges per second: mean of before and after.
    pub iops: f64,
    /// Mean latency in nanoseconds: mean of before and after.
    pub latency_ns: f64,
    /// Operations per second, divided by the floor's.
    pub iops_ratio: f64,
    /// Mean latency, divided by the floor's.
    pub latency_ratio: f64,
    /// Core-to-core latency before and after.
    pub core_to_core: [Nanos; 2],
}

impl FloorComparison {
    /// Whether the cores stayed in one place. If not, the ratio is meaningless.
    pub fn is_comparable(&self) -> bool {
        let [before, after] = self.core_to_core.map(Place::of);
        before == after
    }
}
