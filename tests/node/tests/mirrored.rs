//! Volumes of a cluster with two replicas, in real processes: nodes and etcds are killed, stopped and
//! restarted under a load that verifies every read.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::net::SocketAddr;
use std::os::unix::fs::FileExt as _;
use std::sync::Barrier;
use std::time::Duration;

use nearflash::nvme_tcp::Status;
use nearflash::{Client, Credentials, Options};
use nearflash_iscsi::initiator::Status as ScsiStatus;
use nearflash_node_tests::{
    Door, Host, Initiator, Kind, Load, LoadSize, Machine, Mirrored, Stamp, Who, eventually,
};
use rustix::process::Signal;

const MIB: u64 = 1 << 20;
const SIZE: LoadSize = LoadSize { writers: 1, readers: 1, pause: Duration::from_micros(500) };

fn machines(count: usize) -> Vec<Machine> {
    let machines: Vec<Machine> = (0..count).map(|_| Machine::new()).collect();
    Mirrored::unite(&machines);
    machines
}

/// A load at every node, which has begun.
fn load(nodes: &Mirrored<'_>) -> Load {
    let load = Load::start(&nodes.addresses(), "data", SIZE);
    (0..nodes.addresses().len()).for_each(|node| goes_on(&load, node));
    load
}

/// Waits until every thread at a node has done some more.
fn goes_on(load: &Load, node: usize) {
    for kind in [Kind::Writer, Kind::Reader] {
        let before = load.done_by_each(node, kind);
        eventually("the load goes on", || load.done_by_each(node, kind) >= before + 40);
    }
    assert_eq!(load.violations().count(), 0, "{}", load.violations());
}

