//! Nodes of one cluster whose volume `data` is mirrored over two of them each, and where its replicas are.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::machine::Machine;
use crate::node::Node;
use crate::{eventually, nearflash};

/// The length of the pieces in which replicas are compared.
const PIECE: usize = 1 << 20;

/// A replica, as `volume show` prints it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Replica {
    /// The number of its node.
    pub node: usize,
    /// Where it begins on its slice.
    pub start: u64,
    /// Whether it is the primary.
    pub is_primary: bool,
    /// Whether it is in sync.
    pub is_in_sync: bool,
}

/// A mirror, as `volume show` prints it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mirror {
    /// Its term.
    pub term: u64,
    /// Its length.
    pub bytes: u64,
    /// Its replicas.
    pub replicas: Vec<Replica>,
}

impl Mirror {
    /// Whether every replica is in sync.
    pub fn is_whole(&self) -> bool {
        self.replicas.iter().all(|replica| replica.is_in_sync)
    }

    /// The node of the primary.
    ///
    /// # Panics
    /// If no replica is primary.
    pub fn primary(&self) -> usize {
        self.replicas.iter().find(|it| it.is_primary).expect("a mirror has a primary").node
    }

    /// The node of the other replica.
    ///
    /// # Panics
    /// If the mirror has one replica.
    pub fn secondary(&self) -> usize {
        self.replicas.iter().find(|it| !it.is_primary).expect("a mirror has two replicas").node
    }
}

/// The nodes of a cluster, by number; their names are `n0`, `n1` and so on.
#[derive(Debug)]
pub struct Mirrored<'a> {
    machines: &'a [Machine],
    nodes: Vec<Option<Node<'a>>>,
}

impl<'a> Mirrored<'a> {
    /// Makes one cluster of these machines.
    pub fn unite(machines: &[Machine]) {
        machines[0].init();
        machines[1..].iter().for_each(|machine| drop(machine.join(&machines[0], &[])));
    }

    /// Starts a node on each machine of a cluster.
    pub fn start(machines: &'a [Machine]) -> Self {
        Self::start_first(machines, machines.len())
    }

    /// Starts a node on each of the first machines of a cluster.
    pub fn start_first(machines: &'a [Machine], count: usize) -> Self {
        let nodes = (0..machines.len()).map(|_| None).collect();
        let mut mirrored = Self { machines, nodes };
        (0..count).for_each(|number| mirrored.serve(number));
        mirrored
    }

    /// Starts a node, with a slice of 512 MiB in a file.
    pub fn serve(&mut self, number: usize) {
        let machine = &self.machines[number];
        let flags = self.flags(number);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        self.nodes[number] = Some(Node::start_by(machine.program(), &machine.place, &flags));
    }

    /// The reason why a node does not start.
    ///
    /// # Panics
    /// When it starts.
    pub fn refused(&self, number: usize) -> String {
        let machine = &self.machines[number];
        let mut command = machine.program();
        command.args(["serve", "--data-dir", &machine.place.data_dir()]).args(self.flags(number));
        let output = command.stdin(Stdio::null()).output().expect("nearflash is a program");
        assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        said.lines().last().unwrap_or_default().to_owned()
    }

    fn flags(&self, number: usize) -> Vec<String> {
        let machine = &self.machines[number];
        let [direct, hosts, initiators] =
            [4421, 4420, 3260].map(|port| format!("{}:{port}", machine.address));
        let slice = format!("flash=file:{},size=512MiB", machine.place.text("slice.img"));
        let log = std::env::var("NEARFLASH_LOG").unwrap_or_else(|_| "info".to_owned());
        let (name, socket) = (format!("n{number}"), machine.place.text("direct.sock"));
        let doors = ["--direct", &direct, "--direct-local", &socket, "--iscsi", &initiators];
        let part = ["--cluster", "--node", &name, "--slice", &slice, "--host", "any"];
        let flags = [&doors[..], &part, &["--nvme-tcp", &hosts, "--log", &log]].concat();
        flags.into_iter().map(ToOwned::to_owned).collect()
    }

