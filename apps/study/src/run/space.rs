//! A space of several nodes, started for the run with an etcd of its own. Each node has a slice in memory.

use std::collections::BTreeSet;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nearflash_bench::BenchError;
use nearflash_bench::compare::{Node, NodeSpec, find};
use nearflash_bench::placement::CoreId;
use nearflash_bench::subject::{Target, TargetError};
use nearflash_units::{ByteLen, MIB};

use super::error::PointError;
use crate::plan::{Door, Spread};

pub(super) const SPACE_VOLUME_LEN: ByteLen = ByteLen(256 * MIB);
/// The length of each slice: a whole volume, a part of another one, and metadata.
const SLICE_LEN: ByteLen = ByteLen(512 * MIB);
/// Buffer memory per core of a node.
const POOL: &str = "64MiB";
/// The time that etcd may take until it listens, and a node until it serves a volume.
const START_SPAN_MAX: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(20);
const ALL: [Spread; 2] = [Spread::Distributed, Spread::Centralized];

/// A running space. The nodes stop before their etcd.
#[derive(Debug)]
pub(super) struct Space {
    nodes: Vec<Node>,
    etcd: Etcd,
    /// The number of cores that the nodes share.
    pub(super) core_count: usize,
    /// Names of the volumes that have been filled.
    pub(super) filled: BTreeSet<&'static str>,
}

impl Space {
    /// Starts a space of `count` nodes, which have these cores in turn, with a volume of each kind. `dir`
    /// is an empty folder for all of them.
    pub(super) fn start(
        (dir, binary): (&Path, &Path),
        count: u8,
        cores: &[CoreId],
    ) -> Result<Self, PointError> {
        std::fs::create_dir_all(dir).map_err(|source| PointError::Space { source })?;
        let etcd = Etcd::start(&dir.join("etcd"))?;
        let mut nodes = Vec::new();
        for number in 0..usize::from(count) {
            let data_dir = dir.join(format!("n{number}"));
            join(binary, &data_dir, (&etcd, &dir.join("n0/etcd/token")), number == 0)?;
            nodes.push(serve(binary, data_dir, number, cores[number % cores.len()])?);
        }
        for spread in ALL {
            let words = words(spread, count);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            nodes[0].tell(&words).map_err(BenchError::from)?;
        }
        let core_count = cores.len().min(usize::from(count));
        let space = Self { nodes, etcd, core_count, filled: BTreeSet::new() };
        Ok(space)
    }

    /// The number of nodes.
    pub(super) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The processes of the nodes and of etcd.
    pub(super) fn process_ids(&self) -> Vec<u32> {
        self.nodes.iter().map(Node::process_id).chain([self.etcd.child.id()]).collect()
    }

    /// The targets of a volume, one over each node.
    pub(super) fn targets(&self, door: Door, spread: Spread) -> Result<Vec<Target>, TargetError> {
        let of = |node: &Node| {
            let place = match door {
                Door::Iscsi => node.iscsi_url(),
                Door::NvmeTcp => Some(node.nvme_tcp_url()),
                Door::Direct => node.direct_url(),
                Door::DirectLocal => node.direct_local_url(),
            };
            let place = place.expect("the nodes were started with all doors");
            format!("{place}/{}", volume(spread)).parse()
        };
        self.nodes.iter().map(of).collect()
    }
}

/// The name of a volume.
pub(super) fn volume(spread: Spread) -> &'static str {
    match spread {
        Spread::Distributed => "distributed",
        Spread::Centralized => "centralized",
    }
}

/// The command that creates a volume.
fn words(spread: Spread, count: u8) -> Vec<String> {
    let (placement, width) = match spread {
        Spread::Distributed => ("spread", count),
        Spread::Centralized => ("central:n0", 1),
    };
    let size = SPACE_VOLUME_LEN.to_string();
    let width = width.to_string();
    let flags = ["--size", &size, "--replicas", "1", "--width", &width, "--placement", placement];
    ["volume", "create", volume(spread)].into_iter().chain(flags).map(str::to_owned).collect()
}

