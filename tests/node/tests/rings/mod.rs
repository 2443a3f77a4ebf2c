//! Clients that share memory with the node: regular use, invalid use, and the resources that remain
//! after their end.
#![allow(clippy::unwrap_used)] // a failed test says where

mod scribbler;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nearflash::direct::{Lost, Options};
use nearflash::{Buffer, Client, Completion, Credentials, Error, QueueOptions, QueuePair};
use nearflash_node_tests::{Host, Node, Place, Stamp, assert_serves, eventually, nearflash};
use rustix::process::Signal;
use rustix::thread::CpuSet;
use scribbler::{Dice, Scribbler};

const BLOCK_LEN: usize = 4096;

/// A node with these devices and volumes, and a socket for direct clients on this machine.
fn start<'a>(place: &'a Place, flags: &[&str]) -> Node<'a> {
    let socket = place.text("direct.sock");
    let flags = [&["--direct-local", &socket], flags].concat();
    Node::start(place, &flags)
}

fn socket(place: &Place) -> PathBuf {
    place.path("direct.sock")
}

fn pair(place: &Place, volume: &str) -> QueuePair {
    pair_with(place, volume, "")
}

fn pair_with(place: &Place, volume: &str, options: &str) -> QueuePair {
    let url = format!("direct+local:{}{options}", socket(place).display());
    let client = Client::connect(&url, Credentials::NONE).unwrap();
    client.queue_pair(volume, QueueOptions::default()).unwrap()
}

/// The number of mappings of clients' memory in the node.
fn mapped(node: &Node<'_>) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", node.pid())).unwrap();
    maps.lines().filter(|line| line.contains("nearflash-rings")).count()
}

/// Waits for the next completion.
fn completed(pair: &mut QueuePair) -> Completion {
    let mut done = Vec::new();
    while pair.poll(&mut done).unwrap() == 0 {
        pair.wait(Duration::from_secs(1)).unwrap();
    }
    assert_eq!(done.len(), 1);
    done.pop().unwrap()
}

fn write(pair: &mut QueuePair, buffer: Buffer, offset: u64) -> Buffer {
    pair.post_write_at(buffer, offset).unwrap();
    let Completion { result, buffer, .. } = completed(pair);
    result.unwrap();
    buffer.unwrap()
}

fn read(pair: &mut QueuePair, buffer: Buffer, offset: u64) -> Buffer {
    pair.post_read_at(buffer, offset).unwrap();
    let Completion { result, buffer, .. } = completed(pair);
    result.unwrap();
    buffer.unwrap()
}

/// Writes a stamp from shared memory, and reads it back into other shared memory.
fn assert_pair_works(pair: &mut QueuePair, stamp: Stamp) {
    let mut buffer = pair.buffer(BLOCK_LEN).unwrap();
    stamp.fill(&mut buffer);
    let offset = stamp.lba * 4096;
    drop(write(pair, buffer, offset));
    let mut buffer = pair.buffer(BLOCK_LEN).unwrap();
    buffer.fill(0xA5);
    assert_eq!(Stamp::of(&read(pair, buffer, offset)), Some(stamp));
}

