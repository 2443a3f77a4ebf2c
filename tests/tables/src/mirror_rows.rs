//! The scores of mirrored volumes, and their table.

use std::fmt::Write as _;

use serde::Serialize;

use crate::mirror::{DEEP, MIRROR_SIDES, MirrorRound, MirrorSide};
use nearflash_bench::report::SCHEMA;
use nearflash_bench::stats::Quartiles;
use nearflash_bench::workload::Direction;

/// A row of the table.
#[derive(Clone, Debug)]
pub struct MirrorRow {
    /// Its description.
    pub what: &'static str,
    /// The limit that must be reached; `None` for a row that explains another one.
    pub must: Option<f64>,
    /// The desired score.
    pub aim: Option<f64>,
    /// Whether less is better.
    pub is_less_better: bool,
    /// The score over all rounds.
    pub score: Quartiles,
}

impl MirrorRow {
    /// Whether the median reaches the limit.
    pub fn is_reached(&self) -> bool {
        match (self.must, self.is_less_better) {
            (None, _) => true,
            (Some(must), true) => self.score.median <= must,
            (Some(must), false) => self.score.median >= must,
        }
    }
}

/// Time that the nodes' own code may add to a mirrored write, in microseconds.
const OWN_MAX: f64 = 3.0;

type Score = fn(&MirrorRound) -> f64;
/// Description, required and desired score, whether less is better, and the score of a round.
type Row = (&'static str, [Option<f64>; 2], bool, Score);

const ROWS: [Row; 13] = [
    (
        "4 KiB write, depth 1: (time added by the second replica - 3 us) / time added by the third \
         party of the floor",
        [Some(1.15), Some(1.05)],
        true,
        |it| (second_replica(it) - OWN_MAX) / third_party(it, Direction::Write),
    ),
    ("- time added by the second replica, us", [None; 2], true, second_replica),
    ("- time added by the third party of the floor, us", [None; 2], true, |it| {
        third_party(it, Direction::Write)
    }),
    (
        "4 KiB writes, depth 32: IOPS per core of the nodes, two replicas / one",
        [Some(0.5), Some(0.6)],
        false,
        |it| it.of(MirrorSide::Single(DEEP)).cpu_ns / it.of(MirrorSide::Mirrored(DEEP)).cpu_ns,
    ),
    ("- the same of the floors, three parties / two", [None; 2], false, |it| {
        it.of(FLOOR).cpu_ns / it.of(RELAY).cpu_ns
    }),
    ("- IOPS of nodes and client on one core, two replicas / one", [None; 2], false, |it| {
        it.of(MirrorSide::Mirrored(DEEP)).iops / it.of(MirrorSide::Single(DEEP)).iops
    }),
    ("- the same of the floors, three parties / two", [None; 2], false, |it| {
        it.of(RELAY).iops / it.of(FLOOR).iops
    }),
    (
        "4 KiB read at the primary, depth 1: latency, two replicas / one",
        [Some(1.02), None],
        true,
        |it| it.of(MirrorSide::AtPrimary(1)).median_ns / it.of(MirrorSide::ReadSingle(1)).median_ns,
    ),
    (
        "4 KiB reads at the primary, depth 32: processor time of the nodes, two replicas / one",
        [Some(1.05), None],
        true,
        |it| it.of(MirrorSide::AtPrimary(DEEP)).cpu_ns / it.of(MirrorSide::ReadSingle(DEEP)).cpu_ns,
    ),
    (
        "4 KiB read, depth 1: time added by the other node - time added by the third party of the \
         floor, us",
        [Some(5.0), None],
        true,
        |it| hop(it) - third_party(it, Direction::Read),
    ),
    ("- time added by the other node, us", [None; 2], true, hop),
    ("- time added by the third party of the floor, us", [None; 2], true, |it| {
        third_party(it, Direction::Read)
    }),
    ("- round trip of the floor of two parties, us", [None; 2], true, |it| {
        it.of(MirrorSide::Floor(Direction::Read, 1)).median_ns / 1e3
    }),
];

const FLOOR: MirrorSide = MirrorSide::Floor(Direction::Write, DEEP);
const RELAY: MirrorSide = MirrorSide::Relay(Direction::Write, DEEP);

/// The difference of two median latencies, in microseconds.
fn added(round: &MirrorRound, less: MirrorSide, more: MirrorSide) -> f64 {
    (round.of(more).median_ns - round.of(less).median_ns) / 1e3
}

fn second_replica(round: &MirrorRound) -> f64 {
    added(round, MirrorSide::Single(1), MirrorSide::Mirrored(1))
}

fn hop(round: &MirrorRound) -> f64 {
    added(round, MirrorSide::AtPrimary(1), MirrorSide::ThroughEntry)
}

fn third_party(round: &MirrorRound, direction: Direction) -> f64 {
    added(round, MirrorSide::Floor(direction, 1), MirrorSide::Relay(direction, 1))
}

/// The rows of these rounds.
pub fn mirror_rows(rounds: &[MirrorRound]) -> Vec<MirrorRow> {
    let row = |(what, [must, aim], is_less_better, score): Row| MirrorRow {
        what,
        must,
        aim,
        is_less_better,
        score: Quartiles::or_nan(rounds.iter().map(score)),
    };
    // Rows of sides that are not measured have no score.
    ROWS.into_iter().map(row).filter(|row| !row.score.median.is_nan()).collect()
}

/// The rows, and the figures of each side, as Markdown tables.
pub fn mirror_to_markdown(rounds: &[MirrorRound]) -> String {
    let mut text = "| what | must | aim | measured | quartiles | rounds | |\n\
                    | --- | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for row in mirror_rows(rounds) {
        let sign = if row.is_less_better { "≤ " } else { "" };
        let bound =
            |bound: Option<f64>| bound.map_or_else(String::new, |it| format!("{sign}{it:.2}"));
        let verdict = match (row.must, row.is_reached()) {
            (None, _) => "",
            (_, true) => "reached",
            (_, false) => "missed",
        };
        let (must, aim, Quartiles { median, low, high }) =
            (bound(row.must), bound(row.aim), row.score);
        let (what, count) = (row.what, rounds.len());
        writeln!(
            text,
            "| {what} | {must} | {aim} | {median:.3} | {low:.3} to {high:.3} | {count} | {verdict} |",
        )
        .expect("a text takes all that is written to it");
    }
    text + &sides_to_markdown(rounds)
}