/// Makes the cluster, or joins it.
fn join(
    binary: &Path,
    data_dir: &Path,
    (etcd, token): (&Etcd, &Path),
    is_first: bool,
) -> Result<(), PointError> {
    let mut command = Command::new(binary);
    command.arg("cluster");
    if is_first {
        command.args(["init", "--etcd", &format!("etcd://127.0.0.1:{}", etcd.port)]);
    } else {
        command.arg("join").arg(format!("@{}", token.display()));
    }
    command.args(["--listen", "127.0.0.1", "--data-dir"]).arg(data_dir);
    let said = command.output().map_err(|source| PointError::Space { source })?;
    if said.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&said.stderr).trim().to_owned();
    Err(PointError::Space { source: std::io::Error::other(said) })
}

/// Starts a node on a core, with a slice in memory.
fn serve(
    binary: &Path,
    data_dir: PathBuf,
    number: usize,
    core: CoreId,
) -> Result<Node, PointError> {
    let args = vec![
        "--cluster".to_owned(),
        format!("--node=n{number}"),
        format!("--slice=flash=ram:{SLICE_LEN}"),
        format!("--cores={}", core.0),
        format!("--pool={POOL}"),
        "--direct=127.0.0.1:0".to_owned(),
        "--iscsi=127.0.0.1:0".to_owned(),
        format!("--direct-local={}", data_dir.join("direct.sock").display()),
    ];
    let spec = NodeSpec { binary: binary.to_owned(), args, data_dir };
    Ok(Node::start(&spec).map_err(BenchError::from)?)
}

/// An etcd on the loopback network; killed on drop.
#[derive(Debug)]
struct Etcd {
    child: Child,
    port: u16,
}

impl Etcd {
    fn start(data_dir: &Path) -> Result<Self, PointError> {
        let program = find("etcd").ok_or(PointError::Absent { peer: "etcd" })?;
        let failed = |source| PointError::Space { source };
        let [port, peer_port] = free_ports().map_err(failed)?;
        let (client, peer) =
            (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
        let mut command = Command::new(program);
        command
            .args(["--name=study", "--max-txn-ops=512", "--logger=zap", "--data-dir"])
            .arg(data_dir);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("study={peer}")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut etcd = Self { child: command.spawn().map_err(failed)?, port };
        let end = Instant::now() + START_SPAN_MAX;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if !matches!(etcd.child.try_wait(), Ok(None)) || Instant::now() > end {
                return Err(PointError::NotListening { peer: "etcd" });
            }
            std::thread::sleep(POLL);
        }
        Ok(etcd)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two ports that nothing listens on.
fn free_ports() -> std::io::Result<[u16; 2]> {
    let listeners = [TcpListener::bind(("127.0.0.1", 0))?, TcpListener::bind(("127.0.0.1", 0))?];
    let [first, second] = listeners.map(|it| it.local_addr().map(|address| address.port()));
    Ok([first?, second?])
}

/// Repeats `attempt` until it succeeds: a node serves a new volume within moments.
pub(super) fn soon<T, E>(attempt: impl Fn() -> Result<T, E>) -> Result<T, E> {
    let end = Instant::now() + START_SPAN_MAX;
    loop {
        match attempt() {
            Err(_) if Instant::now() < end => std::thread::sleep(POLL),
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_lies_on_all_nodes_or_on_the_first() {
        assert_eq!(
            words(Spread::Distributed, 4).join(" "),
            "volume create distributed --size 256MiB --replicas 1 --width 4 --placement spread"
        );
        assert_eq!(
            words(Spread::Centralized, 4).join(" "),
            "volume create centralized --size 256MiB --replicas 1 --width 1 --placement central:n0"
        );
    }

    #[test]
    fn an_attempt_is_repeated_until_it_succeeds() {
        let left = std::cell::Cell::new(3);
        let attempt = || {
            left.set(left.get() - 1);
            if left.get() == 0 { Ok(7) } else { Err(()) }
        };
        assert_eq!(soon(attempt), Ok(7));
    }
}
