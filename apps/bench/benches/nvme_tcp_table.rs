//! The performance goals of a node over NVMe/TCP as a table: `cargo bench -p nearflash-bench`.
//!
//! Starts the release build of `nearflash` (or the program in NEARFLASH_BIN) on one core, measures
//! from another, and prints Markdown. The JSON, with every round, goes to the file that `--json`
//! names. The figures are ratios within a round, so they hold on any machine.

mod shared;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use nearflash_bench::compare::{
    Arena, ContestResult, Node, NodeSpec, NvmeTcpTargets, Resources, Stand, nvme_tcp_contests,
    resources, to_json, to_markdown, turn_line,
};
use nearflash_bench::subject::{NvmeTcpTarget, Target};
use nearflash_bench::{BenchArgs, BenchError, measure as bench};
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
        null: volume(&node, "null"),
        ram: volume(&node, "ram"),
        file: volume(&node, "file"),
        local: dir.join("local.img"),
    };
    let stand = Stand {
        null: targets.null.clone(),
        file: targets.file.clone(),
        local: targets.local.clone(),
        range_len: RANGE_LEN,
        cores: args.cores,
    };
    let chosen: Vec<_> = nvme_tcp_contests(&targets)
        .into_iter()
        .filter(|contest| contest.what.contains(&args.filter))
        .collect();
    if chosen.iter().any(|contest| contest.what.contains("file device")) {
        stand.fill()?;
    }
    if chosen.iter().any(|contest| contest.what.contains("RAM device")) {
        fill(&targets.ram)?;
    }
    let arena =
        Arena { node: &node, cores: args.cores, range_len: RANGE_LEN, timing: args.timing() };
    let mut results = Vec::new();
    for contest in chosen {
        let mut each = |turn: &_| eprintln!("{}", turn_line(&contest, turn));
        results.push(arena.hold(&contest, &mut each)?);
    }
    let lines = taken.as_ref().map(|taken| taken.to_markdown()).unwrap_or_default();
    Ok(Outcome {
        markdown: to_markdown(&results) + &lines,
        json: to_json(&results, taken.as_ref()),
        is_reached: results.iter().all(ContestResult::is_reached),
    })
}

/// On a node that has no RAM device: the blocks of one that were written are memory, too.
fn measure_resources(args: &TableArgs, dir: &Path) -> Result<Resources, BenchError> {
    let node_args = ["--device", "null=null:64GiB", "--volume", "null=32GiB@null"];
    let spec = NodeSpec { data_dir: dir.join("lean"), ..args.node(dir, &node_args) };
    let node = Node::start(&spec)?;
    let null = volume(&node, "null");
    let stand = Stand {
        file: null.clone(),
        null,
        local: dir.join("local.img"),
        range_len: RANGE_LEN,
        cores: args.cores,
    };
    resources(&node, &stand)
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

fn volume(node: &Node, name: &str) -> NvmeTcpTarget {
    match format!("nvme-tcp://{}/{name}", node.address).parse() {
        Ok(Target::NvmeTcp(target)) => target,
        other => panic!("a node announces addresses of this form: {other:?}"),
    }
}

/// Fills a volume: blocks that were never written are not read from the device.
fn fill(target: &NvmeTcpTarget) -> Result<(), BenchError> {
    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        bench: BenchArgs,
    }
    let (target, size) = (Target::NvmeTcp(target.clone()).to_string(), RANGE_LEN.0.to_string());
    let words = ["bench", &target, "--rw", "write", "--bs", "128k", "--iodepth", "8"];
    bench(&Command::parse_from(words.into_iter().chain(["--size", &size])).bench)?;
    Ok(())
}
