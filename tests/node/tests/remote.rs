//! Volumes of other nodes: a node serves a volume that lies on another one, its owner, over every
//! protocol. The owner is killed, stopped, absent, or loses its memory; its volume grows, or is replaced
//! by another one of that name.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use nearflash::direct::Status as DirectStatus;
use nearflash::nvme_tcp::{Io, QueuePair, Status};
use nearflash_iscsi::initiator::Status as ScsiStatus;
use nearflash_node_tests::{
    Door, Host, Initiator, Key, Node, Place, Stamp, assert_serves, eventually, nearflash, refused,
    two_cores,
};
use nearflash_units::{Blocks, ByteLen, Lba, Nanos};
use rustix::process::Signal;
use serde_json::Value;

const MIB: u64 = 1 << 20;
const RAM: [&str; 4] = ["--device", "r=ram:64MiB", "--volume", "data=8MiB@r"];
const ANY_PORT: &str = "127.0.0.1:0";

/// The owner of the volume `data`.
fn owner<'a>(place: &'a Place, address: &str, flags: &[&str]) -> Node<'a> {
    let socket = place.text("direct.sock");
    let doors = ["--direct", address, "--direct-local", &socket, "--iscsi", ANY_PORT];
    Node::start(place, &[&doors[..], flags].concat())
}

/// The same with a device that keeps its contents when the process is killed.
fn lasting_owner<'a>(place: &'a Place, address: &str) -> Node<'a> {
    owner(place, address, &["--device", &place.flash("64MiB"), "--volume", "data=8MiB@flash"])
}

/// A node without devices that serves the owner's volume, under the same name.
fn entry<'a>(place: &'a Place, owner: SocketAddr, query: &str, flags: &[&str]) -> Node<'a> {
    let remote = format!("data=direct://{owner}/data{query}");
    let socket = place.text("direct.sock");
    let doors = ["--direct", ANY_PORT, "--direct-local", &socket, "--iscsi", ANY_PORT];
    Node::start(place, &[&doors[..], &["--remote", &remote], flags].concat())
}

/// The entry of the only volume in `volume list`.
fn listed(node: &Node<'_>) -> Value {
    let list = node.command(&["volume", "list"]);
    assert_eq!(list["volumes"].as_array().unwrap().len(), 1, "{list}");
    list["volumes"][0].clone()
}

fn is_suspect(node: &Node<'_>) -> bool {
    node.command(&["status"])["devices"][0]["suspect"] == true
}

/// Writes stamps over each protocol of `written`, and reads them over each protocol of `read`.
fn assert_same(written: &Node<'_>, read: &Node<'_>, sequence: u64) {
    let stamp = |lba| Stamp { lba, sequence };
    assert_eq!(Host::connect(written, "data").write_stamp(stamp(1)), Status::SUCCESS);
    let who = nearflash_node_tests::Who::named("writer");
    let mut initiator = Initiator::login(written, "data", &who).unwrap();
    assert_eq!(initiator.write(2, &stamp(2).block(4096)), ScsiStatus::GOOD);
    for (door, lba) in Door::ALL.into_iter().zip(3..) {
        let volume = door.anonymous(written).unwrap().open("data").unwrap();
        volume.write_at(&stamp(lba).block(4096), lba * 4096).unwrap();
        volume.flush().unwrap();
    }
    let mut host = Host::connect(read, "data");
    let mut initiator = Initiator::login(read, "data", &who).unwrap();
    let doors = Door::ALL.map(|door| door.anonymous(read).unwrap().open("data").unwrap());
    for lba in 1..=4 {
        assert_eq!(host.read_stamp(lba), Some(stamp(lba)));
        assert_eq!(Stamp::of(&initiator.read(lba)), Some(stamp(lba)));
        for volume in &doors {
            let mut block = [0xA5; 4096];
            volume.read_at(&mut block, lba * 4096).unwrap();
            assert_eq!(Stamp::of(&block), Some(stamp(lba)), "block {lba}");
        }
    }
}

