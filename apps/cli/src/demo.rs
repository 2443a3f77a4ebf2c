//! `nearflash demo`: a node on a temporary file, measured beside its disk and the wire.

use std::path::PathBuf;

use nearflash_bench::BenchError;
use nearflash_bench::compare::{self, Node, NodeError, NodeSpec, Stand, Timing};
use nearflash_bench::floor::FloorCores;
use nearflash_bench::subject::{NvmeTcpTarget, Target, TargetError};
use nearflash_units::{ByteLen, Nanos};

/// How much of the file and of the volume is read and written.
const RANGE_LEN: ByteLen = ByteLen(256 << 20);

/// Each figure is the median of so many rounds.
const ROUNDS: u32 = 3;

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// The processor of the node, and the one that measures
    #[arg(long, value_name = "NODE,HOST", default_value = "0,1")]
    cores: FloorCores,
    /// Directory for 2 GiB of temporary files, on a disk rather than in memory [default: the current
    /// directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Why there was nothing to see.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    #[error("cannot make a temporary folder in {}: {source} (choose another with --dir)", .dir.display())]
    Folder { dir: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Node(#[from] NodeError),
    #[error(transparent)]
    Bench(#[from] BenchError),
    #[error(transparent)]
    Address(#[from] TargetError),
}

/// Starts a node, measures it, shows the table and how a host connects, and cleans up.
pub(crate) fn demo(args: &DemoArgs) -> Result<String, DemoError> {
    let parent = args.dir.clone().unwrap_or_else(|| PathBuf::from("."));
    let folder = tempfile::Builder::new().prefix("nearflash-demo-").tempdir_in(&parent);
    let folder = folder.map_err(|source| DemoError::Folder { dir: parent, source })?;
    let device = folder.path().join("device.img");
    let node_args = [
        format!("--device=flash=file:{},size=1GiB", device.display()),
        "--device=nothing=null:1GiB".to_owned(),
        "--volume=data=512MiB@flash".to_owned(),
        "--volume=null=512MiB@nothing".to_owned(),
        format!("--cores={}", args.cores.server.0),
    ];
    // The node is this very program, as a process of its own.
    let binary = std::env::current_exe().unwrap_or_else(|_| "nearflash".into());
    let data_dir = folder.path().join("node");
    let node = Node::start(&NodeSpec { binary, args: node_args.to_vec(), data_dir })?;
    let stand = Stand {
        null: volume(&node, "null")?,
        file: volume(&node, "data")?,
        local: folder.path().join("local.img"),
        range_len: RANGE_LEN,
        cores: args.cores,
    };
    let timing =
        Timing { ramp: Nanos::from_millis(100), span: Nanos::from_millis(500), rounds: ROUNDS };
    let table = compare::demo(&stand, timing)?;
    Ok(format!("{table}\n\n{HOW_TO_CONNECT}"))
}

fn volume(node: &Node, name: &str) -> Result<NvmeTcpTarget, DemoError> {
    match format!("nvme-tcp://{}/{name}", node.address).parse()? {
        Target::NvmeTcp(target) => Ok(target),
        other => unreachable!("an address of this form is no other target: {other:?}"),
    }
}

/// The demonstration's own node has ended, and its port with it: what is said here is for the node
/// that the same lines start.
const HOW_TO_CONNECT: &str = "\
To serve a file for good:
  nearflash serve --device flash=file:flash.img,size=16GiB --volume data=8GiB@flash
and to mount it by the Linux kernel, as root:
  nvme connect -t tcp -a 127.0.0.1 -s 4420 -n nqn.2026-11.io.nearflash:data";