    /// A node that runs.
    ///
    /// # Panics
    /// When it does not.
    pub fn node(&self, number: usize) -> &Node<'a> {
        self.nodes[number].as_ref().expect("the node runs")
    }

    /// Whether a node was started, and neither killed nor ended since.
    pub fn runs(&self, number: usize) -> bool {
        self.nodes[number].is_some()
    }

    /// The machine of a node.
    pub fn machine(&self, number: usize) -> &'a Machine {
        &self.machines[number]
    }

    /// Kills a node, at any moment of its work.
    pub fn crash(&mut self, number: usize) {
        self.nodes[number].take().into_iter().for_each(Node::crash);
    }

    /// Ends a node in order.
    pub fn terminate(&mut self, number: usize) {
        self.nodes[number].take().into_iter().for_each(Node::terminate);
    }

    /// Sends a signal to a node.
    pub fn signal(&self, number: usize, signal: Signal) {
        self.node(number).signal(signal);
    }

    /// Stops a node, as a paused machine or one that swaps stands still, for this time at least, which `during`
    /// takes a part of. The time is the fault, so it is not waited for otherwise.
    pub fn freeze<T>(&self, number: usize, time: Duration, during: impl FnOnce() -> T) -> T {
        self.node(number).freeze();
        let begun = Instant::now();
        let done = during();
        std::thread::sleep(time.saturating_sub(begun.elapsed()));
        self.signal(number, Signal::CONT);
        done
    }

    /// A node that runs, other than this one.
    ///
    /// # Panics
    /// If no other node runs.
    pub fn other(&self, number: usize) -> usize {
        let mut running = (0..self.nodes.len()).filter(|it| self.nodes[*it].is_some());
        running.find(|it| *it != number).expect("another node runs")
    }

    /// The addresses of all nodes for direct clients.
    ///
    /// # Panics
    /// If the address of a machine is invalid.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let address = |it: &Machine| format!("{}:4421", it.address).parse();
        self.machines.iter().map(|it| address(it).expect("a machine has an address")).collect()
    }

    /// Creates the volume `data` with two replicas, and waits until every node has it.
    pub fn create(&self, flags: &[&str]) {
        let create = ["volume", "create", "data", "--replicas", "2"];
        self.node(0).command(&[&create[..], flags].concat());
        self.nodes.iter().flatten().for_each(|node| eventually("the volume", || has_volume(node)));
    }

    /// The mirrors of the volume, as a node sees them.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn mirrors(&self, asked: usize) -> Vec<Mirror> {
        let shown = self.node(asked).command(&["volume", "show", "data"]);
        let mirrors = shown["layout"]["mirrors"].as_array().expect("a volume has mirrors");
        mirrors.iter().map(mirror).collect()
    }

    /// The first mirror, as a node sees it.
    pub fn mirror(&self, asked: usize) -> Mirror {
        self.mirrors(asked).remove(0)
    }

    /// Whether every replica is in sync, as a node sees it.
    pub fn is_whole(&self, asked: usize) -> bool {
        self.mirrors(asked).iter().all(Mirror::is_whole)
    }

    /// The verdict of `cluster status`.
    pub fn verdict(&self, asked: usize) -> String {
        self.machines[asked].verdict()
    }

    /// Waits until every replica is in sync again and the verdict says so.
    pub fn heals(&self, asked: usize) {
        eventually("the verdict ok", || self.verdict(asked) == "ok");
        eventually("both replicas", || self.is_whole(asked));
    }

    /// Waits until every replica is in sync again, while a member of etcd is missing.
    ///
    /// # Panics
    /// When the status is not JSON.
    pub fn heals_without_member(&self, asked: usize) {
        eventually("the verdict ok on the data", || {
            let status = self.machines[asked].run(&["status", "--json"]).stdout;
            let status: Value = serde_json::from_slice(&status).expect("the status is JSON");
            status["data"]["verdict"] == "ok"
        });
        eventually("both replicas", || self.is_whole(asked));
    }

    /// Runs a command against a node. Returns whether it succeeded, and its message.
    ///
    /// # Panics
    /// When the program does not start.
    pub fn attempt(&self, asked: usize, arguments: &[&str]) -> (bool, String) {
        let data_dir = self.machines[asked].place.data_dir();
        let mut command = Command::new(nearflash());
        command.args(arguments).args(["--data-dir", &data_dir]).stdin(Stdio::null());
        let output = command.output().expect("nearflash is a program");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// The bytes that were copied to replicas because they differed, by the log of every node.
    pub fn copied(&self) -> Vec<String> {
        let logs = self.machines.iter().map(|machine| machine.place.log());
        let lines = logs.flat_map(|log| {
            let lines = log.lines().filter(|line| line.contains("is copied: "));
            lines
                .map(|line| line.rsplit(": ").next().unwrap_or_default().to_owned())
                .collect::<Vec<_>>()
        });
        lines.collect()
    }

    /// Checks that the replicas of every mirror have the same bytes. Nobody may write meanwhile.
    ///
    /// # Panics
    /// When they differ.
    pub fn assert_replicas_agree(&self, asked: usize) {
        for mirror in self.mirrors(asked) {
            let [first, second] = &mirror.replicas[..] else { panic!("{mirror:?}") };
            let file = |it: &Replica| {
                let path = self.machines[it.node].place.path("slice.img");
                File::open(path).expect("a node has a slice")
            };
            let (one, two) = (file(first), file(second));
            let (mut left, mut right) = (vec![0; PIECE], vec![0; PIECE]);
            for at in (0..mirror.bytes).step_by(PIECE) {
                one.read_exact_at(&mut left, first.start + at).expect("the slice has the mirror");
                two.read_exact_at(&mut right, second.start + at).expect("the slice has the mirror");
                let differs = left.iter().zip(&right).position(|(left, right)| left != right);
                assert_eq!(differs, None, "piece at {at} of {mirror:?}");
            }
        }
    }
}

fn has_volume(node: &Node<'_>) -> bool {
    let listed = node.command(&["volume", "list"]);
    let volumes = listed["volumes"].as_array().expect("a list has volumes");
    // One that is being made has a state.
    volumes.iter().any(|volume| volume["state"].is_null())
}

fn mirror(value: &Value) -> Mirror {
    let number = |value: &Value| value.as_u64().expect("it is a number");
    let flag = |value: &Value| value.as_bool().expect("it is a flag");
    let replica = |it: &Value| Replica {
        node: it["node"].as_str().and_then(|name| name[1..].parse().ok()).expect("a name"),
        start: number(&it["start"]),
        is_primary: flag(&it["is_primary"]),
        is_in_sync: flag(&it["is_in_sync"]),
    };
    Mirror {
        term: number(&value["term"]),
        bytes: number(&value["bytes"]),
        replicas: value["replicas"].as_array().expect("replicas").iter().map(replica).collect(),
    }
}
