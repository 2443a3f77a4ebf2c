//! Nodes that start while etcd is away: a node with volumes of its own serves these, and joins its cluster
//! when etcd is back.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nearflash_node_tests::{Door, Machine, Node, Stamp, eventually, nearflash};

/// Machines of a cluster whose etcd no node supervises.
struct Bench([Machine; 2]);

impl Bench {
    /// These machines, and the one that has their etcd.
    fn new() -> (Self, Machine) {
        let (etcd, machines) = (Machine::new(), [Machine::new(), Machine::new()]);
        etcd.init();
        let file = |name| etcd.etcd(name).display().to_string();
        let (ca, cert, key) = (file("ca.pem"), file("machine.pem"), file("machine.key"));
        let address = &etcd.address;
        let url = format!("etcd://{address}?ca={ca}&cert={cert}&key={key}&prefix=/away");
        let [one, two] = &machines;
        one.answer(&["init", "--name", "lab", "--listen", &one.address, "--etcd", &url]);
        two.join(one, &[]);
        (Self(machines), etcd)
    }

    fn slice(&self, number: usize) -> PathBuf {
        self.0[number].place.path("slice.img")
    }

    /// The flags of a node that has a slice, and no volume of its own.
    fn flags(&self, number: usize) -> Vec<String> {
        let slice = format!("flash=file:{},size=256MiB", self.slice(number).display());
        let direct = format!("{}:4421", self.0[number].address);
        let name = format!("n{number}");
        ["--direct", &direct, "--host", "any", "--cluster", "--node", &name, "--slice", &slice]
            .map(str::to_owned)
            .into()
    }

    fn serve(&self, number: usize, more: &[&str]) -> Node<'_> {
        let flags = self.flags(number);
        let flags: Vec<&str> =
            flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
        Node::start(&self.0[number].place, &flags)
    }

    /// A node with a volume of its own, `own`.
    fn serve_own(&self, number: usize) -> Node<'_> {
        let device = format!("disk=file:{},size=64MiB", self.0[number].place.text("disk.img"));
        self.serve(number, &["--device", &device, "--volume", "own=16MiB@disk"])
    }
}

fn write(node: &Node<'_>, volume: &str, stamp: Stamp) {
    let volume = Door::Tcp.anonymous(node).unwrap().open(volume).unwrap();
    volume.write_at(&stamp.block(4096), stamp.lba * 4096).unwrap();
    volume.flush().unwrap();
}

fn read(node: &Node<'_>, volume: &str, lba: u64) -> Option<Stamp> {
    let mut block = [0; 4096];
    let volume = Door::Tcp.anonymous(node).unwrap().open(volume).unwrap();
    volume.read_at(&mut block, lba * 4096).unwrap();
    Stamp::of(&block)
}

/// The names of the node's volumes.
fn volumes(node: &Node<'_>) -> Vec<String> {
    let listed = node.command(&["volume", "list"]);
    let name = |volume: &serde_json::Value| volume["name"].as_str().unwrap().to_owned();
    let served = |volume: &&serde_json::Value| volume["state"].is_null();
    listed["volumes"].as_array().unwrap().iter().filter(served).map(name).collect()
}

