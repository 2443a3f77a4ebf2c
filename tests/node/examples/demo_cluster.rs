//! Shows a volume with two replicas that outlives its primary: three nodes and their etcds on addresses of
//! the loopback network, a load that verifies every read, `kill -9`, the pause, and the return.
//!
//! `make demo-cluster` builds and runs it. Everything is in temporary folders, which it removes. With
//! `DEMO_SAMPLES=FILE`, it writes the load over time and the events to this file, for
//! `scripts/demo-cluster-picture`.

use std::fs;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nearflash_node_tests::{Kind, Load, LoadSize, Machine, Mirrored};

const NODES: usize = 3;
const SIZE: LoadSize = LoadSize { writers: 2, readers: 2, pause: Duration::ZERO };

/// The time that a step may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The time between two samples of the load.
const SAMPLE_PERIOD: Duration = Duration::from_millis(50);

/// The demonstration, and its clock.
struct Demo<'a> {
    nodes: Mirrored<'a>,
    load: Load,
    started: Instant,
    /// By time: the operations done since the start.
    samples: Vec<(f64, u64)>,
    /// The things that happened, by time.
    events: Vec<(f64, String)>,
}

impl Demo<'_> {
    fn now(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    fn say(&self, text: &str) {
        println!("{:6.1} s  {text}", self.now());
    }

    fn note(&mut self, event: &str) {
        self.events.push((self.now(), event.to_owned()));
    }

    /// Waits, and samples the load meanwhile.
    fn rest(&mut self, span: Duration) {
        let until = Instant::now() + span;
        while Instant::now() < until {
            sleep(SAMPLE_PERIOD.min(until - Instant::now()));
            self.samples.push((self.now(), self.load.done_in_all()));
        }
    }

    /// Writes the samples and the events, if the environment names a file.
    fn keep_samples(&self) {
        let Ok(path) = std::env::var("DEMO_SAMPLES") else { return };
        let kept = serde_json::json!({ "samples": self.samples, "events": self.events });
        fs::write(&path, kept.to_string()).unwrap_or_else(|error| println!("{path}: {error}"));
    }

    /// Prints the load of one second.
    fn show_load(&mut self) {
        let before = self.load.done_in_all();
        self.rest(Duration::from_secs(1));
        let rate = self.load.done_in_all() - before;
        self.say(&format!("{rate} reads and writes a second; {}", self.load.violations()));
    }

    fn show_verdict(&self, asked: usize) {
        let mirror = self.nodes.mirror(asked);
        let of = |it: &nearflash_node_tests::Replica| {
            let role = if it.is_primary { "primary" } else { "secondary" };
            let state = if it.is_in_sync { "in sync" } else { "not in sync" };
            format!("n{} {role}, {state}", it.node)
        };
        let replicas: Vec<String> = mirror.replicas.iter().map(of).collect();
        let verdict = self.nodes.verdict(asked);
        self.say(&format!("cluster: {verdict}; term {}: {}", mirror.term, replicas.join("; ")));
    }

    /// The longest waits of readers and writers at all nodes but one, since the last call.
    fn pauses(&self, except: usize) -> (f64, f64) {
        let others = || (0..NODES).filter(|node| *node != except);
        let of = |kind| {
            let longest = others().map(|node| self.load.take_longest(node, kind)).max();
            longest.unwrap_or_default().as_secs_f64() * 1e3
        };
        (of(Kind::Reader), of(Kind::Writer))
    }

    /// Kills the primary, and lets it return. Returns whether the cluster is whole in time.
    fn kill_and_return(&mut self) -> bool {
        let killed = self.nodes.mirror(0).primary();
        let asked = self.nodes.other(killed);
        self.pauses(killed);
        self.say(&format!("kill -9 of n{killed}, the primary"));
        self.note(&format!("kill -9 of n{killed}"));
        self.nodes.crash(killed);
        let before = self.nodes.copied().len();
        self.rest(Duration::from_secs(1));
        let (reader, writer) = self.pauses(killed);
        self.say(&format!(
            "longest pause at the other two nodes: {reader:.0} ms of a reader, {writer:.0} ms of a writer"
        ));
        self.show_verdict(asked);
        (0..3).for_each(|_| self.show_load());
        self.say(&format!("n{killed} returns"));
        self.note(&format!("n{killed} returns"));
        let returned = Instant::now();
        self.nodes.serve(killed);
        while !self.nodes.is_whole(asked) || self.nodes.verdict(asked) != "ok" {
            if returned.elapsed() > PATIENCE {
                self.show_verdict(asked);
                return false;
            }
            self.rest(SAMPLE_PERIOD);
        }
        self.note("in sync again");
        let took = returned.elapsed().as_secs_f64();
        let copied = self.nodes.copied();
        for line in &copied[before..] {
            self.say(&format!(
                "both replicas are in sync again after {took:.1} s: {line} and were copied; the rest of 256MiB had not been written"
            ));
        }
        self.show_verdict(asked);
        self.show_load();
        true
    }
}

fn main() -> ExitCode {
    let started = Instant::now();
    let machines: Vec<Machine> = (0..NODES).map(|_| Machine::new()).collect();
    println!("three machines, each with an etcd and a node, on loopback addresses");
    Mirrored::unite(&machines);
    let nodes = Mirrored::start(&machines);
    println!("nearflash volume create data --size 256MiB --replicas 2 --width 1");
    nodes.create(&["--size", "256MiB", "--width", "1"]);
    let load = Load::start(&nodes.addresses(), "data", SIZE);
    let (samples, events) = (Vec::new(), Vec::new());
    let mut demo = Demo { nodes, load, started, samples, events };
    demo.show_load();
    demo.show_load();
    demo.show_verdict(0);
    if !demo.kill_and_return() {
        println!("the cluster is not whole within {PATIENCE:?}");
        return ExitCode::FAILURE;
    }
    demo.keep_samples();
    let violations = demo.load.end(&demo.nodes.addresses());
    demo.nodes.assert_replicas_agree(0);
    println!("every block was read at every node: {violations}");
    println!("both replicas have the same bytes");
    ExitCode::from(u8::from(violations.count() > 0))
}