#[test]
fn a_volume_is_the_same_on_both_nodes_over_every_protocol() {
    let cores = two_cores();
    let cores = cores.as_deref().map_or(vec![], |cores| vec!["--cores", cores]);
    for query in ["", "?digest=header,data"] {
        let places = [Place::new(), Place::new()];
        let owner = owner(&places[0], ANY_PORT, &[&RAM[..], &cores].concat());
        let entry = entry(&places[1], owner.direct_address(), query, &cores);
        for (sequence, (written, read)) in (1..).zip([(&entry, &owner), (&owner, &entry)]) {
            assert_same(written, read, sequence);
            assert_same(written, written, sequence + 2);
        }
        // Longer than one request, and at any byte.
        let bytes: Vec<u8> = (0..3 * MIB).map(|at| u8::try_from(at % 251).unwrap()).collect();
        for (door, reader) in Door::ALL.into_iter().zip([&owner, &entry]) {
            let volume = door.anonymous(&entry).unwrap().open("data").unwrap();
            volume.write_at(&vec![0; bytes.len()], MIB).unwrap();
            volume.write_at(&bytes, MIB).unwrap();
            volume.write_zeroes(2 * MIB, 8192).unwrap();
            volume.discard(2 * MIB + 8192, 8192).unwrap();
            let mut found = vec![0xA5; 100_000];
            let volume = door.anonymous(reader).unwrap().open("data").unwrap();
            volume.read_at(&mut found, 3 * MIB + 1).unwrap();
            assert!(found == bytes[2 * 1024 * 1024 + 1..][..100_000], "{door:?}");
            volume.read_at(&mut found[..8192], 2 * MIB).unwrap();
            assert_eq!(found[..8192], [0; 8192]);
        }
        entry.terminate();
        assert_serves(&owner);
    }
}

#[test]
fn the_lists_of_both_nodes_name_the_same_volume() {
    let places = [Place::new(), Place::new()];
    let owner = owner(&places[0], ANY_PORT, &RAM);
    let entry = entry(&places[1], owner.direct_address(), "", &[]);
    let (there, here) = (listed(&owner), listed(&entry));
    for field in ["name", "uuid", "bytes", "block_size", "nqn", "nsid"] {
        assert!(!there[field].is_null(), "{there} has no {field}");
        assert_eq!(there[field], here[field], "{field}");
    }
    let device = &entry.command(&["status"])["devices"][0];
    assert_eq!((&device["name"], &device["kind"]), (&"data".into(), &"remote".into()));
    assert_eq!((&device["bytes"], &device["suspect"]), (&(8 * MIB).into(), &Value::Null));
}

#[test]
fn what_only_the_owner_can_do_is_refused_and_changes_nothing() {
    let places = [Place::new(), Place::new()];
    let owner = owner(&places[0], ANY_PORT, &RAM);
    let entry = entry(&places[1], owner.direct_address(), "", &[]);
    let data_dir = places[1].data_dir();
    for command in [&["volume", "resize", "data", "16MiB"][..], &["volume", "remove", "data"]] {
        let refusal = refused(&[command, &["--data-dir", &data_dir]].concat());
        assert_eq!(refusal.message, "volume 'data' is on another node: change it there");
        assert_eq!(refusal.code, 1);
    }
    let create = ["volume", "create", "more=1MiB@data", "--data-dir", &data_dir];
    assert!(refused(&create).message.contains("device 'data'"), "it has no room for others");
    for door in Door::ALL {
        let volume = door.anonymous(&entry).unwrap().open("data").unwrap();
        for refused in [volume.compare_and_swap(0, 0, 1), volume.fetch_add(0, 1)] {
            let status = refused.unwrap_err().status();
            assert_eq!(status, Some(DirectStatus::UNSUPPORTED), "{door:?}");
        }
        let mut bytes = [0xA5; 8192];
        volume.read_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [0; 8192]);
    }
}