#[test]
fn what_is_written_by_rings_is_read_by_rings_and_by_hosts() {
    let place = Place::new();
    let flash = place.flash("64MiB");
    let devices = ["--device", &flash, "--device", "r=ram:64MiB"];
    let volumes = ["--volume", "data=16MiB@flash", "--volume", "other=16MiB@r"];
    let node = start(&place, &[devices, volumes].concat());
    for volume in ["data", "other"] {
        let mut pair = pair(&place, volume);
        assert_eq!(mapped(&node), 1, "rings are in use");
        // Any length and alignment, in shared memory and in other memory.
        for (round, (len, offset)) in
            [(1, 4095), (4096, 4096), (5000, 8191), (1 << 20, 0), (5 << 20, 123_457)]
                .into_iter()
                .enumerate()
        {
            let byte = |at: usize| u8::try_from((at * 31 + round) % 251).unwrap();
            let fill = |bytes: &mut [u8]| {
                bytes.iter_mut().enumerate().for_each(|(at, filled)| *filled = byte(at));
            };
            let mut shared = pair.buffer(len).unwrap();
            fill(&mut shared);
            drop(write(&mut pair, shared, offset));
            let apart = read(&mut pair, Buffer::new(len), offset);
            assert!(apart.iter().enumerate().all(|(at, read)| *read == byte(at)), "{len}");
            let apart = write(&mut pair, apart, offset + 1);
            let shared = pair.buffer(len).unwrap();
            assert!(*read(&mut pair, shared, offset + 1) == *apart, "{len} at {offset}");
        }
        let mut host = Host::connect(&node, volume);
        let stamp = Stamp { lba: 9, sequence: 1 };
        assert_pair_works(&mut pair, stamp);
        assert_eq!(host.read_stamp(9), Some(stamp));
    }
    node.terminate();
}

#[test]
fn rings_work_where_digests_were_agreed_too() {
    let place = Place::new();
    let node = start(&place, &["--device", "r=ram:64MiB", "--volume", "data=8MiB@r"]);
    let mut pair = pair_with(&place, "data", "?digest=header,data");
    assert_eq!(mapped(&node), 1);
    for sequence in 1..10 {
        assert_pair_works(&mut pair, Stamp { lba: 5, sequence });
    }
    node.terminate();
}

#[test]
fn words_are_swapped_and_added_to_by_rings() {
    let place = Place::new();
    let node = start(&place, &["--device", "r=ram:64MiB", "--volume", "data=8MiB@r"]);
    let mut pair = pair(&place, "data");
    let mut value = |post: &dyn Fn(&mut QueuePair) -> Result<nearflash::Token, Error>| {
        post(&mut pair).unwrap();
        completed(&mut pair).result.unwrap()
    };
    assert_eq!(value(&|pair| pair.post_fetch_add(8, 5)), 0);
    assert_eq!(value(&|pair| pair.post_fetch_add(8, 2)), 5);
    assert_eq!(value(&|pair| pair.post_compare_and_swap(8, 6, 100)), 7);
    assert_eq!(value(&|pair| pair.post_compare_and_swap(8, 7, 100)), 7);
    assert_eq!(value(&|pair| pair.post_fetch_add(8, 0)), 100);
    node.terminate();
}

/// Whether the thread of the first core is in this state: `S` is sleeping, `T` is stopped.
fn is_core_in(node: &Node<'_>, state: char) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", node.pid())).unwrap();
    tasks.map(|task| task.unwrap().path()).any(|task| {
        let stat = std::fs::read_to_string(task.join("stat")).unwrap_or_default();
        stat.contains(&format!("(core-0) {state}"))
    })
}

#[test]
fn a_node_that_sleeps_is_woken_and_wakes_a_client_that_sleeps() {
    let place = Place::new();
    let node = start(&place, &["--device", "r=ram:64MiB", "--volume", "data=8MiB@r"]);
    let url = format!("direct+local:{}", socket(&place).display());
    let options = Options::default().spin_max(Duration::ZERO);
    let client = Client::connect_with(&url, Credentials::NONE, options).unwrap();
    let volume = client.open("data").unwrap();
    for round in 0..20u8 {
        eventually("the node sleeps", || is_core_in(&node, 'S'));
        volume.write_at(&[round; 100], 5_000).unwrap();
        eventually("the node sleeps", || is_core_in(&node, 'S'));
        let mut read = [0xA5; 100];
        volume.read_at(&mut read, 5_000).unwrap();
        assert_eq!(read, [round; 100]);
    }
    node.terminate();
}

