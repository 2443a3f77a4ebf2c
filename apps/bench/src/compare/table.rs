//! The table of what must be reached: every row measured, as Markdown and as JSON.

use nearflash_units::{ByteLen, KIB};
use serde::Serialize;

use super::resources::Resources;
use super::round::{Figure, Measured as _, Ratio, Round};
use super::stand::{Device, Load, Stand, Timing};
use crate::BenchError;
use crate::placement::Place;
use crate::report::SCHEMA;
use crate::workload::Direction;

/// What of a round is compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Score {
    /// Remote IOPS over the floor's: the more the better.
    IopsToFloor,
    /// Remote mean latency over the floor's: the less the better.
    LatencyToFloor,
    /// Remote mean latency over that of device and wire added: the less the better.
    LatencyToSum,
    /// Remote IOPS over the device's own: the more the better.
    IopsToLocal,
}

impl Score {
    fn of(self, round: &Round) -> f64 {
        let Round { floor, remote, .. } = round;
        let local = round.local.unwrap_or(Figure { iops: f64::NAN, latency_ns: 0.0, ..*floor });
        match self {
            Self::IopsToFloor => remote.iops / floor.iops,
            Self::LatencyToFloor => remote.latency_ns / floor.latency_ns,
            Self::LatencyToSum => remote.latency_ns / (local.latency_ns + floor.latency_ns),
            Self::IopsToLocal => remote.iops / local.iops,
        }
    }

    fn less_is_better(self) -> bool {
        matches!(self, Self::LatencyToFloor | Self::LatencyToSum)
    }
}

/// A row: what is measured, and what it must and shall come to.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// In words.
    pub what: &'static str,
    /// The load of both sides.
    pub load: Load,
    score: Score,
    must: f64,
    aim: f64,
}

/// The rows.
pub fn rows() -> Vec<Row> {
    let small = ByteLen(4 * KIB);
    let load = |device, direction, op_len, depth| Load { device, direction, op_len, depth };
    let read = |device, depth| load(device, Direction::Read, small, depth);
    let row = |what, load, score, (must, aim)| Row { what, load, score, must, aim };
    vec![
        row(
            "4 KiB random reads at depth 128, IOPS / floor",
            read(Device::Null, 128),
            Score::IopsToFloor,
            (0.85, 0.97),
        ),
        row(
            "4 KiB random reads at depth 32, IOPS / floor",
            read(Device::Null, 32),
            Score::IopsToFloor,
            (0.85, 0.97),
        ),
        row(
            "4 KiB random reads at depth 1, mean latency / floor",
            read(Device::Null, 1),
            Score::LatencyToFloor,
            (1.15, 1.05),
        ),
        row(
            "128 KiB reads at depth 16, bandwidth / floor",
            load(Device::Null, Direction::Read, ByteLen(128 * KIB), 16),
            Score::IopsToFloor,
            (0.90, 0.98),
        ),
        row(
            "4 KiB random writes at depth 32, IOPS / floor",
            load(Device::Null, Direction::Write, small, 32),
            Score::IopsToFloor,
            (0.75, 0.90),
        ),
        row(
            "file device, 4 KiB random reads at depth 1, mean latency / (local + floor)",
            read(Device::File, 1),
            Score::LatencyToSum,
            (1.10, 1.03),
        ),
        row(
            "file device, 4 KiB random reads at depth 32, IOPS / local",
            read(Device::File, 32),
            Score::IopsToLocal,
            (0.95, 1.00),
        ),
    ]
}

/// A measured row.
#[derive(Clone, Debug)]
pub struct RowResult {
    /// Which.
    pub row: Row,
    /// What the rounds say.
    pub ratio: Ratio,
    /// Every round.
    pub rounds: Vec<Round>,
}

impl RowResult {
    /// Whether the median is what it must be.
    pub fn is_reached(&self) -> bool {
        if self.row.score.less_is_better() {
            self.ratio.median <= self.row.must
        } else {
            self.ratio.median >= self.row.must
        }
    }
}

/// All rows.
#[derive(Clone, Debug)]
pub struct Table {
    /// The ratios.
    pub rows: Vec<RowResult>,
    /// Memory and processor time, if they were measured.
    pub resources: Option<Resources>,
}

/// Measures rows in turn; `progress` is told what is being measured, and what came of each round.
///
/// # Errors
/// When a row cannot be measured.
pub fn measure_table(
    stand: &Stand,
    rows: &[Row],
    timing: Timing,
    progress: &mut (dyn FnMut(&Row, &Round) + Send),
) -> Result<Table, BenchError> {
    let mut results = Vec::new();
    for row in rows {
        let rounds = stand.rounds(row.load, timing, &mut |round| progress(row, round))?;
        let ratio = Ratio::of(&rounds, |round| row.score.of(round));
        results.push(RowResult { row: *row, ratio, rounds });
    }
    Ok(Table { rows: results, resources: None })
}

impl Table {
    /// As Markdown.
    pub fn to_markdown(&self) -> String {
        let mut lines = vec![
            "| what | must | aim | measured | quartiles | rounds | cores | |".to_owned(),
            "| --- | --- | --- | --- | --- | --- | --- | --- |".to_owned(),
        ];
        lines.extend(self.rows.iter().map(markdown_line));
        if let Some(resources) = &self.resources {
            lines.extend(resource_lines(resources));
        }
        lines.join("\n") + "\n"
    }

