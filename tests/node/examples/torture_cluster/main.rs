//! Tortures a cluster of three nodes for many rounds: nodes are killed, stopped and cut off, and slices and etcd are
//! restored from copies, under a load that verifies every read. Prints how long readers and writers waited at the nodes that had no fault.
//!
//! `scripts/torture-cluster` builds and runs it, as root: each node has a network namespace.

#![allow(clippy::unwrap_used)] // a failed torture says where

mod restores;

use std::collections::BTreeMap;
use std::fmt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nearflash::{Client, Credentials, Options, Volume};
use nearflash_node_tests::{Held, Kind, Load, LoadSize, Machine, Mirrored, Network, Stamp};
use rustix::process::{Signal, kill_process};

const NODES: usize = 3;

/// The longest time for a cluster to be whole again. A replica that was lost again and again waits for up to a
/// minute before it returns.
const PATIENCE: Duration = Duration::from_secs(100);

/// The time for which a node counts on another one.
const LEASE: Duration = Duration::from_secs(1);

/// The block of the host that switches, in the middle between two blocks of the load.
const SWITCHED: u64 = 8;

/// A wait that is told with its node.
const LONG: Duration = Duration::from_secs(3);

/// A kind of fault.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Fault {
    /// For comparison.
    Nothing,
    /// `kill -9` of the node; its etcd runs on.
    Kill,
    /// `kill -9` of the node and of its etcd, which may be the leader.
    KillWithEtcd,
    /// SIGTERM.
    End,
    /// SIGSTOP for longer than a lease, and SIGCONT.
    Stop,
    /// Nothing that one node sends reaches another one.
    CutOneWay,
    /// Two nodes do not reach each other.
    CutBothWays,
    /// A node reaches nobody, and nobody reaches it.
    Isolate,
    /// The same, and it dies meanwhile: nobody hears of its end.
    PowerCut,
    /// SIGSTOP while a write lies in its socket. The host closes the connection, and writes over another node.
    StopAndSwitch,
    /// A volume is removed while hosts of all nodes write to it.
    Remove,
    /// A core does not turn, and the other threads of its node do.
    Hang,
    /// The slice of a node that was killed is restored from a copy that was made while the node ran.
    SliceBack,
    /// Etcd goes back while nodes run, and then has its newest state again.
    StoreForth,
    /// Etcd goes back while nodes run. All nodes are killed, an operator accepts the older state, and they start.
    StoreAccepted,
}

impl Fault {
    const ALL: [Self; 15] = [
        Self::Nothing,
        Self::Kill,
        Self::KillWithEtcd,
        Self::End,
        Self::Stop,
        Self::CutOneWay,
        Self::CutBothWays,
        Self::Isolate,
        Self::PowerCut,
        Self::StopAndSwitch,
        Self::Remove,
        Self::Hang,
        Self::SliceBack,
        Self::StoreForth,
        Self::StoreAccepted,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "no fault",
            Self::Kill => "kill -9 of a node",
            Self::KillWithEtcd => "kill -9 of a node and its etcd",
            Self::End => "SIGTERM of a node",
            Self::Stop => "SIGSTOP, 2 to 4 s",
            Self::CutOneWay => "one-way drop between two nodes",
            Self::CutBothWays => "two-way drop between two nodes",
            Self::Isolate => "link of a node down",
            Self::PowerCut => "link down, then kill -9",
            Self::StopAndSwitch => "SIGSTOP, and a host switches",
            Self::Remove => "removal of a volume under load",
            Self::Hang => "a core that does not turn",
            Self::SliceBack => "kill -9, and an older slice",
            Self::StoreForth => "etcd goes back and forth",
            Self::StoreAccepted => "etcd goes back, and is accepted",
        }
    }

    /// The nodes whose readers and writers have nothing to do with the fault.
    fn spares(self, first: usize, second: usize) -> Vec<usize> {
        let is_spared = |node: &usize| match self {
            Self::Nothing | Self::Remove => true,
            Self::StoreAccepted => false,
            Self::CutOneWay | Self::CutBothWays => *node != first && *node != second,
            _ => *node != first,
        };
        (0..NODES).filter(is_spared).collect()
    }
}

