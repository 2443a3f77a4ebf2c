//! The table of what a node must reach over NVMe/TCP: `cargo bench -p nearflash-bench`.
//!
//! Starts the release build of `nearflash` (or what NEARFLASH_BIN names) on one core, measures
//! from another, and prints Markdown; the JSON, with every round, goes to the file that `--json`
//! names. The figures are ratios of what was measured in the same round, so they hold on any
//! machine.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use nearflash_bench::BenchError;
use nearflash_bench::compare::{
    Device, Measured as _, Node, NodeSpec, Row, Stand, Table, Timing, measure_table, resources,
    rows,
};
use nearflash_bench::floor::FloorCores;
use nearflash_bench::target::{NvmeTcpTarget, Target};
use nearflash_units::{ByteLen, Nanos, parse_duration};

const VOLUME_LEN: ByteLen = ByteLen(256 << 20);

#[derive(Parser)]
struct Args {
    /// Given by `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
    /// Rounds of each row
    #[arg(long, default_value_t = 9)]
    rounds: u32,
    /// Counted time of each side of a round
    #[arg(long, default_value = "1s", value_parser = parse_duration)]
    span: Nanos,
    /// The node's core, ours
    #[arg(long, default_value = "0,1")]
    cores: FloorCores,
    /// Only rows whose words hold this
    #[arg(default_value = "")]
    filter: String,
    /// Where the file device and the local file are made: a disk, not a RAM file system
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Where the JSON goes
    #[arg(long)]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if !args.bench {
        println!("measures a release build: run it with `cargo bench -p nearflash-bench`");
        return ExitCode::SUCCESS;
    }
    match run(&args) {
        Ok(table) if table.is_reached() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<Table, BenchError> {
    let dir = args.dir.clone().unwrap_or_else(|| target_dir().join("nvme_tcp_table"));
    let output = |path: &Path, source| BenchError::Output { path: path.to_owned(), source };
    std::fs::create_dir_all(&dir).map_err(|source| output(&dir, source))?;
    let dir = tempdir_in(&dir).map_err(|source| output(&dir, source))?;
    let node = Node::start(&node_spec(args, &dir.0))?;
    let stand = Stand {
        null: volume(&node, "null"),
        file: volume(&node, "file"),
        local: dir.0.join("local.img"),
        range_len: VOLUME_LEN,
        cores: args.cores,
    };
    let chosen: Vec<Row> =
        rows().into_iter().filter(|row| row.what.contains(&args.filter)).collect();
    if chosen.iter().any(|row| row.load.device == Device::File) {
        stand.fill()?;
    }
    let ramp = Nanos(args.span.0 / 10);
    let timing = Timing { ramp, span: args.span, rounds: args.rounds };
    let mut table = measure_table(&stand, &chosen, timing, &mut |row, round| {
        eprintln!(
            "{}: remote {:.0}/s {:.2} us, floor {:.0}/s {:.2} us, {:?}",
            row.what,
            round.remote.iops,
            round.remote.latency_ns / 1e3,
            round.floor.iops,
            round.floor.latency_ns / 1e3,
            round.verdict(),
        );
    })?;
    if args.filter.is_empty() {
        table.resources = Some(resources(&node, &stand)?);
    }
    println!("{}", table.to_markdown());
    if let Some(path) = &args.json {
        std::fs::write(path, table.to_json()).map_err(|source| output(path, source))?;
    }
    Ok(table)
}

fn node_spec(args: &Args, dir: &Path) -> NodeSpec {
    let binary = std::env::var_os("NEARFLASH_BIN")
        .map_or_else(|| target_dir().join("release/nearflash"), PathBuf::from);
    let device = dir.join("device.img");
    let node_args = [
        "--device",
        "null=null:64GiB",
        "--device",
        &format!("disk=file:{},size=1GiB", device.display()),
        "--volume",
        "null=32GiB@null",
        "--volume",
        "file=512MiB@disk",
        "--cores",
        &args.cores.server.0.to_string(),
    ];
    NodeSpec { binary, args: node_args.map(str::to_owned).to_vec(), data_dir: dir.join("data") }
}

fn volume(node: &Node, name: &str) -> NvmeTcpTarget {
    match format!("nvme-tcp://{}/{name}", node.address).parse() {
        Ok(Target::NvmeTcp(target)) => target,
        other => panic!("a node announces addresses of this form: {other:?}"),
    }
}

/// Where cargo builds: three folders above this program.
fn target_dir() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    program.ancestors().nth(3).map_or_else(|| "target".into(), Path::to_owned)
}

/// A folder that is gone with its value.
struct TempDir(PathBuf);

fn tempdir_in(parent: &Path) -> std::io::Result<TempDir> {
    let dir = parent.join(std::process::id().to_string());
    std::fs::create_dir_all(&dir)?;
    Ok(TempDir(dir))
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