    /// As JSON, every round included.
    pub fn to_json(&self) -> String {
        let document = Document {
            schema: SCHEMA,
            rows: self.rows.iter().map(RowPart::of).collect(),
            resources: self.resources.as_ref().map(ResourcesPart::of),
        };
        serde_json::to_string_pretty(&document).expect("numbers and strings serialize") + "\n"
    }

    /// Whether every row is what it must be.
    pub fn is_reached(&self) -> bool {
        self.rows.iter().all(RowResult::is_reached)
    }
}

fn markdown_line(result: &RowResult) -> String {
    let RowResult { row, ratio, .. } = result;
    let sign = if row.score.less_is_better() { "≤ " } else { "" };
    let verdict = match (result.is_reached(), ratio.is_doubtful) {
        (_, true) => "doubtful: no round was undisturbed",
        (true, false) => "reached",
        (false, false) => "missed",
    };
    format!(
        "| {} | {sign}{:.2} | {sign}{:.2} | {:.3} | {:.3} to {:.3} | {} of {} | {} ns, {} | {verdict} |",
        row.what,
        row.must,
        row.aim,
        ratio.median,
        ratio.low,
        ratio.high,
        ratio.counted,
        ratio.counted + ratio.dropped,
        ratio.core_to_core.0,
        Place::of(ratio.core_to_core),
    )
}

fn resource_lines(resources: &Resources) -> [String; 3] {
    let verdict = |reached| if reached { "reached" } else { "missed" };
    let mib = resources.busy_len.0 as f64 / 1_048_576.0;
    let kib = resources.per_connection_len.0 as f64 / 1024.0;
    let percent = resources.idle_share * 100.0;
    [
        format!(
            "| resident memory, one connection at depth 128 | < 64 MiB | | {mib:.1} MiB | | | | {} |",
            verdict(mib < 64.0),
        ),
        format!(
            "| growth per further idle connection ({} opened) | < 64 KiB | | {kib:.1} KiB | | | | {} |",
            resources.connections,
            verdict(kib < 64.0),
        ),
        format!(
            "| CPU of the idle node with connections open | < 1 % | | {percent:.2} % | | | | {} |",
            verdict(percent < 1.0),
        ),
    ]
}

#[derive(Serialize)]
struct Document {
    schema: u32,
    rows: Vec<RowPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<ResourcesPart>,
}

#[derive(Serialize)]
struct RowPart {
    what: &'static str,
    must: f64,
    aim: f64,
    median: f64,
    low: f64,
    high: f64,
    reached: bool,
    doubtful: bool,
    rounds: Vec<RoundPart>,
}

#[derive(Serialize)]
struct RoundPart {
    verdict: String,
    core_to_core_ns: [u64; 2],
    floor: FigurePart,
    #[serde(skip_serializing_if = "Option::is_none")]
    local: Option<FigurePart>,
    remote: FigurePart,
}

#[derive(Serialize)]
struct FigurePart {
    iops: f64,
    latency_ns: f64,
    core_share: f64,
}

#[derive(Serialize)]
struct ResourcesPart {
    resident_bytes: u64,
    bytes_per_idle_connection: u64,
    idle_connections: u32,
    idle_cpu_share: f64,
}

impl RowPart {
    fn of(result: &RowResult) -> Self {
        let RowResult { row, ratio, rounds } = result;
        Self {
            what: row.what,
            must: row.must,
            aim: row.aim,
            median: ratio.median,
            low: ratio.low,
            high: ratio.high,
            reached: result.is_reached(),
            doubtful: ratio.is_doubtful,
            rounds: rounds.iter().map(RoundPart::of).collect(),
        }
    }
}

impl RoundPart {
    fn of(round: &Round) -> Self {
        Self {
            verdict: format!("{:?}", round.verdict()).to_lowercase(),
            core_to_core_ns: [round.before.0, round.after.0],
            floor: FigurePart::of(&round.floor),
            local: round.local.as_ref().map(FigurePart::of),
            remote: FigurePart::of(&round.remote),
        }
    }
}

impl FigurePart {
    fn of(figure: &Figure) -> Self {
        let Figure { iops, latency_ns, core_share } = *figure;
        Self { iops, latency_ns, core_share }
    }
}

impl ResourcesPart {
    fn of(resources: &Resources) -> Self {
        Self {
            resident_bytes: resources.busy_len.0,
            bytes_per_idle_connection: resources.per_connection_len.0,
            idle_connections: resources.connections,
            idle_cpu_share: resources.idle_share,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_units::Nanos;

    fn table() -> Table {
        let figure = |iops: f64| Figure { iops, latency_ns: 1e9 / iops, core_share: 1.0 };
        let round = Round {
            floor: figure(100_000.0),
            local: Some(figure(20_000.0)),
            remote: figure(90_000.0),
            before: Nanos(30),
            after: Nanos(31),
        };
        let rows = rows().into_iter().map(|row| {
            let ratio = Ratio::of(&[round], |round| row.score.of(round));
            RowResult { row, ratio, rounds: vec![round] }
        });
        let resources = Resources {
            busy_len: ByteLen(20 << 20),
            per_connection_len: ByteLen(9 << 10),
            connections: 200,
            idle_share: 0.002,
        };
        Table { rows: rows.collect(), resources: Some(resources) }
    }

    #[test]
    fn the_table_says_what_was_reached() {
        insta::assert_snapshot!(table().to_markdown());
    }

    #[test]
    fn the_document_has_every_round() {
        insta::assert_snapshot!(table().to_json());
    }
}
