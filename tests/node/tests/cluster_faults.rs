//! Clusters whose etcd is full, compacted, restored from an older snapshot or damaged by hand, and nodes
//! that are copied, meet garbage, or have wrong clocks. Each fault is named with its remedy, nothing is
//! lost, and everyone else is served.
//!
//! The other faults of a cluster have tests elsewhere:
//!
//! | fault | test |
//! | --- | --- |
//! | a slice of another cluster | `world/media/src/slice.rs` |
//! | a slice of another node; two nodes of one name; a volume that is too large; more replicas than nodes | `shared.rs`, `core/cluster/src/change/tests.rs` |
//! | a slice that was restored from an older copy | `shared.rs`, `etcd_away.rs` |
//! | etcd away at the start | `etcd_away.rs` |
//! | etcd away later | `shared.rs`, `mirrored.rs`, `external_etcd.rs` |
//! | etcd that lost the cluster; a second process of a node | `core/cluster/src/agent/tests.rs` |
//! | a machine that stands still and continues | `mirrored.rs` |
//! | a token that is damaged, expired or of another cluster | `cluster.rs` |
//! | bytes at the port for pulses: a wrong secret, lengths, half messages | `world/cluster/src/pulse/tests.rs`, target `cluster` of the fuzzers |
//! | requests of nodes with a stale term or session | `core/mirror/src/mirrors/tests.rs`, `protocols/direct/src/serving/tests/faces.rs`, target `direct_target` |
//! | damaged records of any content | `core/cluster/src/state/tests.rs`, `record/tests.rs`, target `cluster` |
#![allow(clippy::unwrap_used)] // a failed test says where

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use nearflash::direct::{Client, Credentials, Options, Status as DirectStatus};
use nearflash_node_tests::{
    Door, Etcd, Kind, Load, LoadSize, Machine, Mirrored, Node, Stamp, copy_folder, eventually,
    refused,
};
use rustix::process::Signal;
use serde_json::Value;

/// Machines of a cluster whose etcd no node supervises, and the machine that has this etcd.
fn lab() -> ([Machine; 2], Machine) {
    let (etcd, machines) = (Machine::new(), [Machine::new(), Machine::new()]);
    etcd.init();
    let file = |name| etcd.etcd(name).display().to_string();
    let (ca, cert, key) = (file("ca.pem"), file("machine.pem"), file("machine.key"));
    let url = format!("etcd://{}?ca={ca}&cert={cert}&key={key}&prefix=/lab", etcd.address);
    let [one, two] = &machines;
    one.answer(&["init", "--name", "lab", "--listen", &one.address, "--etcd", &url]);
    two.join(one, &[]);
    (machines, etcd)
}

/// The node of a machine, with a slice in a file.
fn serve<'a>(machine: &'a Machine, name: &str) -> Node<'a> {
    let slice = format!("flash=file:{},size=512MiB", machine.place.text("slice.img"));
    let direct = format!("{}:4421", machine.address);
    let part = ["--cluster", "--node", name, "--slice", &slice, "--host", "any"];
    let flags = [&["--direct", &direct][..], &part].concat();
    Node::start_by(machine.program(), &machine.place, &[&flags[..], &ANY_PORT].concat())
}

const ANY_PORT: [&str; 2] = ["--nvme-tcp", "127.0.0.1:0"];

fn create(node: &Node<'_>, name: &str, placement: &str) {
    let create = ["volume", "create", name, "--size", "64MiB", "--replicas", "1"];
    node.command(&[&create[..], &["--placement", placement]].concat());
}

/// The names of the volumes that a node serves.
fn volumes(node: &Node<'_>) -> Vec<String> {
    let listed = node.command(&["volume", "list"]);
    let name = |volume: &Value| volume["name"].as_str().unwrap().to_owned();
    let served = |volume: &&Value| volume["state"].is_null();
    listed["volumes"].as_array().unwrap().iter().filter(served).map(name).collect()
}

