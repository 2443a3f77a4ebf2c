//! The goals of volumes with two replicas as a table: `cargo bench -p nearflash-tables --bench
//! mirror_table`.
//!
//! Starts a cluster of two nodes on addresses of the loopback network, each with an etcd, and with a
//! slice in memory. The primary's node has the first of the `--cores`; the client and the other node
//! share the second one. Nobody spins ([`nearflash_tables::MirrorTargets`]). Needs etcd and
//! chrt.

mod shared;

use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use nearflash_bench::BenchError;
use nearflash_bench::compare::find;
use nearflash_node_tests::{Machine, Mirrored, Node, eventually};
use nearflash_tables::{
    MirrorRow, MirrorTargets, measure_mirror, mirror_rows, mirror_to_json, mirror_to_markdown,
};
use nearflash_units::ByteLen;
use shared::{Outcome, TableArgs};

const RANGE_LEN: ByteLen = ByteLen(64 << 20);

fn main() -> ExitCode {
    if find("etcd").is_none() {
        eprintln!("mirror_table: skipped, since etcd is not installed (Debian: etcd-server)");
        return ExitCode::SUCCESS;
    }
    shared::main("mirror_table", measure)
}

fn measure(args: &TableArgs, _: &Path) -> Result<Outcome, BenchError> {
    let machines = [Machine::new(), Machine::new()];
    Mirrored::unite(&machines);
    let cores = [args.cores.server.0, args.cores.client.0];
    let nodes = [serve(&machines[0], 0, cores[0]), serve(&machines[1], 1, cores[1])];
    for (volume, replicas) in [("single", "1"), ("mirrored", "2")] {
        let place = ["--width", "1", "--placement", "local:n0", "--replicas", replicas];
        let create = ["volume", "create", volume, "--size", "128MiB"];
        nodes[0].command(&[&create[..], &place].concat());
        nodes.iter().for_each(|node| eventually(volume, || has_volume(node, volume)));
    }
    let url = |node: usize, volume: &str| {
        let url = format!("direct://{}:4421/{volume}", machines[node].address);
        url.parse().map_err(nearflash::direct::Error::from)
    };
    let targets = MirrorTargets {
        single: url(0, "single")?,
        mirrored: url(0, "mirrored")?,
        entry: url(1, "mirrored")?,
        nodes: [nodes[0].pid(), nodes[1].pid()],
        cores: args.cores,
        range_len: RANGE_LEN,
        filter: args.filter.clone(),
        timing: args.timing(),
    };
    let _awake = cores.map(Awake::start);
    let rounds = measure_mirror(&targets, &mut |side, it| {
        let (median, mean, cpu) = (it.median_ns / 1e3, it.mean_ns / 1e3, it.cpu_ns / 1e3);
        eprintln!(
            "{side}: median {median:.2} us, mean {mean:.2} us, {:.0}/s, {cpu:.2} us of CPU time",
            it.iops
        );
    })?;
    Ok(Outcome {
        markdown: mirror_to_markdown(&rounds),
        json: mirror_to_json(&rounds),
        is_reached: mirror_rows(&rounds).iter().all(MirrorRow::is_reached),
    })
}

fn serve(machine: &Machine, number: usize, core: u16) -> Node<'_> {
    let [direct, hosts] = [4421, 4420].map(|port| format!("{}:{port}", machine.address));
    let (name, core) = (format!("n{number}"), core.to_string());
    let doors = ["--direct", &direct, "--nvme-tcp", &hosts, "--host", "any"];
    let part = ["--cluster", "--node", &name, "--slice", "flash=ram:512MiB"];
    let flags = [&doors[..], &part, &["--cores", &core, "--spin", "0", "--log", "warn"]].concat();
    Node::start_by(machine.program(), &machine.place, &flags)
}

fn has_volume(node: &Node<'_>, volume: &str) -> bool {
    let listed = node.command(&["volume", "list"]);
    let mut volumes = listed["volumes"].as_array().expect("a list has volumes").iter();
    volumes.any(|it| it["name"] == volume)
}

/// Keeps a processor awake for as long as nothing else wants it: waking a halted processor of a
/// virtual machine takes a time that varies and that no program can influence.
struct Awake(Option<Child>);

impl Awake {
    fn start(core: u16) -> Self {
        let mut command = Command::new("chrt");
        command.args(["--idle", "0", "taskset", "--cpu-list", &core.to_string(), "sh", "-c"]);
        // It ends soon after its parent.
        command
            .arg("while kill -0 $PPID; do n=0; while [ $n -lt 100000 ]; do n=$((n+1)); done; done");
        let started = command.stdin(Stdio::null()).spawn();
        if let Err(error) = &started {
            eprintln!("chrt: {error}: figures include the time in which halted processors start");
        }
        Self(started.ok())
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        if let Some(loops) = &mut self.0 {
            let _ = loops.kill();
            let _ = loops.wait();
        }
    }
}