#[test]
fn files_are_refused_on_a_volume_of_another_node_before_its_contents_are_looked_at() {
    let places = [Place::new(), Place::new()];
    let large = ["--device", "r=ram:64MiB", "--volume", "data=32MiB@r"];
    let owner = owner(&places[0], ANY_PORT, &large);
    let entry = entry(&places[1], owner.direct_address(), "", &[]);
    let own = Door::ALL[0].anonymous(&owner).unwrap().open("data").unwrap();
    let mut bytes = [0; 8192];
    // Blank, and then with contents that `--force` would erase.
    for byte in [0, 0xEE] {
        own.write_at(&[byte; 8192], 0).unwrap();
        let url = format!("direct://{}/data", entry.direct_address());
        for flags in [&[][..], &["--force"]] {
            let refusal = refused(&[&["files", "format", &url], flags].concat());
            let said = "files need a volume on a device of this node";
            assert!(refusal.message.ends_with(said), "{refusal:?}");
            assert_eq!(refusal.code, 1);
            own.read_at(&mut bytes, 0).unwrap();
            assert_eq!(bytes, [byte; 8192]);
        }
    }
}

/// The owner keeps the other bytes of the blocks.
#[test]
fn bytes_within_blocks_are_written_through_another_node() {
    let places = [Place::new(), Place::new()];
    let owner = owner(&places[0], ANY_PORT, &RAM);
    let entry = entry(&places[1], owner.direct_address(), "", &[]);
    for (door, byte) in Door::ALL.into_iter().zip(1..) {
        let volume = door.anonymous(&entry).unwrap().open("data").unwrap();
        volume.write_at(&[0xEE; 12288], 0).unwrap();
        volume.write_at(&[byte; 5000], 4090).unwrap();
        let mut expected = [0xEE; 12288];
        expected[4090..9090].fill(byte);
        let mut bytes = [0; 12288];
        let own = Door::ALL[0].anonymous(&owner).unwrap().open("data").unwrap();
        own.read_at(&mut bytes, 0).unwrap();
        assert!(bytes == expected, "{door:?}");
    }
}

/// The number of blocks that are rewritten; each is in flight at most once.
const BLOCKS: u64 = 256;
const DEPTH: u64 = 16;

/// A writer's knowledge of a block.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The last acknowledged write.
    acknowledged: u64,
    /// The last sent write.
    sent: u64,
}

/// The writer's counts of its answers.
#[derive(Debug, Default)]
struct Counts {
    acknowledged: AtomicU64,
    failed: AtomicU64,
}

