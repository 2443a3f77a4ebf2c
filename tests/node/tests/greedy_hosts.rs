//! Hosts with excessive demands: they do not read answers, do not send announced data, or open too
//! many connections. No other host notices, and the node's memory and files stay bounded.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use nearflash_node_tests::{
    Admin, Host, Node, Pdu, Place, Wire, assert_serves, connect_command, eventually, numbered,
};
use nearflash_nvme::{Command, NamespaceId};
use nearflash_nvme_tcp::Digests;
use nearflash_nvme_tcp::pdu::{DataIds, InitPdu};
use nearflash_units::Lba;
use rustix::process::Resource;
use socket2::SockRef;
use zerocopy::IntoBytes;

const NSID: NamespaceId = NamespaceId(1);
const MIB: u64 = 1 << 20;

/// A read of the largest length of one command.
fn long_read() -> Command {
    Command::read(NSID, Lba(0), 255, 256 * 4096)
}

#[test]
fn a_host_that_stops_reading_is_throttled_and_others_make_progress() {
    let place = Place::new();
    let node = Node::in_memory(&place);
    let mut other = Host::connect(&node, "data");
    other.assert_works();
    let before = node.usage().resident_bytes;
    let admin = Admin::join(&node, "data");
    // Four queues request 512 MiB and read none of it.
    let mut greedy: Vec<Wire> = (1..=4).map(|queue| admin.io(queue, 128)).collect();
    for io in &mut greedy {
        (0..128).for_each(|cid| io.submit(&numbered(long_read(), cid), &[]));
    }
    for _ in 0..50 {
        other.assert_works();
        let grown = node.usage().resident_bytes.saturating_sub(before);
        // The pool has 32 MiB, all of which is resident now.
        assert!(grown < 64 * MIB, "{grown} bytes more for hosts that do not read");
    }
    assert_serves(&node);
    // A host that resumes reading gets everything.
    let mut answered = 0;
    while answered < 128 {
        match greedy[0].receive() {
            Pdu::Data { success, .. } => answered += usize::from(success),
            Pdu::Response(entry) => {
                assert!(entry.status().is_success());
                answered += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    drop(greedy);
    eventually("the pool is whole again", || node.counted("pool_free_bytes") >= 31 * MIB);
}

#[test]
fn a_host_that_does_not_send_the_data_it_promised_leaves_room_for_others() {
    let place = Place::new();
    let node = Node::in_memory(&place);
    let admin = Admin::join(&node, "data");
    let mut greedy: Vec<Wire> = (1..=4).map(|queue| admin.io(queue, 128)).collect();
    for io in &mut greedy {
        // Each is assigned a buffer of 1 MiB before it is asked for its data.
        let write = Command::write(NSID, Lba(0), 255, 256 * 4096);
        (0..128).for_each(|cid| io.submit(&numbered(write, cid), &[]));
        io.r2t();
    }
    let mut other = Host::connect(&node, "data");
    (0..20).for_each(|_| other.assert_works());
    drop(greedy);
    eventually("the pool is whole again", || node.counted("pool_free_bytes") >= 31 * MIB);
}

/// Completes two writes: one of 1 MiB, whose data is sent after its R2T, and one without R2T.
fn give_data_and_await_answers(io: &mut Wire) {
    let mut answered = 0;
    while answered < 2 {
        match io.receive() {
            Pdu::R2t(r2t) => {
                let (command_id, transfer_tag) = (r2t.command_id.get(), r2t.transfer_tag.get());
                let data = io.data(DataIds { command_id, transfer_tag }, 0, &[9; 1 << 20], true);
                io.send(&data);
            }
            Pdu::Response(entry) => {
                assert!(entry.status().is_success());
                answered += 1;
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Each connection's buffer waits for data that follows a small write, and the small write waits
/// for a buffer: as many connections as there are buffers would deadlock.
#[test]
fn buffers_that_wait_for_data_leave_one_for_the_small_write_in_front_of_it() {
    let place = Place::new();
    let flags = ["--device", "r=ram:16MiB", "--volume", "data=8MiB@r", "--pool", "4MiB"];
    let node = Node::start(&place, &flags);
    let admin = Admin::join(&node, "data");
    let long = numbered(Command::write(NSID, Lba(0), 255, 256 * 4096), 1);
    let small = Command::write(NSID, Lba(512), 0, 4096).with_capsule_data(4096);
    let small = numbered(small, 2);
    let mut connections: Vec<Wire> = (1..=8).map(|queue| admin.io(queue, 8)).collect();
    for io in &mut connections {
        io.submit(&long, &[]);
    }
    // The long writes take their buffers before any small write comes.
    eventually("no long write can have a buffer", || node.counted("pool_free_bytes") < 2 * MIB);
    for io in &mut connections {
        io.submit(&small, &[7; 4096]);
    }
    std::thread::scope(|scope| {
        for io in &mut connections {
            scope.spawn(|| give_data_and_await_answers(io));
        }
    });
    assert_serves(&node);
}

#[test]
fn a_host_that_says_nothing_is_let_go() {
    let place = Place::new();
    let volume = ["--device", "r=ram:16MiB", "--volume", "data=8MiB@r"];
    let node = Node::start(&place, &[&volume[..], &["--login-timeout", "1s"]].concat());
    let request = InitPdu::request(Default::default(), Default::default(), 0);
    let silent = Wire::open(node.address());
    let mut halting = Wire::open(node.address());
    halting.send(&request.as_bytes()[..50]);
    let agreed = Wire::agree(node.address(), Digests::NONE);
    let mut promising = Wire::agree(node.address(), Digests::NONE);
    // A Connect command whose data does not come.
    let connect = promising.capsule(&connect_command(0, 32).to_command(), &[0; 1024]);
    promising.send(&connect[..80]);
    let waiting = Instant::now();
    for mut wire in [silent, halting, agreed, promising] {
        wire.closed();
    }
    // Less than the default time-out.
    assert!(waiting.elapsed() < Duration::from_secs(10));
    eventually("the log says why", || {
        place.log().contains("the host did not connect a queue in time")
    });
    assert_serves(&node);
}

#[test]
fn a_host_that_stalls_is_let_go() {
    let place = Place::new();
    let volume = ["--device", "r=ram:16MiB", "--volume", "data=8MiB@r"];
    let node = Node::start(&place, &[&volume[..], &["--stall-timeout", "1s"]].concat());
    let idle = Admin::join(&node, "data");
    let admin = Admin::join(&node, "data");
    let mut promising = admin.io(1, 32);
    promising.submit(&numbered(Command::write(NSID, Lba(0), 255, 256 * 4096), 1), &[]);
    promising.r2t();
    let waiting = Instant::now();
    // The data of the write does not come.
    promising.closed();
    // Less than the default time-out.
    assert!(waiting.elapsed() < Duration::from_secs(20));
    eventually("the log says why", || {
        place.log().contains("the host neither reads answers nor sends the data it announced")
    });
    // A host that owes nothing may be silent.
    idle.io(1, 32);
    assert_serves(&node);
}

/// A connection that leaves no socket behind on this side, so that ten thousand of them fit.
fn connect_and_forget(node: &Node<'_>, says: &[u8]) {
    let mut stream = TcpStream::connect(node.address()).unwrap();
    SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    if !says.is_empty() {
        std::io::Write::write_all(&mut stream, says).unwrap();
        stream.read_exact(&mut vec![0; says.len()]).unwrap();
    }
}

#[test]
fn ten_thousand_connections_in_a_row_leave_nothing_behind() {
    let place = Place::new();
    let node = Node::in_memory(&place);
    let request = InitPdu::request(Default::default(), Default::default(), 0);
    let mut bystander = Host::connect(&node, "data");
    // The first hundred are not counted, since some resources are allocated once.
    for _ in 0..100 {
        connect_and_forget(&node, request.as_bytes());
    }
    assert_serves(&node);
    let calm = || node.counted("connections") == 2;
    eventually("the first are gone", calm);
    let before = node.usage();
    for number in 0..10_000 {
        match number % 100 {
            0 => drop(Admin::join(&node, "data")),
            1..50 => connect_and_forget(&node, &[]),
            _ => connect_and_forget(&node, request.as_bytes()),
        }
    }
    bystander.assert_works();
    eventually("all are gone", calm);
    // The connection of the last control request may not be closed yet.
    eventually("no file is left open", || node.usage().files <= before.files);
    let after = node.usage();
    let grown = after.resident_bytes.saturating_sub(before.resident_bytes);
    assert!(grown < 2 * MIB, "{grown} bytes more after 10,000 connections");
    assert_serves(&node);
}

#[test]
fn a_full_file_table_turns_newcomers_away_and_nobody_else() {
    let place = Place::new();
    let node = Node::in_memory(&place);
    let mut host = Host::connect(&node, "data");
    let files = u64::try_from(node.usage().files).unwrap();
    node.limit(Resource::Nofile, files + 8);
    let crowd: Vec<TcpStream> =
        (0..64).map(|_| TcpStream::connect(node.address()).unwrap()).collect();
    eventually("the log says so", || place.log().contains("cannot accept a connection"));
    host.assert_works();
    drop(crowd);
    node.limit(Resource::Nofile, files + 100);
    assert_serves(&node);
}

#[test]
fn hosts_that_vanish_in_the_middle_of_io_leave_nothing_behind() {
    let place = Place::new();
    let device = place.flash("64MiB");
    let node = Node::start(&place, &["--device", &device, "--volume", "data=8MiB@flash"]);
    let mut bystander = Host::connect(&node, "data");
    bystander.assert_works();
    let calm = || node.counted("connections") == 2;
    let before = node.usage();
    for round in 0..100u16 {
        let admin = Admin::join(&node, "data");
        let mut io = admin.io(1, 64);
        let mut bytes = Vec::new();
        for cid in 0..60 {
            let lba = Lba(u64::from(cid) * 16 + 16);
            let command = match cid % 4 {
                0 => Command::read(NSID, lba, 15, 16 * 4096),
                1 => Command::flush(NSID),
                // The data of this write is never sent.
                2 => Command::write(NSID, lba, 15, 16 * 4096),
                _ => {
                    let write = Command::write(NSID, lba, 0, 4096).with_capsule_data(4096);
                    bytes.extend(io.capsule(&numbered(write, cid), &[7; 4096]));
                    continue;
                }
            };
            bytes.extend(io.capsule(&numbered(command, cid), &[]));
        }
        // The cut is in the middle of a capsule, too.
        bytes.truncate(bytes.len() - usize::from(round) * 41);
        io.send(&bytes);
        if round % 2 == 0 {
            SockRef::from(io.stream()).set_linger(Some(Duration::ZERO)).unwrap();
        }
        let (first, second) = if round % 3 == 0 { (Some(io), admin) } else { (None, admin) };
        drop(second);
        drop(first);
    }
    bystander.assert_works();
    eventually("all are gone", calm);
    eventually("nothing is in flight", || node.counted("in_flight") == 0);
    eventually("the pool is whole again", || node.counted("pool_free_bytes") >= 31 * MIB);
    // The connection of the last control request may not be closed yet.
    eventually("no file is left open", || node.usage().files <= before.files);
    assert_serves(&node);
}
