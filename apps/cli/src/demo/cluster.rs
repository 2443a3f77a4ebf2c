//! Shows a volume with two replicas that outlives its primary: three nodes and their etcds on addresses of
//! the loopback network, a load that checks every read, `kill -9`, the pause, and the return.
//!
//! With `NEARFLASH_DEMO_SAMPLES=FILE`, it writes the load over time and the events to this file, for
//! `scripts/demo-cluster-picture`.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nearflash_api::{EventList, MirrorInfo, ReplicaInfo, VolumeCreate, VolumeList, VolumeShow};
use nearflash_bench::consistency::{Kind, Load, LoadSize};
use nearflash_units::{ByteLen, MIB};

use super::DemoError;
use super::machine::Machine;
use crate::output::print;

/// The number of nodes.
const NODES: u8 = 3;

const VOLUME: &str = "data";

const SIZE: ByteLen = ByteLen(256 * MIB);

const LOAD: LoadSize = LoadSize { writers: 2, readers: 2, pause: Duration::ZERO };

/// The time that a step may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The time between two samples of the load, and between two questions.
const SAMPLE_PERIOD: Duration = Duration::from_millis(50);

/// The length of the pieces in which replicas are compared.
const PIECE: usize = 1 << 20;

/// The variable that names the file for samples.
const SAMPLES_VARIABLE: &str = "NEARFLASH_DEMO_SAMPLES";

/// Makes the cluster in this folder, and shows what happens to it.
pub(super) fn show(folder: &Path) -> Result<(), DemoError> {
    let started = Instant::now();
    say_line("three machines, each with an etcd and a node, on loopback addresses")?;
    let mut machines = machines(folder)?;
    machines.iter_mut().try_for_each(Machine::serve)?;
    say_line("nearflash volume create data --size 256MiB --replicas 2 --width 1")?;
    create_volume(&machines)?;
    let addresses: Vec<SocketAddr> = machines.iter().map(Machine::direct_address).collect();
    let load = Load::start(&addresses, VOLUME, LOAD);
    let mut demo = Demo { machines, load, started, samples: Vec::new(), events: Vec::new() };
    demo.show_load()?;
    demo.show_load()?;
    demo.show_verdict(0)?;
    demo.kill_and_return()?;
    demo.keep_samples()?;
    let violations = demo.load.end(&addresses)?;
    compare_replicas(&demo.machines)?;
    if violations.count() > 0 {
        return Err(DemoError::Violated(violations));
    }
    say_line(&format!("every block was read at every node: {violations}"))?;
    say_line("both replicas have the same bytes")
}

/// Three machines of one cluster.
fn machines(folder: &Path) -> Result<Vec<Machine>, DemoError> {
    let machines: Result<Vec<Machine>, DemoError> =
        (0..NODES).map(|number| Machine::new(folder, number)).collect();
    let machines = machines?;
    let token = machines[0].init()?;
    machines[1..].iter().try_for_each(|machine| machine.join(&token))?;
    Ok(machines)
}

/// Creates the volume, and waits until every node has it.
fn create_volume(machines: &[Machine]) -> Result<(), DemoError> {
    machines[0].ask(VolumeCreate {
        name: VOLUME.to_owned(),
        bytes: SIZE.0,
        replicas: Some(2),
        width: Some(1),
        ..VolumeCreate::default()
    })?;
    let deadline = Instant::now() + PATIENCE;
    for machine in machines {
        while !machine.ask(VolumeList {})?.volumes.iter().any(|it| it.state.is_none()) {
            if Instant::now() > deadline {
                return Err(DemoError::Late {
                    what: "the volume at every node",
                    patience: PATIENCE,
                });
            }
            sleep(SAMPLE_PERIOD);
        }
    }
    Ok(())
}

/// The mirror of the volume, as a node sees it.
fn mirror(machine: &Machine) -> Result<MirrorInfo, DemoError> {
    let shown = machine.ask(VolumeShow { name: VOLUME.to_owned() })?;
    let mirrors = shown.layout.into_iter().flat_map(|layout| layout.mirrors);
    mirrors.last().ok_or(DemoError::Late { what: "a mirror of the volume", patience: PATIENCE })
}

/// Checks that both replicas have the same bytes. Nobody writes meanwhile.
fn compare_replicas(machines: &[Machine]) -> Result<(), DemoError> {
    let mirror = mirror(&machines[0])?;
    let slice = |replica: &ReplicaInfo| {
        let machine = machines.iter().find(|machine| machine.name() == replica.node);
        let path = machine.map(Machine::slice).unwrap_or_default();
        let opened = File::open(&path).map(|file| (file, replica.start));
        opened.map_err(|source| DemoError::File { path, source })
    };
    let slices: Result<Vec<(File, u64)>, DemoError> = mirror.replicas.iter().map(slice).collect();
    let mut pieces = [vec![0; PIECE], vec![0; PIECE]];
    for at in (0..mirror.bytes).step_by(PIECE) {
        for ((file, start), piece) in slices.as_deref().unwrap_or_default().iter().zip(&mut pieces)
        {
            let failed = |source| DemoError::File { path: PathBuf::from("slice.img"), source };
            file.read_exact_at(piece, start + at).map_err(failed)?;
        }
        if pieces[0] != pieces[1] {
            return Err(DemoError::Differ { mirror: mirror.number, at });
        }
    }
    slices.map(drop)
}

