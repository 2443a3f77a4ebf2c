//! The latency that a second node adds: `cargo bench -p nearflash-bench --bench hop_table`.
//!
//! A direct client reads and writes a volume in memory on its own node, the owner, and the same volume
//! through another node that serves it with `--remote`. The hop may cost one exchange over the bare
//! connection and a little more. Owner and client have the cores of `--cores`; the node in between has
//! `--middle`. All three poll, so a machine needs three processors for it: on two, two of them take
//! turns on one, which adds the scheduler's periods to every latency.

mod shared;

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use nearflash_bench::BenchError;
use nearflash_bench::compare::{Arena, Node, Ops, Ratio, Round, Side};
use nearflash_bench::floor::Headers;
use nearflash_units::{ByteLen, KIB};
use shared::{Outcome, TableArgs};

const RANGE_LEN: ByteLen = ByteLen(64 << 20);
const SMALL: ByteLen = ByteLen(4 * KIB);
/// The microseconds that a hop may cost at depth 1, apart from the bare exchange.
const MUST_MICROS: f64 = 5.0;
/// The desired ones.
const AIM_MICROS: f64 = 2.0;

const ROWS: [(&str, Ops); 4] = [
    ("4 KiB reads, depth 1", Ops::reads(SMALL, 1)),
    ("4 KiB reads, depth 32", Ops::reads(SMALL, 32)),
    ("4 KiB writes, depth 1", Ops::writes(SMALL, 1)),
    ("4 KiB writes, depth 32", Ops::writes(SMALL, 32)),
];

fn main() -> ExitCode {
    shared::main("hop_table", measure)
}

fn measure(args: &TableArgs, dir: &Path) -> Result<Outcome, BenchError> {
    let flags =
        ["--device", "r=ram:256MiB", "--volume", "data=128MiB@r", "--direct", "127.0.0.1:0"];
    let owner = Node::start(&args.node(dir, &flags))?;
    let near = format!("{}/data", owner.direct_url().unwrap_or_default());
    let remote = format!("data={near}");
    let flags = ["--remote", &remote, "--direct", "127.0.0.1:0"];
    let middle = Node::start(&args.middle_node(&dir.join("middle"), &flags))?;
    let far = format!("{}/data", middle.direct_url().unwrap_or_default());
    let side = |url: String| -> Result<Side, BenchError> {
        Ok(Side::Direct(url.parse().map_err(nearflash::direct::Error::from)?))
    };
    let (near, far) = (side(near)?, side(far)?);
    let arena =
        Arena { node: &owner, cores: args.cores, range_len: RANGE_LEN, timing: args.timing() };
    arena.fill(&near)?;
    let floor = Side::Floor(Headers::DIRECT);
    let mut results = Vec::new();
    for (what, ops) in ROWS.into_iter().filter(|(what, _)| what.contains(&args.filter)) {
        let mut each = |round: &Round| eprintln!("{what}: {:.2?} us", micros(round));
        results.push((what, ops, arena.rounds(&[&floor, &near, &far], ops, &mut each)?));
    }
    let is_reached = |(_, ops, rounds): &(_, Ops, Vec<Round>)| {
        ops.depth > 1 || Ratio::of(rounds, excess).median <= MUST_MICROS
    };
    Ok(Outcome {
        is_reached: results.iter().all(is_reached),
        markdown: to_markdown(&results),
        json: to_json(&results),
    })
}

/// The mean latencies of the bare exchange, the owner, and the node in between.
fn micros(round: &Round) -> [f64; 3] {
    [0, 1, 2].map(|side| round.parts[side].figure.latency_ns / 1e3)
}

/// What the hop costs apart from a bare exchange.
fn excess(round: &Round) -> f64 {
    let [floor, near, far] = micros(round);
    far - near - floor
}

fn to_markdown(results: &[(&str, Ops, Vec<Round>)]) -> String {
    let mut text = format!(
        "Mean latencies in µs. At depth 1, the hop without a bare exchange must cost at most \
         {MUST_MICROS}, and should cost at most {AIM_MICROS}.\n\n\
         | load | floor | owner | through the other node | hop without a bare exchange | rounds | |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n"
    );
    for (what, _, rounds) in results {
        let [floor, near, far] = [0, 1, 2].map(|side| Ratio::of(rounds, |it| micros(it)[side]));
        let hop = Ratio::of(rounds, excess);
        let verdict = if hop.is_doubtful { "doubtful: no round was undisturbed" } else { "" };
        writeln!(
            text,
            "| {what} | {:.1} | {:.1} | {:.1} | {:.1} ({:.1} to {:.1}) | {} of {} | {verdict} |",
            floor.median,
            near.median,
            far.median,
            hop.median,
            hop.low,
            hop.high,
            hop.counted,
            hop.counted + hop.dropped,
        )
        .expect("a text takes all that is written to it");
    }
    text
}

fn to_json(results: &[(&str, Ops, Vec<Round>)]) -> String {
    let rows = results.iter().map(|(what, _, rounds)| {
        let rounds: Vec<String> = rounds.iter().map(|it| format!("{:?}", micros(it))).collect();
        format!("{{\"what\":\"{what}\",\"micros\":[{}]}}", rounds.join(","))
    });
    format!("{{\"schema\":1,\"rows\":[{}]}}\n", rows.collect::<Vec<_>>().join(","))
}