/// Random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }

    fn node(&mut self) -> usize {
        usize::try_from(self.below(3)).unwrap()
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// The times of all rounds with one kind of fault.
#[derive(Default)]
struct Times {
    reader: Vec<Duration>,
    writer: Vec<Duration>,
    /// The same while the node returns.
    returning: Vec<Duration>,
    /// From the end of the fault until both replicas of each mirror are in sync.
    whole: Vec<Duration>,
}

/// Milliseconds of the median, the 99th percentile and the maximum.
struct Spread<'a>(&'a [Duration]);

impl fmt::Display for Spread<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted = self.0.to_vec();
        sorted.sort();
        let at = |percent: usize| {
            let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
            sorted.get(index).map_or(0, Duration::as_millis)
        };
        write!(f, "{:>6} {:>6} {:>6}", at(50), at(99), at(100))
    }
}

struct Torture<'a> {
    network: &'a Network,
    machines: &'a [Machine],
    nodes: Mirrored<'a>,
    load: Load,
    random: Random,
    times: BTreeMap<Fault, Times>,
    /// The contents that the block of the host that switches must have.
    switched: u64,
    /// Threads that do not turn.
    held: Option<Held>,
}

impl Torture<'_> {
    /// Returns whether the cluster has healed.
    fn round(&mut self, round: u64) -> bool {
        let number = variable("TORTURE_FAULT", round);
        let fault = Fault::ALL[usize::try_from(number).unwrap() % Fault::ALL.len()];
        let first = self.random.node();
        let second = (first + 1 + self.random.node() % 2) % NODES;
        sleep(self.random.millis(300, 800));
        self.longest(&[0, 1, 2]);
        self.inflict(fault, first, second);
        let spared = fault.spares(first, second);
        let (reader, writer) = self.longest(&spared);
        let ended = Instant::now();
        self.relieve(fault, first, second);
        let is_whole = self.wait_until_whole(&format!("{fault:?} of n{first} n{second}"));
        let whole = ended.elapsed();
        let before = self.load.done_by_thread();
        let goes_on = self.wait("progress of every thread", |it| {
            it.load.done_by_thread().iter().zip(&before).all(|(now, before)| *now >= before + 5)
        });
        let (returning, returning_writer) = self.longest(&spared);
        println!(
            "round {round:>4}  {:<31} n{first}  reader {:>5} ms, writer {:>5} ms; back: {:>5} ms, whole after {:>6} ms",
            fault.name(),
            reader.as_millis(),
            writer.as_millis(),
            returning.max(returning_writer).as_millis(),
            whole.as_millis()
        );
        if reader.max(returning) > LONG {
            (0..NODES).for_each(|it| println!("  n{it}: {:?}", self.load.errors(it)));
        }
        let times = self.times.entry(fault).or_default();
        times.reader.push(reader);
        times.writer.push(writer);
        times.returning.push(returning.max(returning_writer));
        times.whole.push(whole);
        is_whole && goes_on && self.is_switched()
    }

    /// Begins a fault, and lets it last.
    fn inflict(&mut self, fault: Fault, first: usize, second: usize) {
        match fault {
            Fault::Nothing => {}
            Fault::Kill => self.nodes.crash(first),
            Fault::KillWithEtcd => {
                let pid = self.machines[first].pid();
                self.nodes.crash(first);
                pid.into_iter().for_each(|pid| kill_process(pid, Signal::KILL).unwrap());
            }
            Fault::End => self.nodes.terminate(first),
            Fault::Stop => self.nodes.signal(first, Signal::STOP),
            Fault::StopAndSwitch => self.switch(first, second),
            Fault::Remove => self.remove_under_load(first),
            Fault::Hang => self.held = Some(self.nodes.node(first).hold("core-0")),
            Fault::SliceBack => self.lose_later_writes(first),
            Fault::StoreForth | Fault::StoreAccepted => self.store_goes_back(first),
            Fault::CutOneWay => self.network.cut(first, second),
            Fault::CutBothWays => {
                self.network.cut(first, second);
                self.network.cut(second, first);
            }
            Fault::Isolate => self.network.set_link(first, false),
            Fault::PowerCut => {
                self.network.set_link(first, false);
                sleep(self.random.millis(1, 200));
                self.nodes.crash(first);
            }
        }
        sleep(match fault {
            Fault::Nothing
            | Fault::Kill
            | Fault::End
            | Fault::Remove
            | Fault::StoreForth
            | Fault::StoreAccepted => self.random.millis(500, 1500),
            Fault::SliceBack => Duration::ZERO,
            // After 3 seconds, another node takes over.
            Fault::Hang => self.random.millis(4000, 6000),
            Fault::KillWithEtcd => self.random.millis(2500, 4000),
            _ => self.random.millis(2000, 4000),
        });
    }

    /// Ends a fault.
    fn relieve(&mut self, fault: Fault, first: usize, second: usize) {
        match fault {
            Fault::Nothing | Fault::Remove => {}
            Fault::Kill | Fault::KillWithEtcd | Fault::End | Fault::SliceBack => {
                self.nodes.serve(first);
            }
            Fault::Hang => drop(self.held.take()),
            Fault::StoreForth => self.store_is_the_newest_again(first),
            Fault::StoreAccepted => self.accept_the_older_store(),
            Fault::Stop | Fault::StopAndSwitch => self.nodes.signal(first, Signal::CONT),
            Fault::CutOneWay => self.network.mend(first, second),
            Fault::CutBothWays => {
                self.network.mend(first, second);
                self.network.mend(second, first);
            }
            Fault::Isolate => self.network.set_link(first, true),
            Fault::PowerCut => {
                self.network.set_link(first, true);
                self.nodes.serve(first);
            }
        }
    }

    /// A host of the first node gives up a write that lies in the socket of a node that is stopped, and writes over
    /// the second one.
    fn switch(&mut self, first: usize, second: usize) {
        let volume = self.open(first, "data");
        let stamp = |sequence| Stamp { lba: SWITCHED, sequence }.block(4096);
        volume.write_at(&stamp(self.switched + 1), SWITCHED * 4096).unwrap();
        self.nodes.node(first).freeze();
        // It does not answer.
        let _ = volume
            .with_timeout(Duration::from_millis(300))
            .write_at(&stamp(self.switched + 2), SWITCHED * 4096);
        drop(volume);
        self.switched += 3;
        let volume = self.open(second, "data");
        self.wait("the write over another node", |it| {
            volume.write_at(&stamp(it.switched), SWITCHED * 4096).is_ok()
        });
    }

    /// Whether the block of the host that switches has the last write, at every node.
    fn is_switched(&self) -> bool {
        (0..NODES).filter(|_| self.switched > 0).all(|node| {
            let mut block = [0; 4096];
            self.open(node, "data").read_at(&mut block, SWITCHED * 4096).unwrap();
            let found = Stamp::of(&block).map(|stamp| stamp.sequence);
            let is_last = found == Some(self.switched);
            if !is_last {
                println!("n{node}: {found:?} instead of {}, which came later", self.switched);
            }
            is_last
        })
    }

    /// Every request on the volume ends.
    fn remove_under_load(&self, at: usize) {
        let create = ["volume", "create", "other", "--replicas", "2", "--size", "48MiB"];
        self.nodes.node(at).command(&create);
        let volumes: Vec<Volume> = (0..NODES).map(|node| self.open(node, "other")).collect();
        std::thread::scope(|scope| {
            for volume in &volumes {
                scope.spawn(|| while volume.write_at(&[0x5A; 1 << 16], 0).is_ok() {});
            }
            sleep(Duration::from_millis(200));
            self.nodes.node(at).command(&["volume", "remove", "other", "--force", "--yes"]);
        });
        let is_gone = |it: &Self, node| {
            let listed = it.nodes.node(node).command(&["volume", "list"]);
            listed["volumes"].as_array().is_some_and(|volumes| volumes.len() == 1)
        };
        self.wait("the end of the volume", |it| (0..NODES).all(|node| is_gone(it, node)));
    }

    /// Opens a volume, as soon as the node has it.
    fn open(&self, node: usize, name: &str) -> Volume {
        let url = format!("direct://{}", self.nodes.addresses()[node]);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let client = Client::connect_with(&url, Credentials::NONE, Options::default());
            match client.and_then(|client| client.open(name)) {
                Ok(volume) => return volume,
                Err(error) if Instant::now() > deadline => panic!("n{node}: {error}"),
                Err(_) => sleep(Duration::from_millis(20)),
            }
        }
    }

    /// The longest waits of a reader and of a writer at these nodes since the last call.
    fn longest(&self, nodes: &[usize]) -> (Duration, Duration) {
        let of = |kind| {
            let waits = nodes.iter().map(|node| self.load.take_longest(*node, kind));
            waits.max().unwrap_or_default()
        };
        (of(Kind::Reader), of(Kind::Writer))
    }

    fn progress(&self, node: usize) -> u64 {
        let kinds = [Kind::Reader, Kind::Writer];
        kinds.map(|kind| self.load.done_by_each(node, kind)).into_iter().min().unwrap()
    }

    fn wait(&self, what: &str, is_true: impl Fn(&Self) -> bool) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while !is_true(self) {
            if Instant::now() > deadline {
                println!("not within {PATIENCE:?}: {what}");
                let running = (0..NODES).filter(|it| self.nodes.runs(*it));
                running.clone().for_each(|it| println!("n{it}: {:?}", self.nodes.mirrors(it)));
                for it in running {
                    let done =
                        [Kind::Writer, Kind::Reader].map(|kind| self.load.done_by_each(it, kind));
                    let status = self.nodes.node(it).command(&["status"]);
                    println!("n{it}: {done:?} {:?}", self.load.errors(it));
                    println!("n{it}: {} {}", status["cores"], status["clients"]);
                }
                return false;
            }
            sleep(Duration::from_millis(20));
        }
        true
    }

    /// Waits until every node sees both replicas of every mirror in sync.
    fn wait_until_whole(&self, after: &str) -> bool {
        let are_whole = |it: &Self| (0..NODES).all(|node| it.nodes.is_whole(node));
        self.wait(&format!("whole after {after}"), are_whole)
    }

    fn report(&self) {
        println!(
            "\nthe longest wait of any reader and of any writer at the nodes without the fault, in ms"
        );
        println!(
            "{:<31} {:>6}  {:>20}  {:>20}  {:>20}  {:>20}",
            "", "", "reader", "writer", "during the return", "until in sync"
        );
        let head = format!("{:>6} {:>6} {:>6}", "p50", "p99", "max");
        println!("{:<31} {:>6}  {head}  {head}  {head}  {head}", "fault", "rounds");
        for (fault, Times { reader, writer, returning, whole }) in &self.times {
            println!(
                "{:<31} {:>6}  {}  {}  {}  {}",
                fault.name(),
                reader.len(),
                Spread(reader),
                Spread(writer),
                Spread(returning),
                Spread(whole)
            );
        }
    }
}

