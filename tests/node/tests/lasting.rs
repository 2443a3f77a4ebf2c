//! State that a node keeps: volumes and data over a restart, every acknowledged write over a crash,
//! and answers to hosts when it is terminated.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use nearflash::nvme_tcp::{Io, QueuePair, Status};
use nearflash_node_tests::{Admin, Host, Node, Pdu, Place, Stamp, eventually, numbered, two_cores};
use nearflash_nvme::log::{GetLogPage, HealthInformation, LogId};
use nearflash_nvme::{Command, NamespaceId};
use nearflash_units::{Blocks, ByteLen, Lba, Nanos};
use rustix::process::Signal;
use zerocopy::FromBytes;

#[test]
fn volumes_and_their_data_are_there_after_a_restart() {
    let place = Place::new();
    let device = place.flash("64MiB");
    let volumes = ["--volume", "data=8MiB@flash", "--volume", "small=1MiB@flash,block-size=512"];
    let flags = [&["--device", &device][..], &volumes].concat();
    let node = Node::start(&place, &flags);
    let made = node.command(&["volume", "create", "made=2MiB@flash"]);
    let listed = node.command(&["volume", "list"]);
    let list = listed["volumes"].as_array().unwrap();
    assert_eq!(list.len(), 3);
    assert!(list.contains(&made["volume"]));
    let names = ["data", "small", "made"];
    for (sequence, name) in (1..).zip(names) {
        let mut host = Host::connect(&node, name);
        let last = host.namespace.blocks.0 - 1;
        for lba in [0, 1, last / 2, last] {
            assert_eq!(host.write_stamp(Stamp { lba, sequence }), Status::SUCCESS);
        }
    }
    node.terminate();
    // The device's size and the volumes are recorded by now.
    let device = format!("flash=file:{}", place.text("flash.img"));
    let node = Node::start(&place, &["--device", &device]);
    // Name, size, block size, UUID, device, NQN and number are unchanged.
    assert_eq!(node.command(&["volume", "list"]), listed);
    for (sequence, name) in (1..).zip(names) {
        let mut host = Host::connect(&node, name);
        let last = host.namespace.blocks.0 - 1;
        for lba in [0, 1, last / 2, last] {
            assert_eq!(host.read_stamp(lba), Some(Stamp { lba, sequence }), "{name}");
        }
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

/// Writes until the connection is lost.
fn write_on(host: &mut Host, known: &mut HashMap<u64, Known>, acknowledged: &AtomicU64) {
    let namespace = host.namespace;
    let pair = &mut host.queues[0];
    let buffers: Vec<_> = (0..DEPTH).map(|_| pair.take_buffer(ByteLen(4096)).unwrap()).collect();
    let mut free: Vec<u64> = (0..DEPTH).collect();
    let mut turn = 0;
    let mut done = Vec::new();
    loop {
        while let Some(slot) = free.pop() {
            // Each slot has its own blocks.
            let lba = (turn * 7 % (BLOCKS / DEPTH)) * DEPTH + slot;
            turn += 1;
            let block = known.entry(lba).or_default();
            block.sent += 1;
            let buffer = buffers[usize::try_from(slot).unwrap()];
            Stamp { lba, sequence: block.sent }.fill(&mut pair.bytes_mut(buffer)[..4096]);
            let (start, count) = (Lba(lba), Blocks(1));
            let io = Io::Write { start, count, buffer, force_unit_access: turn % 16 == 0 };
            if pair.submit(lba, &namespace, io).is_err() {
                return;
            }
        }
        let polled = pair.poll(&mut done);
        for completion in done.drain(..) {
            assert_eq!(completion.status, Status::SUCCESS);
            let block = known.get_mut(&completion.token).unwrap();
            block.acknowledged = block.sent;
            free.push(completion.token % DEPTH);
            acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        match polled {
            Ok(true) => {}
            Ok(false) => {
                let pair = std::slice::from_ref(pair);
                QueuePair::wait_any(pair, Nanos::from_secs(1)).unwrap();
            }
            Err(_) => return,
        }
    }
}

#[test]
fn every_acknowledged_write_is_there_after_a_crash() {
    let place = Place::new();
    let device = place.flash("64MiB");
    let flags = ["--device", &device, "--volume", "data=8MiB@flash"];
    let mut known: HashMap<u64, Known> = HashMap::new();
    for round in 1..=5 {
        let node = Node::start(&place, &flags);
        let mut host = Host::connect(&node, "data");
        // Checks the result of the earlier rounds first.
        for (lba, block) in &mut known {
            let found = host.read_stamp(*lba).map(|stamp| (stamp.lba, stamp.sequence));
            let Some((found_at, sequence)) = found else {
                assert_eq!(block.acknowledged, 0, "round {round}: block {lba} is not whole");
                continue;
            };
            assert_eq!(found_at, *lba, "round {round}: a block is where another belongs");
            let possible = block.acknowledged..=block.sent;
            assert!(possible.contains(&sequence), "round {round}: {sequence} of {block:?}");
            // The block keeps this write.
            *block = Known { acknowledged: sequence, sent: block.sent };
        }
        let acknowledged = AtomicU64::new(0);
        let target = 300 * round;
        std::thread::scope(|scope| {
            scope.spawn(|| write_on(&mut host, &mut known, &acknowledged));
            eventually("writes are acknowledged", || {
                acknowledged.load(Ordering::Relaxed) >= target
            });
            node.crash();
        });
    }
    assert!(known.values().any(|block| block.acknowledged > 1));
}

#[test]
fn sigterm_answers_what_is_in_flight_and_ends_well() {
    // A node that stands still ends the connections of hosts, so a run on a machine that is overloaded says nothing.
    let runs = (0..5).map(|_| answers_after_sigterm());
    let answered = runs.flatten().next().expect("a node does not stand still");
    assert_eq!(answered, 32, "every command was answered before the end");
}

/// The number of answers to 32 reads that are in flight when the node is asked to end. `None` if the node stood still.
fn answers_after_sigterm() -> Option<usize> {
    let place = Place::new();
    let flags = ["--device", "slow=null:16MiB,read-delay=700ms", "--volume", "data=8MiB@slow"];
    let node = Node::start(&place, &flags);
    let admin = Admin::join(&node, "data");
    let mut io = admin.io(1, 64);
    for cid in 0..32 {
        io.submit(&numbered(Command::read(NamespaceId(1), Lba(0), 0, 4096), cid), &[]);
    }
    // Once a later command is answered, the node has accepted the reads, too.
    io.submit(&numbered(Command::flush(NamespaceId(1)), 99), &[]);
    assert_eq!(io.response().cid.get(), 99);
    let address = node.address();
    node.signal(Signal::TERM);
    let mut answered = 0;
    loop {
        match io.receive() {
            Pdu::Data { success, .. } => answered += usize::from(success),
            Pdu::Response(entry) => {
                assert!(entry.status().is_success(), "{}", entry.status());
                answered += 1;
            }
            Pdu::Closed => break,
            other => panic!("{other:?}"),
        }
    }
    drop((io, admin));
    node.await_end();
    assert!(std::net::TcpStream::connect(address).is_err(), "nobody listens any more");
    let log = place.log();
    assert!(log.contains("drained"), "{log}");
    (!log.contains("stood still")).then_some(answered)
}

#[test]
fn sigterm_in_the_middle_of_writes_loses_none_of_them() {
    let place = Place::new();
    let device = place.flash("64MiB");
    let flags = ["--device", &device, "--volume", "data=8MiB@flash"];
    let node = Node::start(&place, &flags);
    let mut host = Host::connect(&node, "data");
    let mut known = HashMap::new();
    let acknowledged = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| write_on(&mut host, &mut known, &acknowledged));
        eventually("writes are acknowledged", || acknowledged.load(Ordering::Relaxed) >= 200);
        node.terminate();
    });
    let node = Node::start(&place, &flags);
    let mut host = Host::connect(&node, "data");
    for (lba, block) in known.into_iter().filter(|(_, block)| block.acknowledged > 0) {
        let stamp = host.read_stamp(lba).expect("an acknowledged block is whole");
        assert!((block.acknowledged..=block.sent).contains(&stamp.sequence), "{block:?}");
    }
}

