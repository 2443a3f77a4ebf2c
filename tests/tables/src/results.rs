//! Results of contests as Markdown and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use crate::contest::{Contest, ContestResult};
use crate::resources::{Resources, ResourcesPart};
use nearflash_bench::compare::{Figure, Part, Round};
use nearflash_bench::placement::Place;
use nearflash_bench::report::SCHEMA;

/// Whether the median reaches the required score, if there is one.
pub fn is_reached(result: &ContestResult) -> bool {
    let median = result.ratio.median;
    match (result.contest.must, result.contest.score.is_less_better()) {
        (None, _) => true,
        (Some(must), true) => median <= must,
        (Some(must), false) => median >= must,
    }
}

/// The result of one round, in one line.
pub fn round_line(contest: &Contest, round: &Round) -> String {
    let base = round.base().map_or_else(String::new, |base| format!("; base: {}", side(base)));
    format!("{}: {}{base}", contest.what, side(round.subject()))
}

fn side(Part { figure, cpu_ns, .. }: Part) -> String {
    let Figure { iops, latency_ns, .. } = figure;
    let cpu = if cpu_ns.is_nan() { String::new() } else { format!(", {cpu_ns:.0} ns of CPU time") };
    format!("{iops:.0}/s {:.2} us{cpu}", latency_ns / 1e3)
}

/// The results as a Markdown table.
pub fn to_markdown(results: &[ContestResult]) -> String {
    let mut text = "| what | must | aim | measured | quartiles | rounds | cores | |\n\
                    | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for result in results {
        let ContestResult { contest, ratio, .. } = result;
        let sign = if contest.score.is_less_better() { "≤ " } else { "" };
        let bound = |bound: Option<f64>| {
            bound.map_or_else(String::new, |bound| format!("{sign}{bound:.2}"))
        };
        let (must, aim) = (bound(contest.must), bound(contest.aim));
        let verdict = match (is_reached(result), ratio.is_doubtful) {
            (_, true) => "doubtful: no round was undisturbed",
            (true, false) if contest.must.is_none() => "",
            (true, false) => "reached",
            (false, false) => "missed",
        };
        writeln!(
            text,
            "| {} | {must} | {aim} | {:.3} | {:.3} to {:.3} | {} of {} | {} ns, {} | {verdict} |",
            contest.what,
            ratio.median,
            ratio.low,
            ratio.high,
            ratio.counted,
            ratio.counted + ratio.dropped,
            ratio.core_to_core.0,
            Place::of(ratio.core_to_core),
        )
        .expect("a text takes all that is written to it");
    }
    text
}

/// The results as JSON, with every round and, if measured, the node's resource usage.
pub fn to_json(results: &[ContestResult], resources: Option<&Resources>) -> String {
    let rows = results.iter().map(RowPart::of).collect();
    let resources = resources.map(ResourcesPart::of);
    let document = Document { schema: SCHEMA, rows, resources };
    serde_json::to_string_pretty(&document).expect("numbers and strings serialize") + "\n"
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
    #[serde(skip_serializing_if = "Option::is_none")]
    must: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aim: Option<f64>,
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
    subject: SidePart,
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<SidePart>,
}

#[derive(Serialize)]
struct SidePart {
    iops: f64,
    latency_ns: f64,
    cpu_ns: f64,
    node_own_ns: f64,
    host_own_ns: f64,
    core_share: f64,
}

impl RowPart {
    fn of(result: &ContestResult) -> Self {
        let ContestResult { contest, ratio, rounds } = result;
        Self {
            what: contest.what,
            must: contest.must,
            aim: contest.aim,
            median: ratio.median,
            low: ratio.low,
            high: ratio.high,
            reached: is_reached(result),
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
            subject: SidePart::of(round.subject()),
            base: round.base().map(SidePart::of),
        }
    }
}

impl SidePart {
    fn of(Part { figure, cpu_ns, own_ns }: Part) -> Self {
        let Figure { iops, latency_ns, core_share } = figure;
        let (node_own_ns, host_own_ns) = (own_ns.node, own_ns.host);
        Self { iops, latency_ns, cpu_ns, node_own_ns, host_own_ns, core_share }
    }
}