/// Medians over all rounds, by side.
fn sides_to_markdown(rounds: &[MirrorRound]) -> String {
    let mut text =
        "\n| side | median latency, us (quartiles) | mean latency, us | IOPS | processor \
                    time of the answering parties, us (quartiles) |\n\
                    | --- | --- | --- | --- | --- |\n"
            .to_owned();
    for side in MIRROR_SIDES {
        let of = |figure: fn(crate::MirrorFigure) -> f64| {
            Quartiles::or_nan(rounds.iter().map(|round| figure(round.of(side))))
        };
        if of(|it| it.iops).median.is_nan() {
            continue;
        }
        let (median, cpu) = (of(|it| it.median_ns / 1e3), of(|it| it.cpu_ns / 1e3));
        writeln!(
            text,
            "| {side} | {:.2} ({:.2} to {:.2}) | {:.2} | {:.0} | {:.2} ({:.2} to {:.2}) |",
            median.median,
            median.low,
            median.high,
            of(|it| it.mean_ns / 1e3).median,
            of(|it| it.iops).median,
            cpu.median,
            cpu.low,
            cpu.high,
        )
        .expect("a text takes all that is written to it");
    }
    text
}

/// The rows as JSON, with every round.
pub fn mirror_to_json(rounds: &[MirrorRound]) -> String {
    let row = |row: &MirrorRow| RowPart {
        what: row.what,
        must: row.must,
        aim: row.aim,
        score: row.score,
        reached: row.is_reached(),
    };
    let figure = |(side, figure): (MirrorSide, crate::MirrorFigure)| FigurePart {
        side: side.to_string(),
        median_ns: figure.median_ns,
        mean_ns: figure.mean_ns,
        iops: figure.iops,
        cpu_ns: figure.cpu_ns,
    };
    let round = |round: &MirrorRound| MIRROR_SIDES.map(|side| figure((side, round.of(side))));
    let document = Document {
        schema: SCHEMA,
        rows: mirror_rows(rounds).iter().map(row).collect(),
        rounds: rounds.iter().map(|it| round(it).into()).collect(),
    };
    serde_json::to_string_pretty(&document).expect("numbers and strings serialize") + "\n"
}