fn say_line(text: &str) -> Result<(), DemoError> {
    print(&format!("{text}\n")).map_err(DemoError::Output)
}

/// The demonstration, and its clock.
struct Demo {
    machines: Vec<Machine>,
    load: Load,
    started: Instant,
    /// By time in seconds: the operations done since the start.
    samples: Vec<(f64, u64)>,
    /// The things that happened, by time in seconds.
    events: Vec<(f64, String)>,
}

impl Demo {
    fn now(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    fn say(&self, text: &str) -> Result<(), DemoError> {
        say_line(&format!("{:6.1} s  {text}", self.now()))
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
    fn keep_samples(&self) -> Result<(), DemoError> {
        let Some(path) = std::env::var_os(SAMPLES_VARIABLE).map(PathBuf::from) else {
            return Ok(());
        };
        let kept = serde_json::json!({ "samples": self.samples, "events": self.events });
        fs::write(&path, kept.to_string()).map_err(|source| DemoError::File { path, source })
    }

    /// Prints the load of one second.
    fn show_load(&mut self) -> Result<(), DemoError> {
        let before = self.load.done_in_all();
        self.rest(Duration::from_secs(1));
        let rate = self.load.done_in_all() - before;
        self.say(&format!("{rate} reads and writes a second; {}", self.load.violations()))
    }

    fn show_verdict(&self, asked: usize) -> Result<(), DemoError> {
        let mirror = mirror(&self.machines[asked])?;
        let of = |it: &ReplicaInfo| {
            let role = if it.is_primary { "primary" } else { "secondary" };
            let state = if it.is_in_sync { "in sync" } else { "not in sync" };
            format!("{} {role}, {state}", it.node)
        };
        let replicas: Vec<String> = mirror.replicas.iter().map(of).collect();
        let verdict = self.machines[asked].status()?.verdict;
        self.say(&format!("cluster: {verdict}; term {}: {}", mirror.term, replicas.join("; ")))
    }

    /// The longest waits of readers and writers at all nodes but one since the last call, in milliseconds.
    fn pauses(&self, except: usize) -> (f64, f64) {
        let others = || (0..self.machines.len()).filter(|node| *node != except);
        let of = |kind| {
            let longest = others().map(|node| self.load.take_longest(node, kind)).max();
            longest.unwrap_or_default().as_secs_f64() * 1e3
        };
        (of(Kind::Reader), of(Kind::Writer))
    }

    /// The number of the machine whose node is the primary.
    fn primary(&self) -> Result<usize, DemoError> {
        let mirror = mirror(&self.machines[0])?;
        let primary = mirror.replicas.iter().find(|replica| replica.is_primary);
        let is_it = |machine: &Machine| primary.is_some_and(|it| it.node == machine.name());
        let late = DemoError::Late { what: "a primary of the mirror", patience: PATIENCE };
        self.machines.iter().position(is_it).ok_or(late)
    }

    /// Kills the primary, and lets it return.
    fn kill_and_return(&mut self) -> Result<(), DemoError> {
        let killed = self.primary()?;
        let name = self.machines[killed].name();
        self.pauses(killed);
        self.say(&format!("kill -9 of {name}, the primary"))?;
        self.note(&format!("kill -9 of {name}"));
        self.machines[killed].kill();
        let asked = self.machines.iter().position(Machine::has_node).unwrap_or_default();
        self.rest(Duration::from_secs(1));
        let (reader, writer) = self.pauses(killed);
        self.say(&format!(
            "longest pause at the other two nodes: {reader:.0} ms of a reader, {writer:.0} ms of a writer"
        ))?;
        self.show_verdict(asked)?;
        (0..3).try_for_each(|_| self.show_load())?;
        self.say(&format!("{name} returns"))?;
        self.note(&format!("{name} returns"));
        let returned = Instant::now();
        self.machines[killed].serve()?;
        self.await_whole(asked, returned)?;
        self.note("in sync again");
        self.show_copied(returned)?;
        self.show_verdict(asked)?;
        self.show_load()
    }

    /// Waits until both replicas are in sync and the cluster says so.
    fn await_whole(&mut self, asked: usize, since: Instant) -> Result<(), DemoError> {
        loop {
            let is_whole = mirror(&self.machines[asked])?.replicas.iter().all(|it| it.is_in_sync);
            if is_whole && self.machines[asked].status()?.verdict.exit_code() == 0 {
                return Ok(());
            }
            if since.elapsed() > PATIENCE {
                self.show_verdict(asked)?;
                return Err(DemoError::Late { what: "both replicas in sync", patience: PATIENCE });
            }
            self.rest(SAMPLE_PERIOD);
        }
    }

    /// Prints how much was copied to the replica that returned, as the event of its primary says it.
    fn show_copied(&self, since: Instant) -> Result<(), DemoError> {
        let took = since.elapsed().as_secs_f64();
        for machine in &self.machines {
            for event in machine.ask(EventList::default())?.events {
                if let Some((_, copied)) = event.text.split_once(" is copied: ") {
                    self.say(&format!(
                        "both replicas are in sync again after {took:.1} s: {copied} and were copied; the rest of {SIZE} had not been written"
                    ))?;
                }
            }
        }
        Ok(())
    }
}
