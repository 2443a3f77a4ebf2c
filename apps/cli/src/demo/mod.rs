//! `nearflash demo`: a node compared with its disk and the wire, or a cluster that loses a node. Everything
//! lies in a temporary folder, which is removed.

mod cluster;
mod machine;
mod node;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nearflash_api::client::ControlError;
use nearflash_api::process::StartError;
use nearflash_bench::BenchError;
use nearflash_bench::compare::NodeError;
use nearflash_bench::floor::FloorCores;
use nearflash_cluster_store::ClusterError;
use tempfile::TempDir;

use crate::output::print;

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// The processors of the node and of the client
    #[arg(long, value_name = "NODE,HOST", default_value = "0,1", conflicts_with = "cluster")]
    cores: FloorCores,
    /// Show a volume with two replicas that outlives kill -9 of its primary, on three nodes of this
    /// machine; needs etcd
    #[arg(long)]
    cluster: bool,
    /// Directory for 2 GiB of temporary files, on a disk rather than in memory [default: the current
    /// directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// The reason why the demonstration failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    #[error("cannot create a temporary folder in {}: {source} (choose another with --dir)", .dir.display())]
    Folder { dir: PathBuf, source: io::Error },
    #[error(transparent)]
    Node(#[from] NodeError),
    #[error(transparent)]
    Bench(#[from] BenchError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error("node {node} does not start: {source}; its log ends with '{said}'")]
    Start { node: String, source: StartError, said: String },
    #[error(transparent)]
    Control(#[from] ControlError),
    #[error(transparent)]
    Client(#[from] nearflash::Error),
    #[error("{}: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot print: {0}")]
    Output(io::Error),
    #[error("{what}: not within {} seconds; 'nearflash doctor' looks for the reason on this machine", .patience.as_secs())]
    Late { what: &'static str, patience: Duration },
    #[error("the load found false answers: {0}")]
    Violated(nearflash_bench::consistency::Violations),
    #[error("the replicas differ at byte {at} of mirror {mirror}")]
    Differ { mirror: u32, at: u64 },
}

/// Runs the demonstration and prints what it finds.
pub(crate) fn run_demo(args: &DemoArgs) -> Result<(), DemoError> {
    let folder = folder(args.dir.as_deref())?;
    if args.cluster {
        return cluster::show(folder.path());
    }
    let table = node::measure(folder.path(), args.cores)?;
    print(&format!("{table}\n")).map_err(DemoError::Output)
}

fn folder(dir: Option<&Path>) -> Result<TempDir, DemoError> {
    let dir = dir.unwrap_or(Path::new("."));
    let made = tempfile::Builder::new().prefix("nearflash-demo-").tempdir_in(dir);
    made.map_err(|source| DemoError::Folder { dir: dir.to_owned(), source })
}

/// The nodes are this program, run as other processes.
fn own_program() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| "nearflash".into())
}