fn variable(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("it is a number"))
}

fn main() -> std::process::ExitCode {
    let (rounds, seed) = (variable("TORTURE_ROUNDS", 90), variable("TORTURE_SEED", 1));
    let deadline = Instant::now() + Duration::from_secs(variable("TORTURE_SECONDS", 86_400));
    let network = Network::new(NODES);
    let machines = network.machines();
    Mirrored::unite(&machines);
    let nodes = Mirrored::start(&machines);
    nodes.create(&["--size", "96MiB", "--width", "3"]);
    let size = LoadSize { writers: 2, readers: 2, pause: Duration::from_micros(500) };
    let load = Load::start(&nodes.addresses(), "data", size);
    let random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let (network, machines, times) = (&network, &machines[..], BTreeMap::new());
    let mut torture =
        Torture { network, machines, nodes, load, random, times, switched: 0, held: None };
    let mut heals =
        torture.wait("the load begins", |it| (0..NODES).all(|node| it.progress(node) > 20));
    for round in 0..rounds {
        if !heals || Instant::now() > deadline || torture.load.violations().count() > 0 {
            break;
        }
        heals = torture.round(round);
    }
    torture.report();
    let done = torture.load.done_in_all();
    println!("{done} operations so far: {}", torture.load.violations());
    if !heals {
        println!("the cluster does not heal");
        return std::process::ExitCode::FAILURE;
    }
    let addresses = torture.nodes.addresses();
    // A fault that ended early is noticed when the lease is over.
    sleep(2 * LEASE);
    let heals = torture.wait_until_whole("the last fault");
    let violations = torture.load.end(&addresses).unwrap();
    println!("at the end: {violations}");
    if !heals {
        return std::process::ExitCode::FAILURE;
    }
    torture.nodes.assert_replicas_agree(0);
    println!("the replicas of every mirror have the same bytes");
    std::process::ExitCode::from(u8::from(violations.count() > 0))
}