/// The verdict of the command `cluster status`, with its reason.
fn status(machine: &Machine) -> (String, String) {
    let output = machine.run(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |name: &str| status[name].as_str().unwrap().to_owned();
    (text("verdict"), text("reason"))
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

#[test]
#[ignore = "needs etcd, and takes a quarter of a minute: run by make test-all"]
fn an_etcd_that_is_full_is_named_and_repaired_when_its_keys_leave_room() {
    let mut one = Machine::new();
    one.set("NEARFLASH_ETCD_QUOTA", "16777216");
    one.init();
    let node = serve(&one, "n1");
    create(&node, "data", "spread");
    write(&node, "data", Stamp { lba: 1, sequence: 1 });
    let mut etcd = Etcd::of(&one);
    // History alone: one key, written often.
    let refused = (0..1_000).find_map(|_| etcd.put("/other/one", vec![0xA5; 1 << 19]).err());
    assert!(refused.unwrap().to_string().contains("database space exceeded"));
    let repairs = || one.place.log().matches("it has been compacted from").count();
    eventually("the first repair", || repairs() == 1);
    // Keys that nobody but their owner may delete.
    let mut number = 0;
    eventually("the log", || {
        number += 1;
        // It is refused in the end, and the repairs make room for fewer and fewer.
        let _ = etcd.put(&format!("/other/{number}"), vec![0xA5; 1 << 18]);
        one.place.log().contains("delete keys that are not nearflash's")
    });
    let before = repairs();
    let (verdict, reason) = status(&one);
    assert_eq!(verdict, "at-risk");
    assert!(reason.contains("etcd's database is full ("), "{reason}");
    assert!(reason.contains("delete keys that are not nearflash's with etcdctl"), "{reason}");
    assert_eq!(read(&node, "data", 1), Some(Stamp { lba: 1, sequence: 1 }));
    etcd.delete("/other/");
    eventually("the last repair", || repairs() > before);
    one.has_verdict("degraded"); // etcd has one member
    create(&node, "more", "spread");
    assert_eq!(volumes(&node), ["data", "more"]);
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_node_that_stood_still_follows_again_after_its_revisions_were_compacted() {
    let (machines, mut store) = lab();
    let nodes = [serve(&machines[0], "n1"), serve(&machines[1], "n2")];
    create(&nodes[0], "old", "central:n1");
    eventually("the volume", || volumes(&nodes[1]) == ["old"]);
    let seen = Etcd::of(&store).revision();
    nodes[1].signal(Signal::STOP);
    create(&nodes[0], "new", "central:n1");
    nodes[0].command(&["volume", "remove", "old", "--force", "--yes"]);
    write(&nodes[0], "new", Stamp { lba: 1, sequence: 1 });
    // Its connections to etcd end, with the changes that they had not passed on.
    store.kill();
    start(&mut store);
    let mut etcd = Etcd::of(&store);
    etcd.compact();
    assert!(!etcd.has_revision(seen));
    nodes[1].signal(Signal::CONT);
    eventually("the changes", || volumes(&nodes[1]) == ["new"]);
    assert_eq!(read(&nodes[1], "new", 1), Some(Stamp { lba: 1, sequence: 1 }));
    create(&nodes[1], "newer", "central:n2");
    eventually("the volume", || volumes(&nodes[0]) == ["new", "newer"]);
}

fn stop(store: &mut Machine) {
    store.supervise_no_more();
    store.kill();
}

/// Starts an etcd with these data.
fn restore(store: &mut Machine, from: &Path) {
    fs::remove_dir_all(store.etcd("data")).unwrap();
    copy_folder(from, &store.etcd("data")).unwrap();
    start(store);
}

fn start(store: &mut Machine) {
    store.supervise();
    store.has_verdict("degraded"); // etcd has one member
}

/// A node's own judgement on its cluster.
fn reason(node: &Node<'_>) -> String {
    node.command(&["status"])["cluster"]["reason"].as_str().unwrap().to_owned()
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn an_etcd_that_was_restored_from_an_older_snapshot_is_not_believed_until_it_is_the_newest_again() {
    let (machines, mut store) = lab();
    let first = serve(&machines[0], "n1");
    create(&first, "old", "spread");
    let [older, newest] = ["older", "newest"].map(|name| store.place.path(name));
    store.kill();
    copy_folder(&store.etcd("data"), &older).unwrap();
    start(&mut store);
    first.terminate();
    let first = serve(&machines[0], "n1");
    create(&first, "new", "spread");
    write(&first, "new", Stamp { lba: 1, sequence: 1 });
    stop(&mut store);
    copy_folder(&store.etcd("data"), &newest).unwrap();
    restore(&mut store, &older);
    assert_eq!(volumes(&first), ["new", "old"]);
    assert_eq!(read(&first, "new", 1), Some(Stamp { lba: 1, sequence: 1 }));
    write(&first, "new", Stamp { lba: 2, sequence: 1 });
    let data_dir = machines[0].place.data_dir();
    let more = ["volume", "create", "more", "--size", "64MiB", "--replicas", "1"];
    let message = refused(&[&more[..], &["--data-dir", &data_dir]].concat()).message;
    assert!(message.contains("older snapshot"), "{message}");
    assert!(reason(&first).contains("restored from an older snapshot"), "{}", reason(&first));
    // A node that starts compares its slices, and refuses to write to them.
    first.terminate();
    let before = fs::read(machines[0].place.path("slice.img")).unwrap();
    let message = refused_start(&machines[0], "n1");
    assert!(message.contains("etcd has been restored from an older snapshot"), "{message}");
    assert!(fs::read(machines[0].place.path("slice.img")).unwrap() == before);
    stop(&mut store);
    restore(&mut store, &newest);
    let first = serve(&machines[0], "n1");
    assert_eq!(volumes(&first), ["new", "old"]);
    assert_eq!(read(&first, "new", 2), Some(Stamp { lba: 2, sequence: 1 }));
    create(&first, "more", "spread");
}

/// The message of a start that is refused.
fn refused_start(machine: &Machine, name: &str) -> String {
    let slice = format!("flash=file:{}", machine.place.text("slice.img"));
    let data_dir = machine.place.data_dir();
    let flags = ["serve", "--data-dir", &data_dir, "--log", "error", "--cluster", "--node", name];
    let doors = ["--direct", "127.0.0.1:0", "--host", "any", "--slice", &slice];
    refused(&[&flags[..], &ANY_PORT, &doors].concat()).message
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_restored_etcd_is_not_believed_when_its_revision_has_grown_until_an_operator_accepts_it() {
    let (machines, mut store) = lab();
    let first = serve(&machines[0], "n1");
    create(&first, "old", "central:n1");
    let older = store.place.path("older");
    store.kill();
    copy_folder(&store.etcd("data"), &older).unwrap();
    start(&mut store);
    let second = serve(&machines[1], "n2");
    first.terminate();
    let first = serve(&machines[0], "n1");
    create(&first, "data", "central:n1");
    let stamp = Stamp { lba: 1, sequence: 1 };
    write(&first, "data", stamp);
    let nodes = [&first, &second];
    // The nodes note a further change, and so this one, too.
    let mut etcd = Etcd::of(&store);
    let created = etcd.revision();
    create(&first, "more", "central:n1");
    let output = machines[0].run(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    let prefix = format!("/lab/nearflash/{}/seen/", status["cluster"].as_str().unwrap());
    let seen = |(_, value): &(String, Vec<u8>)| {
        let record: Value = serde_json::from_slice(value).unwrap();
        record["revision"].as_i64().unwrap()
    };
    eventually("the notes of both nodes", || {
        etcd.list(&prefix).iter().filter(|it| seen(it) > created).count() == 2
    });
    let newest = etcd.revision();
    stop(&mut store);
    restore(&mut store, &older);
    // Other programs use this etcd, too.
    let mut etcd = Etcd::of(&store);
    (0..300).for_each(|number| etcd.put(&format!("/other/{number}"), "x").unwrap());
    assert!(etcd.revision() > newest);
    let is_noticed = |it: &&Node<'_>| reason(it).contains("restored from an older snapshot");
    eventually("the verdict", || nodes.iter().all(is_noticed));
    let data_dir = machines[0].place.data_dir();
    let other = ["volume", "create", "other", "--size", "64MiB", "--replicas", "1"];
    let message = refused(&[&other[..], &["--data-dir", &data_dir]].concat()).message;
    assert!(message.contains("accept-restored"), "{message}");
    // Further changes, as of other programs, change nothing.
    (0..300).for_each(|number| etcd.put(&format!("/other/{number}"), "y").unwrap());
    for node in nodes {
        assert!(is_noticed(&node));
        assert_eq!(volumes(node), ["data", "more", "old"]);
        assert_eq!(read(node, "data", 1), Some(stamp));
    }
    let (message, code) = machines[0].refusal(&["accept-restored", "--force", "--yes"]);
    assert_eq!(code, 1, "{message}");
    first.terminate();
    second.terminate();
    for (machine, name) in machines.iter().zip(["n1", "n2"]) {
        let message = refused_start(machine, name);
        assert!(message.contains("etcd has been restored from an older snapshot"), "{message}");
    }
    let found = machines[0].run(&["accept-restored"]);
    let said = String::from_utf8(found.stdout).unwrap();
    assert_eq!(found.status.code(), Some(1), "{said}");
    let lost = said.lines().find(|it| it.starts_with("volumes lost, with all data: "));
    assert!(lost.is_some_and(|it| it.contains("data (64MiB)")), "{said}");
    let done = machines[0].answer(&["accept-restored", "--force", "--yes"]);
    assert_eq!(done["is_accepted"], true);
    let first = serve(&machines[0], "n1");
    let second = serve(&machines[1], "n2");
    assert_eq!(volumes(&first), ["old"]);
    create(&first, "other", "central:n1");
    eventually("the volume", || volumes(&second) == ["old", "other"]);
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn an_etcd_that_shows_an_older_state_for_a_while_delays_a_takeover_and_no_more() {
    let (machines, mut store) = lab();
    let first = serve(&machines[0], "n1");
    let second = serve(&machines[1], "n2");
    let data = ["volume", "create", "data", "--size", "64MiB", "--replicas", "2", "--width", "1"];
    first.command(&[&data[..], &["--placement", "local:n1"]].concat());
    let [older, newest] = ["older", "newest"].map(|name| store.place.path(name));
    store.kill();
    copy_folder(&store.etcd("data"), &older).unwrap();
    start(&mut store);
    // The mirror gets a later term.
    second.terminate();
    let term = |node: &Node<'_>| {
        node.command(&["volume", "show", "data"])["layout"]["mirrors"][0]["term"].as_u64().unwrap()
    };
    eventually("the next term", || term(&first) > 1);
    let second = serve(&machines[1], "n2");
    eventually("the copy", || {
        let shown = second.command(&["volume", "show", "data"]);
        let replicas = shown["layout"]["mirrors"][0]["replicas"].as_array().unwrap().clone();
        term(&second) > 2 && replicas.iter().all(|it| it["is_in_sync"] == true)
    });
    write(&first, "data", Stamp { lba: 1, sequence: 1 });
    stop(&mut store);
    copy_folder(&store.etcd("data"), &newest).unwrap();
    restore(&mut store, &older);
    first.crash();
    eventually("the verdict", || reason(&second).contains("restored from an older snapshot"));
    stop(&mut store);
    restore(&mut store, &newest);
    let is_served = || {
        let Ok(client) = Door::Tcp.anonymous(&second) else { return false };
        let Ok(volume) = client.open("data") else { return false };
        let mut block = [0; 4096];
        volume.read_at(&mut block, 4096).is_ok()
            && Stamp::of(&block) == Some(Stamp { lba: 1, sequence: 1 })
    };
    eventually("the takeover", is_served);
    write(&second, "data", Stamp { lba: 2, sequence: 1 });
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_record_that_was_damaged_by_hand_is_named_and_its_volume_is_served() {
    let (machines, store) = lab();
    let node = serve(&machines[0], "n1");
    create(&node, "data", "spread");
    create(&node, "other", "spread");
    write(&node, "data", Stamp { lba: 1, sequence: 1 });
    let mut etcd = Etcd::of(&store);
    let records = etcd.list("/lab/nearflash/");
    let data_dir = machines[0].place.data_dir();
    let resize = |volume: &str| {
        ["volume", "resize", volume, "128MiB", "--data-dir", &data_dir].map(str::to_owned)
    };
    // The record of the volume, and that of its mirror.
    let is_of_volume = |(key, value): &&(String, Vec<u8>)| {
        key.contains("/volume/") && String::from_utf8_lossy(value).contains(r#""name":"data""#)
    };
    let volume = records.iter().filter(|it| !it.0.contains("/name/")).find(is_of_volume).unwrap();
    let uuid = volume.0.rsplit('/').next().unwrap();
    let mirror = records.iter().find(|it| it.0.contains(&format!("/mirror/{uuid}/"))).unwrap();
    for (key, value) in [volume, mirror] {
        for garbage in [&b""[..], b"\xff\x00", b"{\"schema\":1}", &value[..value.len() - 3]] {
            etcd.put(key, garbage).unwrap();
        }
        let name = key.rsplit_once(uuid).unwrap().0.rsplit('/').nth(1).unwrap();
        let named = format!("{name}/{uuid}");
        eventually("the name of the record", || status(&machines[0]).1.contains(&named));
        assert_ne!(status(&machines[0]).0, "ok");
        assert_eq!(volumes(&node), ["data", "other"]);
        assert_eq!(read(&node, "data", 1), Some(Stamp { lba: 1, sequence: 1 }));
        eventually("the node knows", || reason(&node).contains(&named));
        let arguments = resize("data");
        let message = refused(&arguments.each_ref().map(String::as_str)).message;
        assert!(message.contains(&named), "{message}");
        etcd.put(key, value.clone()).unwrap();
        machines[0].has_verdict("degraded");
    }
    for volume in ["data", "other"] {
        node.command(&["volume", "resize", volume, "128MiB"]);
    }
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_copy_of_a_node_is_refused_while_the_node_runs() {
    let (machines, _store) = lab();
    let first = serve(&machines[0], "n1");
    create(&first, "data", "spread");
    let copied = Machine::new();
    copy_folder(&machines[0].place.path("data"), &copied.place.path("data")).unwrap();
    fs::copy(machines[0].place.path("slice.img"), copied.place.path("slice.img")).unwrap();
    fs::remove_file(copied.place.path("data").join("lock")).unwrap();
    let before = fs::read(copied.place.path("slice.img")).unwrap();
    let (data_dir, slice) = (copied.place.data_dir(), copied.place.text("slice.img"));
    let (slice, pulse) = (format!("flash=file:{slice}"), format!("{}:4422", copied.address));
    let flags = ["serve", "--data-dir", &data_dir, "--log", "error", "--cluster", "--node", "n1"];
    let doors = ["--direct", "127.0.0.1:0", "--host", "any", "--slice", &slice, "--pulse", &pulse];
    let message = refused(&[&flags[..], &ANY_PORT, &doors].concat()).message;
    assert!(message.contains("another process runs as node 'n1'"), "{message}");
    assert!(message.contains("'nearflash cluster join' anew"), "{message}");
    assert!(fs::read(copied.place.path("slice.img")).unwrap() == before);
    write(&first, "data", Stamp { lba: 1, sequence: 1 });
    assert_eq!(read(&first, "data", 1), Some(Stamp { lba: 1, sequence: 1 }));
    assert!(!reason(&first).contains("another process"));
    // A node that was killed returns with another address when its lease is over.
    first.crash();
    let pulse = format!("{}:4423", machines[0].address);
    let slice = format!("flash=file:{}", machines[0].place.text("slice.img"));
    let part = ["--cluster", "--node", "n1", "--slice", &slice, "--pulse", &pulse, "--host", "any"];
    let flags = [&["--direct", "127.0.0.1:0"][..], &part].concat();
    let first = Node::start(&machines[0].place, &flags);
    assert_eq!(read(&first, "data", 1), Some(Stamp { lba: 1, sequence: 1 }));
}

const SIZE: LoadSize = LoadSize { writers: 1, readers: 1, pause: Duration::from_micros(500) };

/// Waits until every thread of the load has done some more.
fn goes_on(load: &Load, nodes: usize) {
    for (node, kind) in (0..nodes).flat_map(|node| [(node, Kind::Writer), (node, Kind::Reader)]) {
        let before = load.done_by_each(node, kind);
        eventually("the load goes on", || load.done_by_each(node, kind) >= before + 40);
    }
    assert_eq!(load.violations().count(), 0, "{}", load.violations());
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn strangers_at_the_ports_between_nodes_neither_stop_a_mirror_nor_fill_the_log() {
    let machines: Vec<Machine> = (0..3).map(|_| Machine::new()).collect();
    Mirrored::unite(&machines);
    let nodes = Mirrored::start(&machines);
    nodes.create(&["--size", "64MiB", "--width", "1"]);
    let load = Load::start(&nodes.addresses(), "data", SIZE);
    goes_on(&load, 2);
    let before = nodes.mirror(0);
    let hello = |version: u32| [&b"nf-pulse"[..], &version.to_le_bytes(), &[7; 108]].concat();
    let messages: [&[u8]; 7] = [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xFF; 4096],
        &hello(1),
        &hello(9),
        &hello(1)[..50],
        &[&u32::MAX.to_le_bytes()[..], &[0; 500]].concat(),
    ];
    let mut strangers = Vec::new();
    for machine in &machines {
        for port in [4421, 4422] {
            let address = format!("{}:{port}", machine.address);
            for bytes in messages.iter().cycle().take(100) {
                let mut stream = TcpStream::connect(&address).unwrap();
                // The node may have closed the connection already.
                let _ = stream.write_all(bytes);
                strangers.push(stream);
            }
            goes_on(&load, 2);
        }
        // A node of another cluster has another secret.
        let url = format!("direct://{}:4421", machine.address).parse().unwrap();
        let credentials = Credentials::new("@cluster", &"5a".repeat(32)).unwrap();
        let refused = Client::connect_to(url, credentials, Options::default()).unwrap_err();
        assert_eq!(refused.status(), Some(DirectStatus::AUTHENTICATION_FAILED));
    }
    goes_on(&load, 2);
    assert_eq!((nodes.mirror(0), nodes.mirror(1)), (before.clone(), before), "nobody took over");
    for machine in &machines {
        let log = machine.place.log();
        let mut lines = BTreeMap::<&str, u32>::new();
        for (_, reason) in log.lines().filter_map(|line| line.split_once("no pulse:")) {
            *lines.entry(reason.rsplit_once("reason=").unwrap().1).or_default() += 1;
        }
        assert!(!lines.is_empty(), "{log}");
        assert!(lines.values().all(|count| *count <= 16), "16 of a reason in a minute: {lines:?}");
    }
    drop(strangers);
    // A pulse that begins anew finds its way.
    let mut nodes = nodes;
    nodes.crash(1);
    nodes.serve(1);
    nodes.heals(0);
    goes_on(&load, 2);
    let violations = load.end(&nodes.addresses()).unwrap();
    assert_eq!(violations.count(), 0, "{violations}");
    nodes.assert_replicas_agree(0);
}

#[test]
#[ignore = "needs etcd and a C compiler: run by make test"]
fn a_clock_that_jumps_by_years_changes_nothing() {
    let mut machines: Vec<Machine> = (0..3).map(|_| Machine::new()).collect();
    let library = machines[0].place.text("skew.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clock/skew.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o", &library, source]);
    assert!(compiler.status().unwrap().success());
    Mirrored::unite(&machines);
    for machine in &mut machines {
        let skew = machine.place.text("skew");
        machine.set("LD_PRELOAD", &library);
        machine.set("SKEW", &skew);
    }
    let set = |machine: &Machine, seconds: i64| {
        // Atomically, since the node may read it at any time.
        let part = machine.place.path("skew.part");
        fs::write(&part, seconds.to_string()).unwrap();
        fs::rename(part, machine.place.path("skew")).unwrap();
    };
    let mut nodes = Mirrored::start(&machines);
    nodes.create(&["--size", "64MiB", "--width", "1"]);
    let load = Load::start(&nodes.addresses(), "data", SIZE);
    goes_on(&load, 2);
    let before = nodes.mirror(0);
    let year = 366 * 86_400;
    for years in [(10, -20), (-20, 10), (0, 0), (10, 10)] {
        set(&machines[0], years.0 * year);
        set(&machines[1], years.1 * year);
        goes_on(&load, 2);
    }
    let year_of = |line: &str| line.get(..4).and_then(|year| year.parse::<u32>().ok());
    assert_eq!((nodes.mirror(0), nodes.mirror(1)), (before.clone(), before), "nobody took over");
    // A machine whose clock has lost its time begins in 1970, and etcd is reached with TLS.
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    nodes.crash(0);
    set(&machines[0], 86_400 - i64::try_from(now).unwrap());
    nodes.serve(0);
    nodes.heals(1);
    assert_eq!(machines[0].place.log().lines().next_back().and_then(year_of), Some(1970));
    goes_on(&load, 2);
    let violations = load.end(&nodes.addresses()).unwrap();
    assert_eq!(violations.count(), 0, "{violations}");
    nodes.assert_replicas_agree(0);
}
