//! The table of what a node must reach over NVMe/TCP: `cargo bench -p nearflash-bench`.
//!
//! Starts the release build of `nearflash` (or what NEARFLASH_BIN names) on one core, measures
//! from another, and prints Markdown; the JSON, with every round, goes to the file that `--json`
//! names. The figures are ratios of what was measured in the same round, so they hold on any
//! machine.

mod shared;

use std::path::Path;
use std::process::ExitCode;

use nearflash_bench::BenchError;
use nearflash_bench::compare::{
    Device, Measured as _, Node, Row, Stand, measure_table, resources, rows,
};
use nearflash_bench::subject::{NvmeTcpTarget, Target};
use nearflash_units::ByteLen;
use shared::{Outcome, TableArgs};

const VOLUME_LEN: ByteLen = ByteLen(256 << 20);

fn main() -> ExitCode {
    shared::main("nvme_tcp_table", measure)
}

fn measure(args: &TableArgs, dir: &Path) -> Result<Outcome, BenchError> {
    let device = format!("disk=file:{},size=1GiB", dir.join("device.img").display());
    let node = Node::start(&args.node(
        dir,
        &[
            "--device",
            "null=null:64GiB",
            "--device",
            &device,
            "--volume",
            "null=32GiB@null",
            "--volume",
            "file=512MiB@disk",
        ],
    ))?;
    let stand = Stand {
        null: volume(&node, "null"),
        file: volume(&node, "file"),
        local: dir.join("local.img"),
        range_len: VOLUME_LEN,
        cores: args.cores,
    };
    let chosen: Vec<Row> =
        rows().into_iter().filter(|row| row.what.contains(&args.filter)).collect();
    if chosen.iter().any(|row| row.load.device == Device::File) {
        stand.fill()?;
    }
    let mut table = measure_table(&stand, &chosen, args.timing(), &mut |row, round| {
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
    Ok(Outcome {
        markdown: table.to_markdown(),
        json: table.to_json(),
        is_reached: table.is_reached(),
    })
}

fn volume(node: &Node, name: &str) -> NvmeTcpTarget {
    match format!("nvme-tcp://{}/{name}", node.address).parse() {
        Ok(Target::NvmeTcp(target)) => target,
        other => panic!("a node announces addresses of this form: {other:?}"),
    }
}