#[derive(Serialize)]
struct Document {
    schema: u32,
    rows: Vec<RowPart>,
    rounds: Vec<Vec<FigurePart>>,
}

#[derive(Serialize)]
struct RowPart {
    what: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    must: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aim: Option<f64>,
    #[serde(flatten)]
    score: Quartiles,
    reached: bool,
}

#[derive(Serialize)]
struct FigurePart {
    side: String,
    median_ns: f64,
    mean_ns: f64,
    iops: f64,
    cpu_ns: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MirrorFigure;

    /// A round whose side number `n` has these latencies and this processor time, in microseconds.
    fn round(micros: [f64; MIRROR_SIDES.len()]) -> MirrorRound {
        let figure = |us: f64| MirrorFigure {
            median_ns: us * 1e3,
            mean_ns: us * 1e3,
            iops: 1e6 / us,
            cpu_ns: us * 1e3,
        };
        MirrorRound(micros.into_iter().map(figure).collect())
    }

    #[test]
    fn each_score_compares_what_nodes_add_with_what_the_floor_adds() {
        let sides =
            [20.0, 40.0, 25.0, 50.0, 21.0, 31.0, 26.0, 26.0, 40.0, 2.0, 5.0, 3.0, 5.0, 4.0, 4.0];
        let rows = mirror_rows(&[round(sides)]);
        let scores: Vec<f64> = rows.iter().map(|row| row.score.median).collect();
        let hop = [4.0, 14.0, 10.0, 21.0];
        let before = [22.0 / 20.0, 25.0, 20.0, 0.6, 0.4, 0.6, 0.4, 1.0, 1.0];
        let differs = |(a, b): (&f64, &f64)| (a - b).abs() > 1e-9;
        let expected = [&before[..], &hop].concat();
        assert!(!scores.iter().zip(&expected).any(differs), "{scores:?}");
        assert!(rows.iter().all(MirrorRow::is_reached));
        let slow =
            [20.0, 40.0, 25.0, 52.0, 21.0, 31.0, 25.0, 26.0, 42.0, 2.0, 5.0, 3.0, 7.0, 4.0, 5.0];
        let missed = |row: &&MirrorRow| !row.is_reached();
        assert_eq!(mirror_rows(&[round(slow)]).iter().filter(missed).count(), 5);
    }

    #[test]
    fn the_tables_have_every_row_and_every_side() {
        let sides = [20.0, 40.0, 25.0, 50.0, 21.0, 31.0, 26.0, 26.0, 40.0, 2.0, 5.0, 3.0, 5.0];
        let rounds = vec![round([&sides[..], &[4.0, 4.0]].concat().try_into().unwrap()); 3];
        let text = mirror_to_markdown(&rounds);
        assert_eq!(text.matches(" | 3 |").count(), ROWS.len());
        assert!(MIRROR_SIDES.iter().all(|side| text.contains(&format!("| {side} |"))), "{text}");
        let json: serde_json::Value = serde_json::from_str(&mirror_to_json(&rounds)).unwrap();
        let some = MirrorRound([&rounds[0].0[..2], &[MirrorFigure::NONE; 13]].concat());
        assert_eq!(
            mirror_rows(&[some]).len(),
            1,
            "rows of sides that are not measured are left out"
        );
        assert_eq!(json["rounds"][2].as_array().map(Vec::len), Some(MIRROR_SIDES.len()));
    }
}
