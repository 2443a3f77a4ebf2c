//! The performance goals of a node over iSCSI as a table: `cargo bench -p nearflash-tables`.
//!
//! Starts the release build of `nearflash` (or the program in NEARFLASH_BIN) on one core and, if it
//! is installed, Debian's `tgt` on the same core; each is idle while the other is measured.
//! Measures from another core, with our own initiator and with libiscsi's `iscsi-perf`. Prints
//! Markdown; the JSON, with every round, goes to the file that `--json` names. The floor has
//! iSCSI's byte counts: a request is 48 bytes, the answer to a read 48 bytes with the status, plus
//! the payload. Rows that need a program that is not installed are skipped with a message.

mod shared;

use std::path::Path;
use std::process::ExitCode;

use nearflash_bench::BenchError;
use nearflash_bench::compare::{Arena, Node, Tgt};
use nearflash_tables::{
    ContestSide, IscsiTargets, figures_to_markdown, is_reached, iscsi_contests, round_line,
    skipped_to_markdown, to_json, to_markdown,
};
use nearflash_units::ByteLen;
use shared::{Outcome, TableArgs};

/// Length of both targets' logical units, which are read in full.
const RANGE_LEN: ByteLen = ByteLen(256 << 20);

fn main() -> ExitCode {
    shared::main("iscsi_table", measure)
}

fn measure(args: &TableArgs, dir: &Path) -> Result<Outcome, BenchError> {
    let node_args =
        ["--device", "ram=ram:320MiB", "--volume", "ram=256MiB@ram", "--iscsi", "127.0.0.1:0"];
    let node = Node::start(&args.node(dir, &node_args))?;
    let own = node.iscsi_target("ram");
    let arena =
        Arena { node: &node, cores: args.cores, range_len: RANGE_LEN, timing: args.timing() };
    // As the peer's store is filled: blocks never written would not be read.
    ContestSide::Iscsi(own.clone()).fill(&arena)?;
    let tgt = Tgt::start(args.cores.server, RANGE_LEN)?;
    let targets = IscsiTargets { own, tgt: tgt.as_ref().map(Tgt::target) };
    let (mut results, mut skipped) = (Vec::new(), Vec::new());
    for contest in iscsi_contests(&targets) {
        match contest {
            Ok(contest) if contest.what.contains(&args.filter) => {
                let mut each = |round: &_| eprintln!("{}", round_line(&contest, round));
                results.push(contest.hold(&arena, &mut each)?);
            }
            Err(contest) if contest.what.contains(&args.filter) => skipped.push(contest),
            Ok(_) | Err(_) => {}
        }
    }
    let table = to_markdown(&results) + &skipped_to_markdown(&skipped);
    Ok(Outcome {
        markdown: format!("{table}\n{}", figures_to_markdown(&results)),
        json: to_json(&results, None),
        is_reached: results.iter().all(is_reached),
    })
}
