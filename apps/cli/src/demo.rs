//! `nearflash demo`: measures a node on a temporary file, compared with its disk and the wire.

use std::path::PathBuf;

use nearflash_bench::BenchError;
use nearflash_bench::compare::{self, Arena, DemoTargets, Node, NodeError, NodeSpec, Timing};
use nearflash_bench::floor::FloorCores;
use nearflash_units::{ByteLen, Nanos};

/// Length of the range of the file and of the volume that is read and written.
const RANGE_LEN: ByteLen = ByteLen(256 << 20);

/// Number of rounds; each figure is their median.
const ROUNDS: u32 = 3;

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// The processors of the node and of the client
    #[arg(long, value_name = "NODE,HOST", default_value = "0,1")]
    cores: FloorCores,
    /// Directory for 2 GiB of temporary files, on a disk rather than in memory [default: the current
    /// directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// The reason why the demonstration failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    #[error("cannot create a temporary folder in {}: {source} (choose another with --dir)", .dir.display())]
    Folder { dir: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Node(#[from] NodeError),
    #[error(transparent)]
    Bench(#[from] BenchError),
}

/// Starts a node, measures it, and returns the table and a note on how a host connects. Removes all
/// files.
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
    // The node is this program, run as another process.
    let binary = std::env::current_exe().unwrap_or_else(|_| "nearflash".into());
    let data_dir = folder.path().join("node");
    let node = Node::start(&NodeSpec { binary, args: node_args.to_vec(), data_dir })?;
    let timing =
        Timing { ramp: Nanos::from_millis(100), span: Nanos::from_millis(500), rounds: ROUNDS };
    let arena = Arena { node: &node, cores: args.cores, range_len: RANGE_LEN, timing };
    let targets = DemoTargets {
        null: node.nvme_tcp_target("null"),
        file: node.nvme_tcp_target("data"),
        local: folder.path().join("local.img"),
    };
    let table = compare::demo(&arena, &targets)?;
    Ok(format!("{table}\n\n{HOW_TO_CONNECT}"))
}

/// A note on how to start a permanent node and connect to it, since the node of the demonstration
/// has ended.
const HOW_TO_CONNECT: &str = "\
To serve a file permanently:
  nearflash serve --device flash=file:flash.img,size=16GiB --volume data=8GiB@flash
and to connect the Linux kernel to it, as root:
  nvme connect -t tcp -a 127.0.0.1 -s 4420 -n nqn.2026-11.io.nearflash:data";
