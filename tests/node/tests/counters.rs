//! The status reports the traffic of each host on each volume, without asking a core.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nearflash_node_tests::{Admin, Host, Initiator, Node, Place, Who, Wire, eventually, numbered};
use nearflash_nvme::{Command, NamespaceId};
use nearflash_units::Lba;
use serde_json::{Value, json};

const NSID: NamespaceId = NamespaceId(1);

fn read(io: &mut Wire, lba: u64) -> bool {
    io.read(&Command::read(NSID, Lba(lba), 0, 4096)).0.is_success()
}

fn write(io: &mut Wire, lba: u64) -> bool {
    let command = Command::write(NSID, Lba(lba), 0, 4096).with_capsule_data(4096);
    io.run_with(&command, &[7; 4096]).is_success()
}

/// The entry of the list with this value in a field; null if there is none.
fn find<'a>(list: &'a Value, field: &str, value: &str) -> &'a Value {
    let found = list.as_array().unwrap().iter().find(|entry| entry[field] == value);
    found.unwrap_or(&Value::Null)
}

/// [reads, writes, bytes read, bytes written, failed reads]
fn counts(io: &Value) -> [u64; 5] {
    ["reads", "writes", "read_bytes", "written_bytes", "read_errors"]
        .map(|field| io[field].as_u64().unwrap())
}

/// Percentiles are in order, and of as many requests as there were.
fn check_latency(latency: &Value, count: u64) {
    let fields = ["p50_ns", "p99_ns", "p999_ns", "max_ns"].map(|it| latency[it].as_u64().unwrap());
    assert!(fields.is_sorted() && fields[3] > 0, "{latency}");
    assert!(latency["mean_ns"].as_u64().unwrap() <= fields[3], "{latency}");
    assert_eq!(latency["count"], count);
}

/// Reads without a pause until it is told to stop.
fn keep_busy(host: &mut Host, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        assert!(host.read(0, 32).0.is_success());
    }
}

fn node(place: &Place) -> Node<'_> {
    let device = place.flash("64MiB");
    let volumes = ["one=8MiB@flash", "two=8MiB@flash", "busy=8MiB@flash"];
    let volumes = volumes.iter().flat_map(|volume| ["--volume", volume]);
    let flags: Vec<&str> = ["--device", &device].into_iter().chain(volumes).collect();
    Node::with_iscsi(place, &flags)
}

#[test]
fn each_hosts_io_is_counted_for_its_volume_while_another_host_keeps_the_core_busy() {
    let place = Place::new();
    let node = node(&place);
    let mut busy = Host::connect(&node, "busy");
    let stop = AtomicBool::new(false);
    let (a, b) = (Admin::join(&node, "one"), Admin::join(&node, "two"));
    let initiator = Who::named("counted");
    let status = thread::scope(|scope| {
        scope.spawn(|| keep_busy(&mut busy, &stop));
        let mut one = a.io(1, 16);
        assert!((0..3).all(|lba| write(&mut one, lba)) && (0..5).all(|lba| read(&mut one, lba)));
        assert!(!read(&mut one, 2048), "the volume ends before");
        // The same host again, on a new connection, and on another volume.
        drop(one);
        assert!(read(&mut a.io(2, 16), 0));
        let a_on_two = a.join_also(&node, "two");
        assert!((0..2).all(|lba| read(&mut a_on_two.io(1, 16), lba)));
        let mut two = b.io(1, 16);
        assert!((0..4).all(|lba| read(&mut two, lba)));
        let mut session = Initiator::login(&node, "two", &initiator).unwrap();
        session.write(0, &[9; 4096]);
        let status = node.command(&["status"]);
        stop.store(true, Ordering::Relaxed);
        status
    });
    let one = find(&status["volume_io"], "volume", "one");
    assert_eq!(counts(one), [6, 3, 6 * 4096, 3 * 4096, 1]);
    check_latency(&one["read_latency"], 7);
    check_latency(&one["write_latency"], 3);
    assert_eq!(
        counts(find(&one["hosts"], "host", &a.host_nqn())),
        counts(one),
        "a volume's only host"
    );
    let two = find(&status["volume_io"], "volume", "two");
    let of = |host: &str| counts(find(&two["hosts"], "host", host));
    assert_eq!(of(&a.host_nqn())[..2], [2, 0]);
    assert_eq!(of(&b.host_nqn())[..2], [4, 0]);
    assert_eq!(of(&initiator.name)[1], 1);
    assert_eq!((counts(two)[1], two["in_flight"].as_u64()), (1, Some(0)));
    let busy = find(&status["volume_io"], "volume", "busy");
    assert!(counts(busy)[0] > 0 && counts(busy)[2] == counts(busy)[0] * 32 * 4096, "{busy}");
    assert_eq!(status["silent_cores"], Value::Null);
}

#[test]
fn a_removed_volume_is_counted_no_longer_but_what_its_core_did_still_is() {
    let place = Place::new();
    let node = node(&place);
    let admin = Admin::join(&node, "one");
    let mut io = admin.io(1, 16);
    assert!((0..9).all(|lba| read(&mut io, lba)));
    drop((io, admin));
    let before = node.counted("reads");
    assert_eq!(before, 9);
    node.command(&["volume", "remove", "one", "--force"]);
    let status = node.command(&["status"]);
    assert_eq!(find(&status["volume_io"], "volume", "one"), &Value::Null);
    assert_eq!(find(&status["volume_io"], "volume", "two")["hosts"], json!([]));
    assert_eq!(node.counted("reads"), before);
}

#[test]
fn requests_that_wait_are_seen_as_waiting_and_as_their_hosts() {
    let place = Place::new();
    let node = Node::in_memory(&place);
    let admin = Admin::join(&node, "data");
    // 128 MiB, none of which it reads.
    let mut greedy = admin.io(1, 128);
    for cid in 0..127 {
        greedy.submit(&numbered(Command::read(NSID, Lba(0), 255, 256 * 4096), cid), &[]);
    }
    let io = || node.command(&["status"])["volume_io"][0].clone();
    let count = |io: &Value, field: &str| io[field].as_u64().unwrap();
    eventually("its requests wait", || {
        let io = io();
        let host = find(&io["hosts"], "host", &admin.host_nqn());
        !host.is_null() && count(host, "waiting") > 0 && count(host, "in_flight") > 0
    });
    drop(greedy);
    eventually("all have ended", || count(&io(), "in_flight") == 0);
    let io = io();
    assert_eq!(count(&io, "waiting"), 0);
    assert_eq!(count(&io, "reads") + count(&io, "read_errors"), 127);
    assert!(count(&io, "read_errors") > 0, "those that had not begun were cancelled");
    let waited = count(&io["read_wait"], "count");
    assert!((count(&io, "read_errors")..=127).contains(&waited), "{waited} waited");
}
