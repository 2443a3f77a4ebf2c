//! The performance goals of the direct protocol as a table: `cargo bench -p nearflash-tables`.
//!
//! Starts the release build of `nearflash` (or the program in NEARFLASH_BIN) on one core, measures
//! from another, and prints Markdown. The JSON, with every round, goes to the file that `--json`
//! names. Except for one latency, the figures are ratios within a round, so they hold on any
//! machine.

mod shared;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nearflash::direct::Url;
use nearflash_bench::BenchError;
use nearflash_bench::compare::{Arena, Node};
use nearflash_tables::{
    ContestSide, DirectTargets, GRANTS, contests, is_reached, round_line, to_json, to_markdown,
};
use nearflash_units::ByteLen;
use shared::{Outcome, TableArgs};

const RANGE_LEN: ByteLen = ByteLen(256 << 20);
/// Number of grants of the credential with many grants.
const MANY: u64 = 1000;
/// Distance of the grants: each is one block, followed by at least one block without a grant.
const GRANT_STRIDE: u64 = 2 * RANGE_LEN.0 / MANY / 8192 * 8192 + 8192;

fn main() -> ExitCode {
    shared::main("direct_table", measure)
}

fn measure(args: &TableArgs, dir: &Path) -> Result<Outcome, BenchError> {
    let node = start(args, dir)?;
    let arena =
        Arena { node: &node, cores: args.cores, range_len: RANGE_LEN, timing: args.timing() };
    let mut results = Vec::new();
    for contest in contests(&targets(&node, dir)?) {
        if !contest.what.contains(&args.filter) {
            continue;
        }
        if contest.what == GRANTS {
            grant(&node, dir)?;
        }
        if let Some(file @ ContestSide::File(_)) = &contest.base {
            contest.subject.fill(&arena)?;
            file.fill(&arena)?;
        }
        let mut each = |round: &_| eprintln!("{}", round_line(&contest, round));
        results.push(contest.hold(&arena, &mut each)?);
    }
    Ok(Outcome {
        markdown: to_markdown(&results),
        json: to_json(&results, None),
        is_reached: results.iter().all(is_reached),
    })
}

fn start(args: &TableArgs, dir: &Path) -> Result<Node, BenchError> {
    let device = format!("disk=file:{},size=1GiB", dir.join("device.img").display());
    let node_args = [
        "--device",
        "null=null:64GiB",
        "--device",
        &device,
        "--volume",
        // NVMe/TCP needs blocks of 512 bytes for reads of 512 bytes.
        "null=32GiB@null,block-size=512",
        "--volume",
        "file=512MiB@disk",
        "--direct",
        "127.0.0.1:0",
        "--direct-local",
        &dir.join("direct.sock").display().to_string(),
    ];
    Ok(Node::start(&args.node(dir, &node_args))?)
}

fn targets(node: &Node, dir: &Path) -> Result<DirectTargets, BenchError> {
    let url = |text: String| -> Result<Url, BenchError> {
        Ok(text.parse().map_err(nearflash::direct::Error::from)?)
    };
    let tcp = format!("{}/null", node.direct_url().unwrap_or_default());
    let local = node.direct_local_url().unwrap_or_default();
    let with_key =
        |key: &str| format!("{tcp}?key={key}&secret-file={}", secret(dir, key).display());
    let sealed = node.tell(&["grant", "seal", "null", "--for", "24h"])?;
    let token = sealed.split_once('?').map_or("", |(_, token)| token);
    Ok(DirectTargets {
        tcp: url(tcp.clone())?,
        local: url(format!("{local}/null"))?,
        nvme_tcp: node.nvme_tcp_target("null"),
        local_file: url(format!("{local}/file"))?,
        file: dir.join("local.img"),
        sealed_tcp: url(format!("{tcp}?{token}"))?,
        sealed_local: url(format!("{local}/null?{token}"))?,
        one_grant: url(with_key("one"))?,
        many_grants: url(with_key("many"))?,
    })
}

fn secret(dir: &Path, key: &str) -> PathBuf {
    dir.join(format!("{key}.secret"))
}

/// Creates the credentials: one with a single grant, one with many grants that do not touch.
fn grant(node: &Node, dir: &Path) -> Result<(), BenchError> {
    for key in ["one", "many"] {
        let file = secret(dir, key);
        node.tell(&["credential", "create", key, "--secret-file", &file.display().to_string()])?;
    }
    node.tell(&["grant", "add", "one", "null"])?;
    for number in 0..MANY {
        let start = number * GRANT_STRIDE;
        let range = format!("{start}..{}", start + GRANT_STRIDE - 4096);
        node.tell(&["grant", "add", "many", "null", "--range", &range])?;
    }
    Ok(())
}