#[test]
fn a_second_sigterm_ends_a_node_whose_device_does_not_answer() {
    let place = Place::new();
    let flags = ["--device", "stuck=null:16MiB,read-delay=60s", "--volume", "data=8MiB@stuck"];
    let node = Node::start(&place, &flags);
    let admin = Admin::join(&node, "data");
    let mut io = admin.io(1, 8);
    io.submit(&numbered(Command::read(NamespaceId(1), Lba(0), 0, 4096), 1), &[]);
    io.submit(&numbered(Command::flush(NamespaceId(1)), 2), &[]);
    assert_eq!(io.response().cid.get(), 2);
    node.signal(Signal::TERM);
    eventually("it drains", || place.log().contains("draining"));
    node.signal(Signal::TERM);
    assert_eq!(node.end(), Some(1));
}

#[test]
fn hosts_that_stay_connected_do_not_keep_a_node_from_ending() {
    let place = Place::new();
    let node = Node::in_memory(&place);
    let host = Host::connect(&node, "data");
    let admin = Admin::join(&node, "data");
    let silent = std::net::TcpStream::connect(node.address()).unwrap();
    node.terminate();
    drop((host, admin, silent));
}

/// The health log of the only namespace of `data`, and that of its controller.
fn health(node: &Node<'_>) -> [HealthInformation; 2] {
    let mut admin = Admin::join(node, "data");
    [NamespaceId(1), NamespaceId::ALL].map(|nsid| {
        let page = GetLogPage::new(LogId::HEALTH, 512).to_command(nsid);
        let (status, bytes) = admin.wire.read(&page);
        assert_eq!(status, Status::SUCCESS);
        HealthInformation::read_from_bytes(&bytes).unwrap()
    })
}

