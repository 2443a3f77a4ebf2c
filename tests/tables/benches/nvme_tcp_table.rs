//! The performance goals of a node over NVMe/TCP as a table: `cargo bench -p nearflash-tables`.
//!
//! Starts the release build of `nearflash` (or the program in NEARFLASH_BIN) on one core, measures
//! from another, and prints Markdown. The JSON, with every round, goes to the file that `--json`
//! names. The figures are ratios within a round, so they hold on any machine.

mod shared;

use std::path::Path;
use std::process::ExitCode;

use nearflash_bench::BenchError;
use nearflash_bench::compare::{Arena, Node, NodeSpec};
use nearflash_tables::{
    ContestSide, NvmeTcpTargets, Resources, is_reached, nvme_tcp_contests, resources, round_line,
    to_json, to_markdown,
};
use nearflash_units::ByteLen;
use shared::{Outcome, TableArgs};

/// Words that choose the rows of memory and idle time.
const RESOURCES: &str = "resident memory, growth per further idle connection, CPU of the idle node";

/// Length of each volume and of the local file.
const RANGE_LEN: ByteLen = ByteLen(256 << 20);

fn main() -> ExitCode {
    shared::main("nvme_tcp_table", measure)
}

fn measure(args: &TableArgs, dir: &Path) -> Result<Outcome, BenchError> {
    let taken = match RESOURCES.contains(&args.filter) {
        true => Some(measure_resources(args, dir)?),
        false => None,
    };
    let node = start(args, dir)?;
    let targets = NvmeTcpTargets {
        null: node.nvme_tcp_target("null"),
        ram: node.nvme_tcp_target("ram"),
        file: node.nvme_tcp_target("file"),
        local: dir.join("local.img"),
    };
    let chosen: Vec<_> = nvme_tcp_contests(&targets)
        .into_iter()
        .filter(|contest| contest.what.contains(&args.filter))
        .collect();
    let arena =
        Arena { node: &node, cores: args.cores, range_len: RANGE_LEN, timing: args.timing() };
    // Blocks that were never written are not read from the device.
    if chosen.iter().any(|contest| contest.what.contains("file device")) {
        arena.fill_file(&targets.local)?;
        ContestSide::NvmeTcp(targets.file.clone()).fill(&arena)?;
    }
    if chosen.iter().any(|contest| contest.what.contains("RAM device")) {
        ContestSide::NvmeTcp(targets.ram.clone()).fill(&arena)?;
    }
    let mut results = Vec::new();
    for contest in chosen {
        let mut each = |round: &_| eprintln!("{}", round_line(&contest, round));
        results.push(contest.hold(&arena, &mut each)?);
    }
    let lines = taken.as_ref().map(|taken| taken.to_markdown()).unwrap_or_default();
    Ok(Outcome {
        markdown: to_markdown(&results) + &lines,
        json: to_json(&results, taken.as_ref()),
        is_reached: results.iter().all(is_reached),
    })
}

/// On a node that has no RAM device: the blocks of one that were written are memory, too.
fn measure_resources(args: &TableArgs, dir: &Path) -> Result<Resources, BenchError> {
    let node_args = ["--device", "null=null:64GiB", "--volume", "null=32GiB@null"];
    let spec = NodeSpec { data_dir: dir.join("lean"), ..args.node(dir, &node_args) };
    let node = Node::start(&spec)?;
    let arena =
        Arena { node: &node, cores: args.cores, range_len: RANGE_LEN, timing: args.timing() };
    resources(&arena, &node.nvme_tcp_target("null"))
}

fn start(args: &TableArgs, dir: &Path) -> Result<Node, BenchError> {
    let device = format!("disk=file:{},size=1GiB", dir.join("device.img").display());
    let node_args = [
        "--device",
        "null=null:64GiB",
        "--device",
        "ram=ram:320MiB",
        "--device",
        &device,
        "--volume",
        "null=32GiB@null",
        "--volume",
        "ram=256MiB@ram",
        "--volume",
        "file=512MiB@disk",
    ];
    Ok(Node::start(&args.node(dir, &node_args))?)
}
