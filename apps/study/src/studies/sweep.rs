//! Sweeps: the same steps for every way, which become the series of figures.

use nearflash_bench::workload::Pattern;
use nearflash_units::ByteLen;

use super::ways::{Way, takes};
use crate::exhibit::{Axis, Cell, Exhibit, Figure, Kind, Mark, Origin, Scale, Series, Table};
use crate::plan::{Layout, Load, Point, PointId};
use crate::result::{Outcome, Results, Run};

/// A figure of merit of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure {
    /// The axis label.
    pub(super) label: &'static str,
    /// The unit.
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

/// A length on axes and in text.
pub(super) fn len_text(len: u64) -> String {
    match len {
        len if len >= 1 << 20 && len.is_multiple_of(1 << 20) => format!("{} MiB", len >> 20),
        len if len >= 1 << 10 && len.is_multiple_of(1 << 10) => format!("{} KiB", len >> 10),
        len => format!("{len} B"),
    }
}

/// A length in point names, without a space.
pub(super) fn len_tag(len: u64) -> String {
    len_text(len).replace(' ', "")
}

/// One step of a sweep.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// Its position on the axis.
    pub(super) x: f64,
    /// Its part of the point's name; distinguishes it from all other points of the same way.
    pub(super) tag: String,
    /// The loads.
    pub(super) loads: Vec<Load>,
}

impl Step {
    /// A step with one load.
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

/// A way's point at a step.
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

/// An axis.
pub(super) fn axis(label: &str, unit: &str, scale: Scale) -> Axis {
    Axis { label: label.to_owned(), unit: unit.to_owned(), scale }
}

/// The axis of a measure.
pub(super) fn measure_axis(measure: Measure, scale: Scale) -> Axis {
    axis(measure.label, measure.unit, scale)
}

/// A line chart.
pub(super) fn lines(x: Axis, y: Axis, series: Vec<Series>) -> Figure {
    Figure { kind: Kind::Lines, x, y, shade: None, series }
}

/// A bar chart with one group per name.
pub(super) fn bars(x: &str, names: Vec<String>, y: Axis, series: Vec<Series>) -> Figure {
    Figure { kind: Kind::Bars, x: axis(x, "", Scale::Names(names)), y, shade: None, series }
}

/// A stacked bar chart.
pub(super) fn stacked(x: &str, names: Vec<String>, y: Axis, series: Vec<Series>) -> Figure {
    Figure { kind: Kind::StackedBars, ..bars(x, names, y, series) }
}

/// A series of numbers without runs; the `n`-th value is at the `n`-th name. Missing values are
/// omitted.
pub(super) fn plain(
    label: &str,
    origin: Origin,
    values: impl IntoIterator<Item = Option<f64>>,
) -> Series {
    let mark = |(index, value): (usize, Option<f64>)| {
        value.map(|y| Mark { x: index_x(index), y, spread: None, is_doubtful: false })
    };
    let points = values.into_iter().enumerate().filter_map(mark).collect();
    Series { label: label.to_owned(), origin, points }
}

/// A published number as a horizontal line from `xs[0]` to `xs[1]`.
pub(super) fn level(label: String, value: f64, xs: [f64; 2]) -> Series {
    let mark = |x| Mark { x, y: value, spread: None, is_doubtful: false };
    Series { label, origin: Origin::Published, points: xs.map(mark).to_vec() }
}

/// A heading with its unit.
pub(super) fn heading(label: &str, unit: &str) -> String {
    if unit.is_empty() { label.to_owned() } else { format!("{label} ({unit})") }
}

/// A number, or an empty cell.
pub(super) fn cell(value: Option<f64>) -> Cell {
    value.map_or(Cell::Missing, Cell::Number)
}

/// A cell with text.
pub(super) fn text(words: impl Into<String>) -> Cell {
    Cell::Text(words.into())
}

/// All numbers of a figure, one row per x value.
pub(super) fn table_of(figure: &Figure) -> Table {
    let mut xs: Vec<f64> =
        figure.series.iter().flat_map(|series| series.points.iter().map(|mark| mark.x)).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let mut columns = vec![heading(&figure.x.label, &figure.x.unit)];
    columns.extend(figure.series.iter().map(|series| heading(&series.label, &figure.y.unit)));
    let row = |x: &f64| {
        let mut cells = vec![place(&figure.x.scale, *x)];
        cells.extend(figure.series.iter().map(|series| cell(at(series, *x).map(|mark| mark.y))));
        cells
    };
    Table { rows: xs.iter().map(row).collect(), columns }
}

/// The cell for a position on the x axis.
fn place(scale: &Scale, x: f64) -> Cell {
    let Scale::Names(names) = scale else { return Cell::Number(x) };
    let named = names.iter().enumerate().find(|(index, _)| index_x(*index) == x);
    named.map_or(Cell::Missing, |(_, name)| text(name.as_str()))
}

/// The position of the `n`-th name.
#[expect(clippy::cast_precision_loss, reason = "an axis has few names")]
pub(super) fn index_x(index: usize) -> f64 {
    index as f64
}

/// A length or count as a position.
#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
pub(super) fn x_of(value: u64) -> f64 {
    value as f64
}

/// The mark of a series at a position.
pub(super) fn at(series: &Series, x: f64) -> Option<&Mark> {
    series.points.iter().find(|mark| mark.x == x)
}

/// An exhibit with a figure, the figure's table, and notes on doubtful points.
pub(super) fn exhibit(slug: String, title: String, source: &str, figure: Figure) -> Exhibit {
    let table = table_of(&figure);
    let marks = || figure.series.iter().flat_map(|series| &series.points);
    let doubtful = marks().filter(|mark| mark.is_doubtful).count();
    let mut notes = Vec::new();
    if doubtful > 0 {
        let all = marks().count();
        notes.push(format!(
            "Doubtful points: {doubtful} of {all}. In each of their runs, the cores moved, were \
             placed differently from most runs, or were used by another program."
        ));
    }
    Exhibit {
        slug,
        title,
        source: source.to_owned(),
        figure: Some(figure),
        table,
        findings: Vec::new(),
        notes,
    }
}