#[test]
fn a_client_that_scribbles_over_its_memory_harms_nobody() {
    const LIVES: u64 = 30;
    let place = Place::new();
    let devices = ["--device", "r=ram:64MiB", "--device", "n=null:64MiB,read-delay=300us"];
    let volumes =
        ["--volume", "data=8MiB@r", "--volume", "spoiled=8MiB@r", "--volume", "slow=8MiB@n"];
    let node = start(&place, &[&devices[..], &volumes[..]].concat());
    let before = node.usage().files;
    assert_serves(&node);
    // First, because the log has only so many lines about one user.
    Scribbler::attach(&socket(&place), "spoiled").overfill();
    eventually("its rings are broken", || place.log().contains("the ring memory"));
    let mut honest = pair(&place, "data");
    let mut host = Host::connect(&node, "data");
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let scribblers: Vec<_> = ["spoiled", "spoiled", "slow"]
            .into_iter()
            .zip(1u64..)
            .map(|(volume, seed)| {
                let socket = socket(&place);
                scope.spawn(move || {
                    let mut dice = Dice::new(seed);
                    for _ in 0..LIVES {
                        Scribbler::attach(&socket, volume).live(400, &mut dice);
                    }
                })
            })
            .collect();
        let serving = scope.spawn(|| {
            let mut sequence = 0;
            while !over.load(Ordering::Relaxed) {
                sequence += 1;
                // The host writes to the first block.
                for lba in 1..20 {
                    assert_pair_works(&mut honest, Stamp { lba, sequence });
                }
                host.assert_works();
            }
            sequence
        });
        let ended: Vec<_> = scribblers.into_iter().map(|scribbler| scribbler.join()).collect();
        over.store(true, Ordering::Relaxed);
        assert!(serving.join().unwrap() > 0);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    drop((honest, host));
    eventually("memory of those who are gone is unmapped", || mapped(&node) == 0);
    eventually("their descriptors are closed", || node.usage().files <= before);
    assert_eq!(node.counted("in_flight"), 0);
    assert_serves(&node);
    node.terminate();
}