#[test]
fn health_logs_count_reads_writes_and_starts_over_restarts() {
    let place = Place::new();
    let flags = ["--device", &place.flash("64MiB"), "--volume", "data=8MiB@flash"];
    let cores = two_cores();
    let cores = cores.as_deref().map_or(vec![], |cores| vec!["--cores", cores]);
    let flags = [&flags[..], &cores].concat();
    let used = |it: &HealthInformation| {
        let units = [it.data_units_read.get(), it.data_units_written.get()];
        (units, [it.host_reads.get(), it.host_writes.get()])
    };
    let lived = |it: &HealthInformation| [it.power_cycles.get(), it.unsafe_shutdowns.get()];

    let node = Node::start(&place, &flags);
    assert_eq!(health(&node).map(|it| (used(&it), lived(&it))), [(([0, 0], [0, 0]), [1, 0]); 2]);
    let mut host = Host::connect(&node, "data");
    for lba in 0..126 {
        assert_eq!(host.write(lba, &[1; 4096]), Status::SUCCESS);
    }
    assert_eq!(host.read(0, 32).0, Status::SUCCESS);
    // 516096 bytes written, 131072 read.
    let expected = ([1, 2], [1, 126]);
    assert_eq!(health(&node).map(|it| (used(&it), lived(&it))), [(expected, [1, 0]); 2]);
    drop(host);
    node.terminate();

    let node = Node::start(&place, &flags);
    assert_eq!(health(&node).map(|it| (used(&it), lived(&it))), [(expected, [2, 0]); 2]);
    node.crash();
    let node = Node::start(&place, &flags);
    assert_eq!(health(&node).map(|it| (used(&it), lived(&it))), [(expected, [3, 1]); 2]);
}