/// Writes until it is told to end. A write either succeeds, or fails as one that was under way, or not
/// yet sent, when the owner went away.
fn write_on(
    host: &mut Host,
    known: &mut HashMap<u64, Known>,
    counts: &Counts,
    is_over: &AtomicBool,
) {
    let namespace = host.namespace;
    let pair = &mut host.queues[0];
    let buffers: Vec<_> = (0..DEPTH).map(|_| pair.take_buffer(ByteLen(4096)).unwrap()).collect();
    let mut free: Vec<u64> = (0..DEPTH).collect();
    let (mut turn, mut done) = (0, Vec::new());
    while !is_over.load(Ordering::Relaxed) || free.len() < buffers.len() {
        while let Some(slot) = free.pop_if(|_| !is_over.load(Ordering::Relaxed)) {
            // Each slot has its own blocks.
            let lba = (turn * 7 % (BLOCKS / DEPTH)) * DEPTH + slot;
            turn += 1;
            let block = known.entry(lba).or_default();
            block.sent += 1;
            let buffer = buffers[usize::try_from(slot).unwrap()];
            Stamp { lba, sequence: block.sent }.fill(&mut pair.bytes_mut(buffer)[..4096]);
            let (start, count) = (Lba(lba), Blocks(1));
            let io = Io::Write { start, count, buffer, force_unit_access: turn % 16 == 0 };
            pair.submit(lba, &namespace, io).unwrap();
        }
        let is_moved = pair.poll(&mut done).expect("the connection to the entry stays");
        for completion in done.drain(..) {
            free.push(completion.token % DEPTH);
            if completion.status == Status::SUCCESS {
                let block = known.get_mut(&completion.token).unwrap();
                block.acknowledged = block.sent;
                counts.acknowledged.fetch_add(1, Ordering::Relaxed);
            } else {
                let allowed = [Status::INTERNAL_PATH_ERROR, Status::NAMESPACE_NOT_READY];
                assert!(allowed.contains(&completion.status), "{}", completion.status);
                counts.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
        if !is_moved {
            let pair = std::slice::from_ref(pair);
            QueuePair::wait_any(pair, Nanos::from_millis(100)).unwrap();
        }
    }
}

/// Checks that each block holds its last acknowledged write, or a later one.
fn assert_holds(host: &mut Host, known: &HashMap<u64, Known>) {
    for (&lba, block) in known.iter().filter(|(_, block)| block.acknowledged > 0) {
        let stamp = host.read_stamp(lba).expect("an acknowledged block is whole");
        assert_eq!(stamp.lba, lba);
        assert!((block.acknowledged..=block.sent).contains(&stamp.sequence), "{stamp:?} {block:?}");
    }
}

#[test]
fn hosts_outlive_the_crash_of_the_owner_under_load() {
    let places = [Place::new(), Place::new()];
    let mut owner = lasting_owner(&places[0], ANY_PORT);
    let entry = entry(&places[1], owner.direct_address(), "", &[]);
    let mut known = HashMap::new();
    let (mut rounds, mut failed) = (0, 0);
    // The owner may have answered every write that it had taken when it is killed.
    while rounds < ROUNDS || (failed == 0 && rounds < ROUNDS_MAX) {
        rounds += 1;
        let failed_now;
        (owner, failed_now) = crash_under_load(owner, &places[0], &entry, &mut known);
        failed += failed_now;
        assert_eq!(Host::connect(&entry, "data").flush(), Status::SUCCESS, "nothing is lost");
        assert_holds(&mut Host::connect(&entry, "data"), &known);
        assert_holds(&mut Host::connect(&owner, "data"), &known);
    }
    assert!(failed > 0, "some were under way");
    assert!(!is_suspect(&entry));
}

/// The number of crashes, and the largest number if none of them meets a write under way.
const ROUNDS: u32 = 3;
const ROUNDS_MAX: u32 = 30;

/// Kills the owner while a host of the entry writes. Returns the owner's next process, and the number
/// of writes that failed.
fn crash_under_load<'a>(
    owner: Node<'a>,
    place: &'a Place,
    entry: &Node<'_>,
    known: &mut HashMap<u64, Known>,
) -> (Node<'a>, u64) {
    let address = owner.direct_address();
    let (counts, is_over) = (Counts::default(), AtomicBool::new(false));
    let (mut writer, mut reader) = (Host::connect(entry, "data"), Host::connect(entry, "data"));
    let owner = thread::scope(|scope| {
        scope.spawn(|| write_on(&mut writer, known, &counts, &is_over));
        let acknowledged = || counts.acknowledged.load(Ordering::Relaxed);
        eventually("writes are acknowledged", || acknowledged() >= 300);
        owner.crash();
        // A read that begins while the owner is away waits for it.
        let read = scope.spawn(|| reader.read(0, 1).0);
        let owner = lasting_owner(place, &address.to_string());
        assert_eq!(read.join().unwrap(), Status::SUCCESS);
        let before = acknowledged();
        eventually("writes go on", || acknowledged() >= before + 100);
        is_over.store(true, Ordering::Relaxed);
        owner
    });
    (owner, counts.failed.load(Ordering::Relaxed))
}

/// Whether every thread of the process is stopped by a signal.
fn is_stopped(node: &Node<'_>) -> bool {
    let mut threads = std::fs::read_dir(format!("/proc/{}/task", node.pid())).unwrap();
    threads.all(|thread| {
        let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
        // The state follows the name, which is in parentheses.
        stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T"))
    })
}

#[test]
fn a_write_to_a_stopped_owner_ends_with_a_path_error_and_a_read_waits() {
    let places = [Place::new(), Place::new()];
    let owner = owner(&places[0], ANY_PORT, &RAM);
    let entry = entry(&places[1], owner.direct_address(), "", &[]);
    let mut hosts = [Host::connect(&entry, "data"), Host::connect(&entry, "data")];
    hosts.iter_mut().for_each(Host::assert_works);
    let [reader, writer] = &mut hosts;
    owner.signal(Signal::STOP);
    eventually("all its threads are stopped", || is_stopped(&owner));
    thread::scope(|scope| {
        let written = scope.spawn(|| writer.write(1, &[7; 4096]));
        let read = scope.spawn(|| reader.read(2, 1));
        eventually("its silence is noticed", || places[1].log().contains("it does not answer"));
        owner.signal(Signal::CONT);
        assert_eq!(written.join().unwrap(), Status::INTERNAL_PATH_ERROR);
        assert_eq!(read.join().unwrap(), (Status::SUCCESS, vec![0; 4096]));
    });
    hosts.iter_mut().for_each(Host::assert_works);
}

#[test]
fn a_write_that_is_not_sent_in_time_says_so_over_every_protocol() {
    let places = [Place::new(), Place::new()];
    let owner = owner(&places[0], ANY_PORT, &RAM);
    let entry = entry(&places[1], owner.direct_address(), "", &[]);
    let mut host = Host::connect(&entry, "data");
    let who = nearflash_node_tests::Who::named("writer");
    let mut initiator = Initiator::login(&entry, "data", &who).unwrap();
    initiator.hear_all();
    let volume = Door::Tcp.anonymous(&entry).unwrap().open("data").unwrap();
    owner.crash();
    // The first write may be the one that finds the connection broken.
    let _ = host.write(0, &[7; 4096]);
    assert_eq!(host.write(0, &[7; 4096]), Status::NAMESPACE_NOT_READY);
    assert_eq!(initiator.write_refused(0, &[7; 4096]), Some((2, 4, 0)));
    let refused = volume.write_at(&[7; 4096], 0).unwrap_err();
    assert_eq!(refused.status(), Some(DirectStatus::DEVICE_UNAVAILABLE));
}

#[test]
fn a_volume_created_again_under_the_same_name_is_not_used() {
    let places = [Place::new(), Place::new()];
    let owner = owner(&places[0], ANY_PORT, &RAM);
    let entry = entry(&places[1], owner.direct_address(), "", &[]);
    let mut host = Host::connect(&entry, "data");
    host.assert_works();
    owner.command(&["volume", "remove", "data", "--force"]);
    owner.command(&["volume", "create", "data=8MiB@r"]);
    eventually("the volume is refused by name", || {
        assert_ne!(host.write(0, &[7; 4096]), Status::SUCCESS, "another volume is not meant");
        places[1].log().contains("its volume 'data' is not the one that was opened")
    });
    assert_eq!(Host::connect(&owner, "data").read(0, 1), (Status::SUCCESS, vec![0; 4096]));
}

#[test]
fn a_volume_that_grows_on_its_owner_grows_here() {
    let places = [Place::new(), Place::new()];
    let owner = owner(&places[0], ANY_PORT, &RAM);
    let entry = entry(&places[1], owner.direct_address(), "", &[]);
    let mut host = Host::connect(&entry, "data");
    host.assert_works();
    owner.command(&["volume", "resize", "data", "16MiB"]);
    eventually("the new size is known here", || {
        host.assert_works();
        listed(&entry)["bytes"] == 16 * MIB
    });
    let volume = Door::Tcp.anonymous(&entry).unwrap().open("data").unwrap();
    volume.write_at(&Stamp { lba: 4095, sequence: 9 }.block(4096), 16 * MIB - 4096).unwrap();
    let stamp = Host::connect(&owner, "data").read_stamp(4095);
    assert_eq!(stamp, Some(Stamp { lba: 4095, sequence: 9 }));
}

#[test]
fn a_wrong_secret_is_refused_at_the_start_and_the_right_one_serves() {
    let places = [Place::new(), Place::new()];
    let owner = owner(&places[0], ANY_PORT, &RAM);
    let key = Key::create(&owner, "entry", &[]);
    key.grant(&owner, "data", &["--rights", "rw"]);
    let address = owner.direct_address();
    for (name, key) in [("right", &key), ("wrong", &key.forged())] {
        std::fs::write(places[1].path(name), key.secret()).unwrap();
    }
    let query = |name| format!("?key=entry&secret-file={}", places[1].text(name));
    let data_dir = places[1].data_dir();
    let start = ["serve", "--nvme-tcp", ANY_PORT, "--data-dir", &data_dir, "--remote"];
    for (volume, query, reason) in [
        ("data", query("wrong"), "did not prove that it knows the secret"),
        ("data", String::new(), "refuses the connection"),
        ("none", query("right"), "'none'"),
    ] {
        let remote = format!("data=direct://{address}/{volume}{query}");
        let refusal = refused(&[&start[..], &[&remote]].concat());
        assert!(refusal.message.starts_with("--remote data: "), "{}", refusal.message);
        assert!(refusal.message.contains(reason), "{}", refusal.message);
        assert_eq!(refusal.code, 1);
    }
    let entry = entry(&places[1], address, &query("right"), &[]);
    assert_serves(&entry);
    // Hosts of the owner need no key.
    assert_eq!(Host::connect(&owner, "data").read(0, 1), Host::connect(&entry, "data").read(0, 1));
}

#[test]
fn a_node_starts_without_the_owner_and_serves_the_volume_when_it_comes() {
    let places = [Place::new(), Place::new()];
    let first = owner(&places[0], ANY_PORT, &RAM);
    let address = first.direct_address();
    first.terminate();
    let entry =
        entry(&places[1], address, "", &["--device", "r=ram:4MiB", "--volume", "own=1MiB@r"]);
    assert_eq!(listed(&entry)["name"], "own");
    eventually("the log says so", || places[1].log().contains("volume 'data' is absent"));
    Host::connect(&entry, "own").assert_works();
    let owner = owner(&places[0], &address.to_string(), &RAM);
    let count = || entry.command(&["volume", "list"])["volumes"].as_array().unwrap().len();
    eventually("the volume is there", || count() == 2);
    assert_serves(&entry);
    entry.terminate();
    assert_serves(&owner);
}

#[test]
fn lost_writes_of_the_owner_fail_the_next_flush_until_the_device_is_cleared() {
    let places = [Place::new(), Place::new()];
    let first = owner(&places[0], ANY_PORT, &RAM);
    let address = first.direct_address();
    let entry = entry(&places[1], address, "", &[]);
    let mut host = Host::connect(&entry, "data");
    assert_eq!(host.write_stamp(Stamp { lba: 3, sequence: 1 }), Status::SUCCESS);
    assert_eq!(host.flush(), Status::SUCCESS);
    assert_eq!(host.write_stamp(Stamp { lba: 4, sequence: 1 }), Status::SUCCESS);
    first.crash();
    let owner = owner(&places[0], &address.to_string(), &RAM);
    assert_ne!(host.flush(), Status::SUCCESS, "the memory of the owner is gone");
    assert!(is_suspect(&entry));
    let log = places[1].log();
    assert!(
        log.contains("has lost its power before writes to volume 'data' were flushed"),
        "{log}"
    );
    assert_eq!(host.read_stamp(4), None);
    entry.command(&["device", "clear", "data"]);
    assert!(!is_suspect(&entry));
    host.assert_works();
    assert_eq!(host.flush(), Status::SUCCESS);
    assert!(!is_suspect(&owner));
}

#[test]
fn the_end_of_a_node_leaves_the_volume_of_its_owner_as_it_is() {
    let places = [Place::new(), Place::new()];
    let owner = owner(&places[0], ANY_PORT, &RAM);
    let first = entry(&places[1], owner.direct_address(), "", &[]);
    let volume = listed(&first);
    let mut client = std::process::Command::new(nearflash())
        .args(["bench", &format!("{}/data", Door::Tcp.url(&first)), "--rw", "randwrite"])
        .args(["--bs", "4KiB", "--iodepth", "16", "--runtime", "60s"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    eventually("it writes", || owner.counted("writes") > 200);
    first.crash();
    client.kill().unwrap();
    client.wait().unwrap();
    eventually("its requests are over", || owner.counted("in_flight") == 0);
    assert_serves(&owner);
    let second = entry(&places[1], owner.direct_address(), "", &[]);
    assert_eq!(listed(&second), volume);
    assert_serves(&second);
    assert_same(&second, &owner, 77);
}