/// Ends the load: nothing is lost, and both replicas are the same.
fn assert_sound(load: Load, nodes: &Mirrored<'_>) {
    nodes.heals(0);
    let violations = load.end(&nodes.addresses()).unwrap();
    assert_eq!(violations.count(), 0, "{violations}");
    nodes.assert_replicas_agree(0);
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_volume_with_two_replicas_is_the_same_on_every_node_over_every_protocol_and_shows_its_place() {
    let machines = machines(3);
    let nodes = Mirrored::start(&machines);
    nodes.create(&["--size", "96MiB", "--width", "3"]);
    let mirrors = nodes.mirrors(0);
    assert_eq!(mirrors.len(), 3);
    for mirror in &mirrors {
        assert_eq!((mirror.term, mirror.replicas.len(), mirror.is_whole()), (1, 2, true));
        assert_ne!(mirror.primary(), mirror.secondary(), "on two nodes");
    }
    let who = Who::named("writer");
    // Far enough apart to lie on different mirrors.
    for written in 0..3 {
        let stamp = |at: u64| Stamp { lba: at * 16, sequence: 1 + u64::try_from(written).unwrap() };
        let node = nodes.node(written);
        assert_eq!(Host::connect(node, "data").write_stamp(stamp(1)), Status::SUCCESS);
        let mut initiator = Initiator::login(node, "data", &who).unwrap();
        assert_eq!(initiator.write(stamp(2).lba, &stamp(2).block(4096)), ScsiStatus::GOOD);
        for (door, at) in Door::ALL.into_iter().zip(3..) {
            let volume = door.anonymous(node).unwrap().open("data").unwrap();
            volume.write_at(&stamp(at).block(4096), stamp(at).lba * 4096).unwrap();
            volume.flush().unwrap();
        }
        for node in (0..3).map(|read| nodes.node(read)) {
            let mut host = Host::connect(node, "data");
            let mut initiator = Initiator::login(node, "data", &who).unwrap();
            let volume = Door::Tcp.anonymous(node).unwrap().open("data").unwrap();
            for at in 1..=4 {
                let mut block = [0xA5; 4096];
                volume.read_at(&mut block, stamp(at).lba * 4096).unwrap();
                assert_eq!(Stamp::of(&block), Some(stamp(at)));
                assert_eq!(host.read_stamp(stamp(at).lba), Some(stamp(at)));
                assert_eq!(Stamp::of(&initiator.read(stamp(at).lba)), Some(stamp(at)));
            }
        }
    }
    nodes.heals(1);
    nodes.assert_replicas_agree(2);
}

/// A request of a host counts at the volume that it names, and nowhere else; the copies have metrics of their own.
#[test]
#[ignore = "needs etcd: run by make test"]
fn a_mirrored_volume_counts_once_in_metrics_and_the_space_of_the_cluster_is_shown_for_each_node() {
    let machines = machines(3);
    let mut nodes = Mirrored::start(&machines);
    nodes.create(&["--size", "96MiB", "--width", "1"]);
    let mirror = nodes.mirror(0);
    let (primary, secondary) = (mirror.primary(), mirror.secondary());
    let third = (0..3).find(|it| ![primary, secondary].contains(it)).unwrap();
    let mut host = Host::connect(nodes.node(third), "data");
    assert_eq!(host.write_stamp(Stamp { lba: 1, sequence: 1 }), Status::SUCCESS);
    let metrics =
        |node: usize| nodes.node(node).command(&["metrics"])["text"].as_str().unwrap().to_owned();
    let writes = |node: usize, family: &str, labels: &str| {
        let text = metrics(node);
        let is_meant = |line: &&str| {
            line.starts_with(&format!("nearflash_{family}_operations_total{{"))
                && line.contains(labels)
                && line.contains("op=\"write\"")
        };
        let value = |line: &str| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
        text.lines().filter(is_meant).map(value).sum::<f64>()
    };
    let volume = "volume=\"data\"";
    assert_eq!([0, 1, 2].map(|node| writes(node, "volume", "")).iter().sum::<f64>(), 1.0);
    assert_eq!(writes(third, "volume", volume), 1.0);
    eventually("the primary counts", || writes(primary, "slice", "role=\"primary\"") >= 1.0);
    eventually("the replica counts", || writes(secondary, "slice", "role=\"replica\"") >= 1.0);
    for node in 0..3 {
        let text = metrics(node);
        let sizes = text.lines().filter(|it| it.starts_with("nearflash_volume_size_bytes{"));
        assert_eq!(sizes.count(), 1, "{text}");
        let free = |family: &str| text.lines().filter(|it| it.starts_with(family)).count();
        assert_eq!(free("nearflash_cluster_free_bytes{"), 3, "{text}");
        let status = nodes.node(node).command(&["status"]);
        let devices = status["devices"].as_array().unwrap();
        let slice = devices.iter().find(|it| it["kind"] == "file").unwrap();
        assert!(slice["free_bytes"].as_u64().unwrap() > 300 * MIB, "{slice}");
        assert_eq!(status["volume_io"].as_array().unwrap().len(), 1, "{status}");
        let of_cluster = &status["cluster"]["nodes"][node];
        assert_eq!(of_cluster["name"], format!("n{node}"), "{status}");
        assert_eq!(of_cluster["free_bytes"], slice["free_bytes"], "{status}");
        let used = if node == third { 0 } else { 96 * MIB };
        let taken =
            of_cluster["data_bytes"].as_u64().unwrap() - slice["free_bytes"].as_u64().unwrap();
        assert_eq!(taken, used, "{status}");
    }
    drop(host);
    let shown = machines[0].run(&["status"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    for row in ["n0    runs", "n1    runs", "n2    runs", "n0       127."] {
        assert!(shown.contains(row), "no '{row}' in\n{shown}");
    }
    nodes.crash(third);
    let is_down = || {
        let output = machines[primary].run(&["status"]);
        String::from_utf8(output.stdout).unwrap().contains(&format!("n{third}    is down"))
    };
    eventually("the node is shown as down", is_down);
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_primary_and_a_secondary_that_are_killed_under_load_lose_nothing_and_return() {
    let machines = machines(3);
    let mut nodes = Mirrored::start(&machines);
    nodes.create(&["--size", "64MiB", "--width", "1"]);
    let load = load(&nodes);
    for kills_primary in [true, false, true] {
        let before = nodes.mirror(0);
        let killed = if kills_primary { before.primary() } else { before.secondary() };
        let asked = nodes.other(killed);
        nodes.crash(killed);
        (0..3).filter(|it| *it != killed).for_each(|it| goes_on(&load, it));
        let after = nodes.mirror(asked);
        assert!(after.term > before.term && !after.is_whole(), "{after:?}");
        assert_ne!(after.primary(), killed);
        (0..5).for_each(|_| assert_eq!(nodes.verdict(asked), "degraded"));
        nodes.serve(killed);
        nodes.heals(asked);
        assert_eq!(nodes.mirror(asked).secondary(), killed);
        (0..3).for_each(|it| goes_on(&load, it));
        // The next one is killed when etcd knows of this run of the node: the lease of the earlier run ends only
        // after some seconds, and the node counts as down for a moment.
        eventually("the verdict", || nodes.verdict(killed) == "ok");
    }
    assert_sound(load, &nodes);
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_primary_that_stops_for_longer_than_its_lease_returns_as_secondary_and_answers_nothing_stale() {
    let machines = machines(3);
    let nodes = Mirrored::start(&machines);
    nodes.create(&["--size", "64MiB", "--width", "1"]);
    let load = load(&nodes);
    for _ in 0..2 {
        let before = nodes.mirror(0);
        let stopped = before.primary();
        let asked = nodes.other(stopped);
        nodes.signal(stopped, Signal::STOP);
        eventually("another primary", || nodes.mirror(asked).primary() != stopped);
        (0..3).filter(|it| *it != stopped).for_each(|it| goes_on(&load, it));
        assert_eq!(nodes.verdict(asked), "degraded");
        nodes.signal(stopped, Signal::CONT);
        nodes.heals(asked);
        assert_eq!(nodes.mirror(asked).secondary(), stopped);
        (0..3).for_each(|it| goes_on(&load, it));
    }
    assert_sound(load, &nodes);
}

#[test]
#[ignore = "needs etcd, and python3 as root: run by make test"]
fn a_node_with_a_core_that_hangs_is_replaced_as_primary_and_dropped_as_secondary() {
    let machines = machines(3);
    let nodes = Mirrored::start(&machines);
    nodes.create(&["--size", "64MiB", "--width", "1"]);
    let load = load(&nodes);
    for is_primary in [true, false] {
        let before = nodes.mirror(0);
        let hung = if is_primary { before.primary() } else { before.secondary() };
        let asked = nodes.other(hung);
        let held = nodes.node(hung).hold("core-0");
        eventually("a membership without the node", || {
            let mirror = nodes.mirror(asked);
            mirror.term > before.term && !mirror.is_whole() && mirror.primary() != hung
        });
        (0..3).filter(|it| *it != hung).for_each(|it| goes_on(&load, it));
        let status = nodes.node(hung).command(&["status"]);
        let core = &status["cluster"]["hung_cores"][0];
        assert!(core["seconds"].as_u64().is_some_and(|seconds| seconds >= 3), "{status}");
        eventually("the log names the core", || {
            machines[hung].place.log().contains("has not turned for 3 s")
        });
        drop(held);
        nodes.heals(asked);
        (0..3).for_each(|it| goes_on(&load, it));
    }
    assert_sound(load, &nodes);
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn after_both_replicas_were_killed_the_newest_one_serves_and_the_other_one_alone_does_not() {
    let machines = machines(3);
    let mut nodes = Mirrored::start(&machines);
    nodes.create(&["--size", "64MiB", "--width", "1"]);
    let first = nodes.mirror(0);
    let (primary, secondary) = (first.primary(), first.secondary());
    let third = 3 - primary - secondary;
    let load = load(&nodes);
    // Both at once: both are in sync, and neither may serve before it has heard the other one.
    nodes.crash(primary);
    nodes.crash(secondary);
    nodes.serve(secondary);
    nodes.serve(primary);
    nodes.heals(third);
    (0..3).for_each(|it| goes_on(&load, it));
    // One after the other: the last one is the newest.
    let now = nodes.mirror(third);
    let (oldest, newest) = (now.primary(), now.secondary());
    nodes.crash(oldest);
    goes_on(&load, third);
    nodes.crash(newest);
    nodes.serve(oldest);
    let reason = || {
        let status = nodes.machine(third).run(&["status", "--json"]).stdout;
        let status: serde_json::Value = serde_json::from_slice(&status).unwrap();
        status["reason"].as_str().unwrap().to_owned()
    };
    let named = format!("the newest copy is on n{newest}, which is down");
    eventually("the node with the newest copy is named", || reason().contains(&named));
    let volume = Door::Tcp.anonymous(nodes.node(third)).unwrap().open("data").unwrap();
    let mut block = [0; 4096];
    let read = volume.with_timeout(Duration::from_secs(1)).read_at(&mut block, 0);
    assert!(read.is_err(), "the older copy does not answer");
    nodes.serve(newest);
    nodes.heals(third);
    (0..3).for_each(|it| goes_on(&load, it));
    // The newest one alone serves.
    let now = nodes.mirror(third);
    let (oldest, newest) = (now.primary(), now.secondary());
    nodes.crash(oldest);
    goes_on(&load, third);
    nodes.crash(newest);
    nodes.serve(newest);
    goes_on(&load, third);
    goes_on(&load, newest);
    assert_eq!(nodes.verdict(third), "degraded");
    nodes.serve(oldest);
    assert_sound(load, &nodes);
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn without_etcd_io_goes_on_and_a_mirror_that_loses_a_node_waits_until_etcd_is_back() {
    let machines = machines(3);
    let mut nodes = Mirrored::start(&machines);
    nodes.create(&["--size", "64MiB", "--width", "1"]);
    let load = load(&nodes);
    let etcds: Vec<_> = machines.iter().map(|machine| machine.pid().unwrap()).collect();
    let all = |signal| {
        etcds.iter().for_each(|pid| rustix::process::kill_process(*pid, signal).unwrap());
    };
    let mirror = nodes.mirror(0);
    let (primary, secondary) = (mirror.primary(), mirror.secondary());
    let third = 3 - primary - secondary;
    all(Signal::STOP);
    (0..3).for_each(|it| goes_on(&load, it));
    nodes.crash(secondary);
    // Nobody may be dropped, so no write can be acknowledged any more.
    let done = || load.done(third, Kind::Writer) + load.done(primary, Kind::Writer);
    // A hundred looks in a row at which nothing more was acknowledged.
    let (mut last, mut same) = (done(), 0);
    eventually("the writes stall", || {
        let now = done();
        same = if now == last { same + 1 } else { 0 };
        last = now;
        same > 100
    });
    assert_eq!(load.violations().count(), 0, "{}", load.violations());
    all(Signal::CONT);
    goes_on(&load, third);
    goes_on(&load, primary);
    nodes.serve(secondary);
    assert_sound(load, &nodes);
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_node_that_ends_in_order_hands_its_mirrors_over_and_fails_nothing_at_other_nodes() {
    let machines = machines(3);
    let mut nodes = Mirrored::start(&machines);
    nodes.create(&["--size", "96MiB", "--width", "3"]);
    let load = load(&nodes);
    for ended in 0..3 {
        let asked = nodes.other(ended);
        let others = [(ended + 1) % 3, (ended + 2) % 3];
        let failed = |kind| others.map(|node| load.failed(node, kind));
        let before = [Kind::Reader, Kind::Writer].map(failed);
        nodes.terminate(ended);
        others.into_iter().for_each(|it| goes_on(&load, it));
        let [readers, writers] = [Kind::Reader, Kind::Writer].map(failed);
        let errors = others.map(|it| load.errors(it));
        assert_eq!(readers, before[0], "{errors:?}");
        assert_eq!(writers, before[1], "{errors:?}");
        assert!(nodes.mirrors(asked).iter().all(|it| it.primary() != ended));
        nodes.serve(ended);
        nodes.heals(asked);
        goes_on(&load, ended);
    }
    assert_sound(load, &nodes);
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_mirrored_volume_grows_and_is_removed_and_what_does_not_fit_is_refused() {
    let machines = machines(2);
    let mut nodes = Mirrored::start(&machines);
    let refused = |nodes: &Mirrored<'_>, flags: &[&str]| {
        let (is_done, message) =
            nodes.attempt(0, &[&["volume", "create", "data", "--size", "64MiB"], flags].concat());
        assert!(!is_done, "{flags:?}");
        message
    };
    let three = refused(&nodes, &["--replicas", "3"]);
    assert!(three.contains("3 replicas are not supported yet: use 1 or 2"), "{three}");
    let twice = refused(&nodes, &["--replicas", "2", "--placement", "central:n0"]);
    assert!(twice.contains("central"), "{twice}");
    let large = refused(&nodes, &["--replicas", "2", "--size", "1TiB"]);
    assert!(large.contains("cannot be used multiple times") || large.contains("free"), "{large}");
    for round in 0..2 {
        nodes.create(&["--size", "64MiB"]);
        let volume = Door::Tcp.anonymous(nodes.node(0)).unwrap().open("data").unwrap();
        let mut bytes = vec![0xA5; 1 << 20];
        volume.read_at(&mut bytes, 63 * MIB).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0), "round {round}");
        bytes.fill(0xEE);
        volume.write_at(&bytes, 63 * MIB).unwrap();
        let grown = nodes.node(1).command(&["volume", "resize", "data", "128MiB"]);
        assert_eq!(grown["volume"]["bytes"], 128 * MIB);
        eventually("the new length", || {
            let volume = Door::Tcp.anonymous(nodes.node(1)).unwrap().open("data").unwrap();
            volume.len() == 128 * MIB
        });
        let volume = Door::Tcp.anonymous(nodes.node(1)).unwrap().open("data").unwrap();
        volume.write_at(&bytes, 127 * MIB).unwrap();
        // The other replica has it, too.
        nodes.crash(0);
        let mut found = vec![0; 1 << 20];
        for at in [63, 127] {
            volume.read_at(&mut found, at * MIB).unwrap();
            assert!(found == bytes, "round {round}");
        }
        nodes.serve(0);
        eventually("both replicas", || nodes.is_whole(1));
        nodes.assert_replicas_agree(1);
        drop(volume);
        nodes.node(round).command(&["volume", "remove", "data", "--force", "--yes"]);
        for node in [nodes.node(0), nodes.node(1)] {
            let is_gone = || {
                let listed = node.command(&["volume", "list"]);
                listed["volumes"].as_array().unwrap().is_empty()
            };
            eventually("the end of the volume", is_gone);
        }
    }
    // With one node there is no place for a second replica.
    nodes.crash(1);
}

/// Writes 64 KiB again and again, until the volume is gone. Returns how often that succeeded.
fn write_until_gone(address: SocketAddr, place: u64, begun: &Barrier) -> u64 {
    let url = format!("direct://{address}");
    let client = Client::connect_with(&url, Credentials::NONE, Options::default()).unwrap();
    let volume = client.open("data").unwrap();
    let bytes = vec![0x5A; 64 << 10];
    volume.write_at(&bytes, place).unwrap();
    begun.wait();
    (0..).take_while(|_| volume.write_at(&bytes, place).is_ok()).last().unwrap_or_default()
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_mirrored_volume_that_is_removed_under_load_holds_up_nothing() {
    let machines = machines(2);
    let nodes = Mirrored::start(&machines);
    nodes.node(0).command(&["volume", "create", "other", "--replicas", "2", "--size", "64MiB"]);
    for round in 0..3 {
        nodes.create(&["--size", "64MiB", "--width", "1"]);
        let addresses = nodes.addresses();
        let begun = Barrier::new(9);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..8_u64)
                .map(|writer| {
                    let address = addresses[usize::from(writer % 2 == 1)];
                    let (place, begun) = (writer * MIB, &begun);
                    scope.spawn(move || write_until_gone(address, place, begun))
                })
                .collect();
            begun.wait();
            nodes.node(round % 2).command(&["volume", "remove", "data", "--force", "--yes"]);
            for writer in writers {
                assert!(writer.join().is_ok(), "round {round}");
            }
        });
        for node in [nodes.node(0), nodes.node(1)] {
            let listed = || node.command(&["volume", "list"])["volumes"].clone();
            eventually("the end of the volume", || listed().as_array().unwrap().len() == 1);
        }
        // Both nodes serve what is new, in the same space, and what was there before.
        nodes.node(0).command(&["volume", "resize", "other", &format!("{}MiB", 80 + 16 * round)]);
    }
    nodes.create(&["--size", "64MiB", "--width", "1"]);
    for node in [nodes.node(0), nodes.node(1)] {
        let volume = Door::Tcp.anonymous(node).unwrap().open("data").unwrap();
        let mut bytes = vec![0xA5; 1 << 20];
        volume.read_at(&mut bytes, 0).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0), "it is new");
        volume.write_at(&bytes, 0).unwrap();
        let status = node.command(&["status"]);
        assert!(status["cluster"]["withdrawals"].is_null(), "{status}");
    }
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn the_replicas_of_a_node_that_is_removed_are_replaced_under_load_and_the_new_ones_take_over() {
    let machines = machines(3);
    let mut nodes = Mirrored::start(&machines);
    nodes.create(&["--size", "64MiB", "--width", "1"]);
    let first = nodes.mirror(0);
    let (lost, kept) = (first.secondary(), first.primary());
    let third = 3 - lost - kept;
    let named = format!("n{lost}");
    let load = load(&nodes);
    let (message, code) = machines[third].refusal(&["remove", &named]);
    assert!(code == 1 && message.contains(&format!("node '{named}' is up")), "{message}");
    let (message, _) = machines[third].refusal(&["remove", "n7"]);
    assert!(message.ends_with("no node 'n7': its nodes are n0, n1, n2"), "{message}");
    // The machine knows the other members when it comes back.
    assert_eq!(machines[lost].verdict(), "ok");
    nodes.crash(lost);
    machines[lost].kill();
    [kept, third].into_iter().for_each(|it| goes_on(&load, it));
    let mut removed = serde_json::Value::Null;
    eventually("the removal", || {
        let output = machines[third].run(&["remove", &named, "--json"]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() || message.contains("is up, or was up"), "{message}");
        removed = serde_json::from_slice(&output.stdout).unwrap_or_default();
        output.status.success()
    });
    assert_eq!((&removed["replaced"], &removed["lacking"]), (&1.into(), &0.into()), "{removed}");
    assert_eq!(removed["was_member"], true, "{removed}");
    nodes.heals_without_member(third);
    let after = nodes.mirror(third);
    assert_eq!((after.primary(), after.secondary()), (kept, third));
    [kept, third].into_iter().for_each(|it| goes_on(&load, it));
    // The new replica serves alone.
    nodes.crash(kept);
    goes_on(&load, third);
    assert_eq!(nodes.mirror(third).primary(), third);
    nodes.serve(kept);
    nodes.heals_without_member(third);
    let addresses = nodes.addresses();
    let violations = load.end(&[addresses[kept], addresses[third]]).unwrap();
    assert_eq!(violations.count(), 0, "{violations}");
    nodes.assert_replicas_agree(third);
    // The removed node does not come back, and nothing is written to its slice.
    let slice = || {
        let mut bytes = vec![0; 32 << 20];
        let file = std::fs::File::open(machines[lost].place.path("slice.img")).unwrap();
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    };
    let before = slice();
    let refused = nodes.refused(lost);
    assert!(
        refused.contains(&format!("node '{named}' was removed from this cluster")),
        "{refused}"
    );
    assert!(before == slice());
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_removal_without_room_leaves_one_copy_until_a_repair_and_gives_data_up_only_by_force() {
    let machines = machines(3);
    let mut nodes = Mirrored::start_first(&machines, 2);
    nodes.create(&["--size", "64MiB", "--width", "1"]);
    let create = ["volume", "create", "plain", "--size", "32MiB", "--replicas", "1"];
    nodes.node(0).command(&[&create[..], &["--placement", "central:n1"]].concat());
    let volume = Door::Tcp.anonymous(nodes.node(0)).unwrap().open("data").unwrap();
    volume.write_at(&[0xEE; 4096], 8 * MIB).unwrap();
    nodes.crash(1);
    let mut refused = String::new();
    eventually("the reason of the refusal", || {
        refused = machines[0].refusal(&["remove", "n1"]).0;
        refused.contains("only copy")
    });
    assert!(
        refused.contains("node 'n1' has the only copy of 1 mirror of plain (32MiB)"),
        "{refused}"
    );
    let removed = machines[0].answer(&["remove", "n1", "--force"]);
    assert_eq!((&removed["replaced"], &removed["lacking"]), (&0.into(), &1.into()), "{removed}");
    assert_eq!((&removed["lost"][0], &removed["was_member"]), (&"plain".into(), &true.into()));
    let data = || {
        let status = machines[2].run(&["status", "--json"]).stdout;
        let status: serde_json::Value = serde_json::from_slice(&status).unwrap();
        status["data"].clone()
    };
    assert_eq!(data()["verdict"], "unavailable");
    let reason = data()["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("parts of plain were lost with n1"), "{reason}");
    nodes.node(0).command(&["volume", "remove", "plain", "--force", "--yes"]);
    eventually("the volume without its lost one", || data()["verdict"] == "degraded");
    let reason = data()["reason"].as_str().unwrap().to_owned();
    assert!(reason.ends_with("`nearflash cluster repair`"), "{reason}");
    let (refused, _) = machines[0].refusal(&["repair"]);
    assert!(refused.contains("no other node that is up has room"), "{refused}");
    nodes.serve(2);
    eventually("a node with room", || machines[0].run(&["repair"]).status.success());
    nodes.heals_without_member(0);
    nodes.assert_replicas_agree(0);
    nodes.crash(0);
    let volume = Door::Tcp.anonymous(nodes.node(2)).unwrap().open("data").unwrap();
    let mut block = [0; 4096];
    volume.read_at(&mut block, 8 * MIB).unwrap();
    assert_eq!(block, [0xEE; 4096]);
}