/// The node's judgement on its cluster, and its reason.
fn judged(node: &Node<'_>) -> (String, String) {
    let status = node.command(&["status"]);
    let text = |name: &str| status["cluster"][name].as_str().unwrap().to_owned();
    assert_eq!(text("node"), "n0");
    (text("verdict"), text("reason"))
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_node_serves_its_own_volumes_while_etcd_is_away_and_joins_its_cluster_when_it_is_back() {
    let (bench, mut etcd) = Bench::new();
    let stamp = |lba, sequence| Stamp { lba, sequence };
    {
        let (first, second) = (bench.serve_own(0), bench.serve(1, &[]));
        first.command(&["volume", "create", "data", "--size", "64MiB", "--replicas", "1"]);
        eventually("the volume", || volumes(&second) == ["data"]);
        write(&first, "own", stamp(1, 1));
        (0..32).for_each(|at| write(&first, "data", stamp(at * 16, 1)));
        first.crash();
        second.terminate();
    }
    etcd.kill();
    let before = fs::read(bench.slice(0)).unwrap();
    {
        let first = bench.serve_own(0);
        assert_eq!(volumes(&first), ["own"]);
        assert_eq!(read(&first, "own", 1), Some(stamp(1, 1)));
        let (verdict, reason) = judged(&first);
        assert_eq!(verdict, "unavailable");
        assert!(reason.contains("does not serve the volumes of its cluster yet"), "{reason}");
        assert!(reason.contains("etcd unreachable"), "{reason}");
        write(&first, "own", stamp(2, 1));
        assert!(fs::read(bench.slice(0)).unwrap() == before, "nothing is written to the slice");
        // A node that waits also ends.
        first.terminate();
    }
    let first = bench.serve_own(0);
    etcd.supervise();
    eventually("the volume", || volumes(&first) == ["data", "own"]);
    let second = bench.serve(1, &[]);
    for node in [&first, &second] {
        let found: Vec<_> = (0..32).map(|at| read(node, "data", at * 16)).collect();
        assert!((0..32).all(|at| found[usize::try_from(at).unwrap()] == Some(stamp(at * 16, 1))));
    }
    eventually("the verdict", || judged(&first).0 == "degraded"); // etcd has one member
    write(&second, "data", stamp(3, 2));
    assert_eq!(read(&first, "data", 3), Some(stamp(3, 2)));
    assert_eq!(read(&first, "own", 2), Some(stamp(2, 1)));
    first.command(&["volume", "resize", "data", "128MiB"]);
    bench.0[1].has_verdict("degraded");
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_slice_that_does_not_fit_is_refused_when_etcd_is_back_and_not_written() {
    let (bench, mut etcd) = Bench::new();
    bench.serve_own(0).terminate();
    let older = fs::read(bench.slice(0)).unwrap();
    bench.serve_own(0).terminate();
    fs::write(bench.slice(0), &older).unwrap();
    etcd.kill();
    let first = bench.serve_own(0);
    write(&first, "own", Stamp { lba: 1, sequence: 1 });
    etcd.supervise();
    eventually("the refusal", || judged(&first).1.contains("restored from an older copy"));
    let (verdict, reason) = judged(&first);
    assert_eq!(verdict, "unavailable");
    assert!(reason.contains("'flash'") || reason.contains("--slice flash"), "{reason}");
    assert!(fs::read(bench.slice(0)).unwrap() == older);
    assert_eq!(read(&first, "own", 1), Some(Stamp { lba: 1, sequence: 1 }));
    // It has left the cluster.
    let is_down = || {
        let status = bench.0[1].run(&["status"]).stdout;
        String::from_utf8(status).unwrap().contains("n0 is down")
    };
    eventually("the end of its lease", is_down);
    first.terminate();
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_node_that_has_nothing_of_its_own_or_no_number_yet_names_the_addresses_and_ends() {
    let (bench, etcd) = Bench::new();
    bench.serve(0, &[]).terminate();
    etcd.kill();
    std::thread::scope(|scope| {
        for (number, own) in [(0, &[][..]), (1, &["--device", "ram=ram:64MiB"])] {
            let (bench, etcd, flags) = (&bench, &etcd, bench.flags(number));
            scope.spawn(move || {
                let data_dir = bench.0[number].place.data_dir();
                let doors =
                    ["--nvme-tcp", "127.0.0.1:0", "--data-dir", &data_dir, "--log", "error"];
                // Longer than the node waits.
                let mut command = Command::new("timeout");
                command.arg("60").arg(nearflash()).arg("serve").args(doors).args(flags).args(own);
                let output = command.stdin(Stdio::null()).output().unwrap();
                let message = String::from_utf8(output.stderr).unwrap();
                assert_eq!(
                    (output.status.code(), message.lines().count()),
                    (Some(1), 1),
                    "{message}"
                );
                assert!(message.contains("etcd has not answered for 30 s"), "{message}");
                assert!(message.contains(&etcd.address), "{message}");
            });
        }
    });
}
