//! The table of what the direct protocol must reach: `cargo bench -p nearflash-bench`.
//!
//! Starts the release build of `nearflash` (or what NEARFLASH_BIN names) on one core, measures
//! from another, and prints Markdown; the JSON, with every round, goes to the file that `--json`
//! names. But for one latency the figures are ratios of what was measured in the same round, so they
//! hold on any machine.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use nearflash::direct::Url;
use nearflash_bench::BenchError;
use nearflash_bench::compare::{
    Arena, Contest, ContestResult, DirectTargets, GRANTS, Node, NodeSpec, Side, Timing, Turn,
    contests, to_json, to_markdown,
};
use nearflash_bench::floor::FloorCores;
use nearflash_bench::target::{NvmeTcpTarget, Target};
use nearflash_units::{ByteLen, Nanos, parse_duration};

const RANGE_LEN: ByteLen = ByteLen(256 << 20);
/// Grants of the credential that has many.
const MANY: u64 = 1000;
/// From grant to grant: pairs of a block that may be read and one that may not.
const GRANT_STRIDE: u64 = 2 * RANGE_LEN.0 / MANY / 8192 * 8192 + 8192;

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
        Ok(results) if results.iter().all(ContestResult::is_reached) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<Vec<ContestResult>, BenchError> {
    let dir = args.dir.clone().unwrap_or_else(|| target_dir().join("direct_table"));
    let output = |path: &Path, source| BenchError::Output { path: path.to_owned(), source };
    std::fs::create_dir_all(&dir).map_err(|source| output(&dir, source))?;
    let dir = tempdir_in(&dir).map_err(|source| output(&dir, source))?;
    let node = Node::start(&node_spec(args, &dir.0))?;
    let timing = Timing { ramp: Nanos(args.span.0 / 10), span: args.span, rounds: args.rounds };
    let arena = Arena { node: &node, cores: args.cores, range_len: RANGE_LEN, timing };
    let mut results = Vec::new();
    for contest in contests(&targets(&node, &dir.0)?) {
        if !contest.what.contains(&args.filter) {
            continue;
        }
        if contest.what == GRANTS {
            grant(&node, &dir.0)?;
        }
        if let Some(Side::File(_)) = &contest.base {
            fill(&contest)?;
        }
        results.push(arena.hold(&contest, &mut |turn| tell(&contest, turn))?);
    }
    println!("{}", to_markdown(&results));
    if let Some(path) = &args.json {
        std::fs::write(path, to_json(&results)).map_err(|source| output(path, source))?;
    }
    Ok(results)
}

fn tell(contest: &Contest, turn: &Turn) {
    let subject = turn.subject;
    eprint!(
        "{}: {:.0}/s {:.2} us, {:.0} ns of CPU time",
        contest.what,
        subject.figure.iops,
        subject.figure.latency_ns / 1e3,
        subject.cpu_ns,
    );
    match turn.base {
        Some(base) => eprintln!(
            "; beside it {:.0}/s {:.2} us, {:.0} ns",
            base.figure.iops,
            base.figure.latency_ns / 1e3,
            base.cpu_ns,
        ),
        None => eprintln!(),
    }
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
        // Blocks of 512 bytes, which NVMe/TCP needs to read so little.
        "null=32GiB@null,block-size=512",
        "--volume",
        "file=512MiB@disk",
        "--cores",
        &args.cores.server.0.to_string(),
        "--direct",
        "127.0.0.1:0",
        "--direct-local",
        &socket(dir).display().to_string(),
    ];
    NodeSpec { binary, args: node_args.map(str::to_owned).to_vec(), data_dir: dir.join("data") }
}

fn socket(dir: &Path) -> PathBuf {
    dir.join("direct.sock")
}

fn targets(node: &Node, dir: &Path) -> Result<DirectTargets, BenchError> {
    let url = |text: String| -> Result<Url, BenchError> {
        Ok(text.parse().map_err(nearflash::direct::Error::from)?)
    };
    let tcp = format!("direct://{}/null", node.direct.as_deref().unwrap_or_default());
    let local = format!("direct+local:{}", socket(dir).display());
    let with_key =
        |key: &str| format!("{tcp}?key={key}&secret-file={}", secret(dir, key).display());
    Ok(DirectTargets {
        tcp: url(tcp.clone())?,
        local: url(format!("{local}/null"))?,
        nvme_tcp: nvme_tcp(node),
        local_file: url(format!("{local}/file"))?,
        file: dir.join("local.img"),
        one_grant: url(with_key("one"))?,
        many_grants: url(with_key("many"))?,
    })
}

fn nvme_tcp(node: &Node) -> NvmeTcpTarget {
    match format!("nvme-tcp://{}/null", node.address).parse() {
        Ok(Target::NvmeTcp(target)) => target,
        other => panic!("a node announces addresses of this form: {other:?}"),
    }
}

fn secret(dir: &Path, key: &str) -> PathBuf {
    dir.join(format!("{key}.secret"))
}

/// Makes the credentials: one with one grant, one with many that do not touch.
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

/// Writes the volume and the local file full, so that reads have something to read.
fn fill(contest: &Contest) -> Result<(), BenchError> {
    use nearflash_bench::{BenchArgs, measure};
    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        bench: BenchArgs,
    }
    let Side::Direct(volume) = &contest.subject else { return Ok(()) };
    let Some(Side::File(file)) = &contest.base else { return Ok(()) };
    for target in [volume.to_string(), format!("file:{}", file.display())] {
        let words = ["bench", &target, "--rw", "write", "--bs", "128k", "--iodepth", "8"];
        let size = RANGE_LEN.0.to_string();
        let words = words.into_iter().chain(["--size", &size, "--end-fsync", "1"]);
        measure(&Command::parse_from(words).bench)?;
    }
    Ok(())
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
