//! Sweeps: the same steps for every way, which become the series of figures.

use nearflash_bench::workload::Pattern;
use nearflash_units::ByteLen;

use super::chart::axis;
use super::ways::{Way, takes};
use crate::exhibit::{Axis, Mark, Scale, Series};
use crate::plan::{Layout, Load, Point, PointId};
use crate::result::{Outcome, Results, Run};

/// A figure of merit of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure {
    /// The axis label.
    pub(super) label: &'static str,
    pub(super) unit: &'static str,
    /// Extracts the value.
    pub(super) of: fn(&Run) -> f64,
}

/// Rate.
pub(super) const KIOPS: Measure =
    Measure { label: "operations per second", unit: "kIOPS", of: |run| run.iops / 1e3 };
/// Throughput of payload.
pub(super) const MB_S: Measure =
    Measure { label: "throughput", unit: "MB/s", of: |run| run.bytes_per_second / 1e6 };
/// Mean latency.
pub(super) const MEAN_US: Measure =
    Measure { label: "mean latency", unit: "µs", of: |run| run.latency.mean };
/// 95th percentile of latency.
pub(super) const P95_US: Measure =
    Measure { label: "95th percentile of latency", unit: "µs", of: |run| run.latency.p95 };
/// 99th percentile of latency.
pub(super) const P99_US: Measure =
    Measure { label: "99th percentile of latency", unit: "µs", of: |run| run.latency.p99 };
/// 99.9th percentile of latency.
pub(super) const P999_US: Measure =
    Measure { label: "99.9th percentile of latency", unit: "µs", of: |run| run.latency.p999 };

/// A load of one client with queue depth 1.
pub(super) fn load(pattern: Pattern, op_len: u64) -> Load {
    let is_mixed = matches!(pattern, Pattern::Rw | Pattern::RandRw);
    let is_read = matches!(pattern, Pattern::Read | Pattern::RandRead);
    Load {
        pattern,
        read_percent: if is_mixed { 50 } else { u8::from(is_read) * 100 },
        op_len: ByteLen(op_len),
        depth: 1,
        clients: 1,
        layout: Layout::Shared,
        rate_iops: None,
    }
}

#[derive(Clone, Debug)]
pub(super) struct Step {
    /// Its position on the axis.
    pub(super) x: f64,
    /// Its part of the point's name; distinguishes it from all other points of the same way.
    pub(super) tag: String,
    pub(super) loads: Vec<Load>,
}

impl Step {
    pub(super) fn new(x: f64, tag: String, load: Load) -> Self {
        Self { x, tag, loads: vec![load] }
    }
}

/// All ways at all steps.
#[derive(Clone, Debug)]
pub(super) struct Sweep {
    /// The study's name.
    pub(super) study: &'static str,
    /// The series.
    pub(super) ways: Vec<Way>,
    /// The positions on the axis.
    pub(super) steps: Vec<Step>,
}

impl Sweep {
    /// The points way by way, so that each subject is set up once. Steps with operations that a way
    /// does not take are omitted.
    pub(super) fn points(&self) -> Vec<Point> {
        let of_way = |way: &Way| {
            let is_taken = |step: &&Step| step.loads.iter().all(|load| takes(way, load.op_len.0));
            let steps = self.steps.iter().filter(is_taken);
            steps.map(|step| point(self.study, way, step)).collect::<Vec<_>>()
        };
        self.ways.iter().flat_map(of_way).collect()
    }

    /// One series per way, of the points that were measured.
    pub(super) fn series(&self, results: &Results, measure: Measure) -> Vec<Series> {
        let of_way = |way: &Way| {
            let points = self.steps.iter().filter_map(|step| {
                mark(results, &point_id(self.study, way, step), 0, measure, step.x)
            });
            Series { label: way.label.clone(), origin: way.origin, points: points.collect() }
        };
        self.ways.iter().map(of_way).filter(|series| !series.points.is_empty()).collect()
    }
}

/// The name of a way's point at a step.
pub(super) fn point_id(study: &str, way: &Way, step: &Step) -> PointId {
    PointId(format!("{study}/{}/{}", way.key, step.tag))
}

pub(super) fn point(study: &str, way: &Way, step: &Step) -> Point {
    let id = point_id(study, way, step);
    Point { id, subject: way.subject.clone(), loads: step.loads.clone() }
}

/// The mark of a point; `None` if it was not measured.
pub(super) fn mark(
    results: &Results,
    id: &PointId,
    tenant: usize,
    measure: Measure,
    x: f64,
) -> Option<Mark> {
    let spread = results.spread(id, tenant, measure.of)?;
    let Outcome::Measured(measurement) = results.outcomes.get(id)? else { return None };
    let is_repeated = measurement.tenants.get(tenant).is_some_and(|runs| runs.len() > 1);
    let is_finite = spread.median.is_finite() && spread.low.is_finite() && spread.high.is_finite();
    is_finite.then(|| Mark {
        x,
        y: spread.median,
        spread: is_repeated.then_some([spread.low, spread.high]),
        is_doubtful: results.is_doubtful(id),
    })
}

pub(super) fn measure_axis(measure: Measure, scale: Scale) -> Axis {
    axis(measure.label, measure.unit, scale)
}