#[test]
fn a_killed_client_leaves_nothing_behind() {
    let place = Place::new();
    let device = "n=null:64MiB,read-delay=2ms,write-delay=3ms";
    let volumes = ["--volume", "data=8MiB@n"];
    let node = start(&place, &[&["--device", device], &volumes[..]].concat());
    // Before any client comes: connections that have just ended may linger, and would be counted.
    let before = node.usage().files;
    for _ in 0..5 {
        let reads = node.counted("reads");
        let url = format!("direct+local:{}/data", socket(&place).display());
        let mut client = Command::new(nearflash())
            .args(["bench", &url, "--rw", "randrw", "--iodepth", "64", "--runtime", "100s"])
            .args(["--time-based", "--floor-cores", "0,0"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually("the client is at work", || node.counted("reads") > reads + 100);
        assert!(mapped(&node) > 0);
        client.kill().unwrap();
        client.wait().unwrap();
        eventually("its memory is unmapped", || mapped(&node) == 0);
        eventually("its descriptors are closed", || node.usage().files <= before);
        eventually("its requests are over", || node.counted("in_flight") == 0);
    }
    node.terminate();
}

#[test]
fn a_killed_node_gives_buffers_back_that_it_no_longer_reaches() {
    let place = Place::new();
    let node = start(&place, &["--device", "r=ram:64MiB", "--volume", "data=8MiB@r"]);
    let mut pair = pair(&place, "data");
    assert_pair_works(&mut pair, Stamp { lba: 3, sequence: 1 });
    node.signal(Signal::STOP);
    eventually("the node stands still", || is_core_in(&node, 'T'));
    let mut written = pair.buffer(BLOCK_LEN).unwrap();
    written.fill(7);
    let reading = pair.buffer(BLOCK_LEN).unwrap();
    let (written, reading) =
        (pair.post_write_at(written, 0).unwrap(), pair.post_read_at(reading, 4096).unwrap());
    node.crash();
    let mut done = Vec::new();
    while pair.poll(&mut done).is_ok() {}
    let find = |token| done.iter().find(|done| done.token == token).unwrap();
    let (write, read) = (find(written), find(reading));
    assert!(matches!(write.result, Err(Error::Unknown(_))), "{write:?}");
    assert!(matches!(read.result, Err(Error::ConnectionLost(_))), "{read:?}");
    assert_eq!(write.buffer.as_deref(), Some(&[7; BLOCK_LEN][..]), "its bytes are the caller's");
    assert_eq!(read.buffer.as_ref().unwrap().len(), BLOCK_LEN);
}

#[test]
fn a_late_read_returns_a_buffer_that_the_node_does_not_write_to() {
    let place = Place::new();
    let node = start(&place, &["--device", "r=ram:64MiB", "--volume", "data=8MiB@r"]);
    let mut pair = pair(&place, "data");
    assert_pair_works(&mut pair, Stamp { lba: 1, sequence: 1 });
    node.signal(Signal::STOP);
    eventually("the node stands still", || is_core_in(&node, 'T'));
    let mut written = pair.buffer(BLOCK_LEN).unwrap();
    written.fill(7);
    let (reading, places) = (pair.buffer(BLOCK_LEN).unwrap(), vec![Buffer::new(BLOCK_LEN)]);
    let mut timed = pair.with_timeout(Duration::from_millis(50));
    timed.post_write_at(written, 0).unwrap();
    timed.post_read_at(reading, 4096).unwrap();
    timed.post_read_vectored_at(places, 4096).unwrap();
    drop(timed);
    let mut done = Vec::new();
    while pair.in_flight() > 0 {
        pair.wait(Duration::from_secs(60)).unwrap();
        pair.poll(&mut done).unwrap();
    }
    let [write, read, vectored] = done.try_into().unwrap();
    assert!(matches!(write.result, Err(Error::Unknown(Lost::TimedOut))), "{write:?}");
    for late in [&read, &vectored] {
        assert!(matches!(late.result, Err(Error::ConnectionLost(Lost::TimedOut))), "{late:?}");
    }
    assert_eq!(write.buffer.as_deref(), Some(&[7; BLOCK_LEN][..]), "its bytes are the caller's");
    let mut mine = read.buffer.unwrap();
    mine.fill(0xEE);
    node.signal(Signal::CONT);
    // When it returns, the operations have ended: the node has read into the old memory, or will
    // not.
    pair.reconnect().unwrap();
    assert_eq!(*mine, [0xEE; BLOCK_LEN]);
    assert_eq!(*vectored.buffers[0], [0; BLOCK_LEN]);
    assert_pair_works(&mut pair, Stamp { lba: 1, sequence: 2 });
    node.terminate();
}

/// Runs the calling thread on these processors.
fn pin(processors: &[usize]) {
    let mut set = CpuSet::new();
    processors.iter().for_each(|it| set.set(*it));
    rustix::thread::sched_setaffinity(None, &set).unwrap();
}

/// How often the node's core has given way to a client on its processor.
fn gave_way(node: &Node<'_>) -> u64 {
    let metrics = node.command(&["metrics"]);
    let samples = metrics["text"].as_str().unwrap().lines();
    let mut samples = samples.filter_map(|it| it.strip_prefix("nearflash_core_gave_way_total{"));
    samples.next().unwrap().rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_core_gives_way_to_a_client_on_its_processor_and_to_no_other() {
    let place = Place::new();
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let processors = (0..CpuSet::MAX_CPU).filter(|it| allowed.is_set(*it));
    let [core, others @ ..] = &*processors.collect::<Vec<_>>() else { panic!("there is one") };
    let node = start(
        &place,
        &["--device", "r=ram:64MiB", "--volume", "data=8MiB@r", "--cores", &core.to_string()],
    );
    if !others.is_empty() {
        pin(others);
        let mut pair = pair(&place, "data");
        (0..100).for_each(|lba| assert_pair_works(&mut pair, Stamp { lba, sequence: 1 }));
        assert!(!pair.shares_processor());
        assert_eq!(gave_way(&node), 0);
    }
    pin(&[*core]);
    let mut pair = pair(&place, "data");
    (0..100).for_each(|lba| assert_pair_works(&mut pair, Stamp { lba, sequence: 2 }));
    assert!(pair.shares_processor());
    eventually("the core has given way", || gave_way(&node) > 0);
}
