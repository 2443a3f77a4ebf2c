//! Several queues, several cores, several hosts: no block is torn, no increment is lost, no event
//! is missed.
#![allow(clippy::unwrap_used)] // a failed test says where

use nearflash::nvme_tcp::{Io, QueuePair, Status};
use nearflash_node_tests::{
    Admin, Host, Node, Place, Stamp, Wire, assert_serves, connect_command, eventually, numbered,
    two_cores,
};
use nearflash_nvme::fabrics::PropertyAccess;
use nearflash_nvme::log::{GetLogPage, LogId};
use nearflash_nvme::property::{Configuration, offset};
use nearflash_nvme::{AsyncEvent, Command, Fused, NamespaceId};
use nearflash_nvme_tcp::Digests;
use nearflash_units::{Blocks, ByteLen, Lba, Nanos};

const NSID: NamespaceId = NamespaceId(1);

/// A node on two cores, if the machine has two.
fn node_on_two_cores<'a>(place: &'a Place, device: &str) -> Node<'a> {
    let volume = format!("data=8MiB@{}", device.split('=').next().unwrap());
    let cores = two_cores();
    let cores = cores.as_deref().map_or(vec![], |cores| vec!["--cores", cores]);
    Node::start(place, &[&["--device", device, "--volume", &volume][..], &cores].concat())
}

/// SPDK's perf tool, for example, ends its I/O queues before it reads CC and shuts the controller down.
#[test]
fn an_admin_queue_answers_after_its_io_queues_have_ended_in_any_way() {
    let place = Place::new();
    let node = node_on_two_cores(&place, "r=ram:16MiB");
    let mut admin = Admin::join(&node, "data");
    let get = |offset| Command::property_get(offset, PropertyAccess::SIZE_4);
    for first in [1, 5, 9] {
        let mut queues: Vec<Wire> = (first..first + 4).map(|queue| admin.io(queue, 8)).collect();
        for io in &mut queues {
            let read = Command::read(NSID, Lba(0), 0, 4096);
            match first {
                1 => assert!(io.run(&Command::disconnect()).status().is_success()),
                5 => assert!(io.read(&read).0.is_success()),
                // The answer is not read: the connection is reset.
                _ => io.submit(&read, &[]),
            }
        }
        drop(queues);
        let entry = admin.wire.run(&get(offset::CONFIGURATION));
        assert!(entry.status().is_success(), "{}", entry.status());
        assert_eq!(entry.dw0.get() & 1, 1, "CC.EN");
    }
    let shut_down = Configuration::ENABLE.0 | 1 << 14;
    let set = Command::property_set(offset::CONFIGURATION, shut_down);
    assert!(admin.wire.run(&set).status().is_success());
    let status = admin.wire.run(&get(offset::STATUS)).dw0.get();
    assert_eq!(status & 0b1100, 0b1000, "CSTS.SHST: shutdown complete");
}

/// Writes and reads a connection's own blocks in turn, eight at a time, and checks all data.
fn write_and_read(pair: &mut QueuePair, namespace: &nearflash::nvme_tcp::Namespace, first: u64) {
    const BLOCKS: u64 = 64;
    const AT_ONCE: u64 = 8;
    let buffers: Vec<_> = (0..AT_ONCE).map(|_| pair.take_buffer(ByteLen(4096)).unwrap()).collect();
    let round_trip = |make: &dyn Fn(u64, nearflash::nvme_tcp::BufferId) -> Io,
                      lbas: std::ops::Range<u64>,
                      pair: &mut QueuePair| {
        for (lba, buffer) in lbas.clone().zip(&buffers) {
            pair.submit(lba, namespace, make(lba, *buffer)).unwrap();
        }
        let mut done = Vec::new();
        while u64::try_from(done.len()).unwrap() < lbas.end - lbas.start {
            if !pair.poll(&mut done).unwrap() {
                QueuePair::wait_any(std::slice::from_ref(pair), Nanos::from_secs(1)).unwrap();
            }
        }
        assert!(done.iter().all(|done| done.status == Status::SUCCESS));
    };
    for sequence in 1..=12 {
        for start in (first..first + BLOCKS).step_by(8) {
            let lbas = start..start + AT_ONCE;
            for (lba, buffer) in lbas.clone().zip(&buffers) {
                Stamp { lba, sequence }.fill(&mut pair.bytes_mut(*buffer)[..4096]);
            }
            let write = |lba, buffer| Io::Write {
                start: Lba(lba),
                count: Blocks(1),
                buffer,
                force_unit_access: false,
            };
            round_trip(&write, lbas.clone(), pair);
            for buffer in &buffers {
                pair.bytes_mut(*buffer).fill(0xA5);
            }
            let read = |lba, buffer| Io::Read { start: Lba(lba), count: Blocks(1), buffer };
            round_trip(&read, lbas.clone(), pair);
            for (lba, buffer) in lbas.zip(&buffers) {
                let stamp = Stamp::of(&pair.bytes(*buffer)[..4096]);
                assert_eq!(stamp, Some(Stamp { lba, sequence }));
            }
        }
    }
}

#[test]
fn several_queues_on_two_cores_write_and_read_their_own_blocks() {
    let place = Place::new();
    let device = place.flash("64MiB");
    let node = node_on_two_cores(&place, &device);
    let hosts = [Digests::NONE, Digests::BOTH].map(|d| Host::connect_with(&node, "data", 4, d));
    std::thread::scope(|scope| {
        let mut firsts = (0..).step_by(64);
        for host in hosts {
            let Host { controller, namespace, queues } = host;
            let queues = queues.into_iter().zip(firsts.by_ref()).collect::<Vec<_>>();
            scope.spawn(move || {
                // The queues live as long as their controller.
                let _controller = &controller;
                std::thread::scope(|scope| {
                    for (mut pair, first) in queues {
                        scope.spawn(move || write_and_read(&mut pair, &namespace, first));
                    }
                });
            });
        }
    });
    let status = node.command(&["status"]);
    let cores = status["cores"].as_array().unwrap();
    assert!(cores.iter().all(|core| core["reads"].as_u64().unwrap() > 0), "{cores:?}");
    assert_eq!(node.counted("errors"), 0);
}

/// Sends a fused compare-and-write, and waits for both answers.
fn compare_and_write(io: &mut Wire, lba: u64, old: &[u8], new: &[u8]) -> (Status, Status) {
    let compare = Command::compare(NSID, Lba(lba), 0, 4096).with_fused(Fused::First);
    let write = Command::write(NSID, Lba(lba), 0, 4096).with_fused(Fused::Second);
    let mut both = io.capsule(&numbered(compare.with_capsule_data(4096), 1), old);
    both.extend(io.capsule(&numbered(write.with_capsule_data(4096), 2), new));
    io.send(&both);
    let answers = [io.response(), io.response()];
    let status_of = |cid| {
        let answer = answers.iter().find(|entry| entry.cid.get() == cid);
        answer.expect("each is answered").status()
    };
    (status_of(1), status_of(2))
}

#[test]
fn compare_and_write_of_two_hosts_on_two_cores_counts_exactly() {
    const INCREMENTS: u64 = 200;
    let place = Place::new();
    let device = place.flash("64MiB");
    let node = node_on_two_cores(&place, &device);
    let count = |io: &mut Wire| {
        let mut done = 0;
        while done < INCREMENTS {
            let (status, old) = io.read(&Command::read(NSID, Lba(3), 0, 4096));
            assert_eq!(status, Status::SUCCESS);
            let mut new = old.clone();
            let value = u64::from_le_bytes(old[..8].try_into().unwrap()) + 1;
            new[..8].copy_from_slice(&value.to_le_bytes());
            match compare_and_write(io, 3, &old, &new) {
                (Status::SUCCESS, Status::SUCCESS) => done += 1,
                (compared, written) => {
                    assert_eq!(compared.code(), Status::COMPARE_FAILURE);
                    assert_eq!(written.code(), Status::ABORTED_FUSED_FAILED);
                }
            }
        }
    };
    // The controllers have different identifiers, and so begin at different cores.
    let admins = [Admin::join(&node, "data"), Admin::join(&node, "data")];
    let mut queues = admins.each_ref().map(|admin| admin.io(1, 8));
    std::thread::scope(|scope| {
        for io in &mut queues {
            scope.spawn(|| count(io));
        }
    });
    let (status, block) = queues[0].read(&Command::read(NSID, Lba(3), 0, 4096));
    assert_eq!(status, Status::SUCCESS);
    assert_eq!(u64::from_le_bytes(block[..8].try_into().unwrap()), 2 * INCREMENTS);
}

#[test]
fn a_resize_is_told_to_connected_hosts_and_seen_by_their_io() {
    let place = Place::new();
    let node = node_on_two_cores(&place, "r=ram:32MiB");
    let mut admin = Admin::join(&node, "data");
    let mut queues = [admin.io(1, 8), admin.io(2, 8)];
    admin.wire.submit(&numbered(Command::async_event_request(), 9), &[]);
    let beyond = Command::read(NSID, Lba(2048), 0, 4096);
    for io in &mut queues {
        assert_eq!(io.run(&beyond).status(), Status::LBA_OUT_OF_RANGE.dnr());
    }
    node.command(&["volume", "resize", "data", "16MiB"]);
    let event = admin.wire.response();
    assert_eq!(event.cid.get(), 9);
    assert_eq!(AsyncEvent::from_result(event.dw0.get()), AsyncEvent::NAMESPACE_CHANGED);
    let page = GetLogPage::new(LogId::CHANGED_NAMESPACES, 4096).to_command(NamespaceId::ALL);
    let (status, list) = admin.wire.read(&page);
    assert_eq!((status, &list[..8]), (Status::SUCCESS, &[1, 0, 0, 0, 0, 0, 0, 0][..]));
    for io in &mut queues {
        let mut status = Status::LBA_OUT_OF_RANGE;
        // The other core adopts the change in a later turn.
        eventually("the new blocks are there", || {
            status = io.read(&beyond).0;
            status == Status::SUCCESS
        });
    }
    assert_eq!(Host::connect(&node, "data").namespace.blocks, Blocks(4096));

    // The same applies to a new volume in this subsystem.
    admin.wire.submit(&numbered(Command::async_event_request(), 10), &[]);
    node.command(&["volume", "create", "more=1MiB@r,subsystem=data"]);
    let event = admin.wire.response();
    assert_eq!(AsyncEvent::from_result(event.dw0.get()), AsyncEvent::NAMESPACE_CHANGED);
    let (status, list) = admin.wire.read(&page);
    assert_eq!((status, &list[..8]), (Status::SUCCESS, &[2, 0, 0, 0, 0, 0, 0, 0][..]));
}

#[test]
fn a_volume_that_is_removed_by_force_ends_its_hosts_and_nobody_else() {
    let place = Place::new();
    let node = node_on_two_cores(&place, "r=ram:32MiB");
    node.command(&["volume", "create", "gone=8MiB@r"]);
    let mut bystander = Host::connect(&node, "data");
    let mut admin = Admin::join(&node, "gone");
    let mut queues = [admin.io(1, 8), admin.io(2, 8)];
    let written = Command::write(NSID, Lba(0), 0, 4096).with_capsule_data(4096);
    for io in &mut queues {
        assert_eq!(io.run_with(&written, &[7; 4096]), Status::SUCCESS);
    }
    node.command(&["volume", "remove", "gone", "--force"]);
    admin.wire.closed();
    queues.iter_mut().for_each(Wire::closed);
    bystander.assert_works();
    // A volume that reuses the space shows none of the old data.
    node.command(&["volume", "create", "next=8MiB@r"]);
    let mut next = Host::connect(&node, "next");
    assert_eq!(next.read(0, 1), (Status::SUCCESS, vec![0; 4096]));
}

#[test]
fn a_host_that_is_not_heard_of_loses_its_controller() {
    let place = Place::new();
    let node = node_on_two_cores(&place, "r=ram:32MiB");
    let mut connect = connect_command(0, 32);
    connect.keep_alive_ms = 1000;
    let mut admin = Admin::join_with(&node, "data", connect, Digests::NONE);
    let mut queues = [admin.io(1, 8), admin.io(2, 8)];
    assert!(admin.wire.run(&Command::keep_alive()).status().is_success());
    // No further keep-alive is sent.
    admin.wire.closed();
    queues.iter_mut().for_each(Wire::closed);
    eventually("the log says so", || place.log().contains("host disconnected: "));
    eventually("its controller is gone", || {
        node.command(&["status"])["hosts"].as_array().is_some_and(Vec::is_empty)
    });
    assert_serves(&node);
}

#[test]
fn a_host_without_a_name_or_an_identifier_is_served_and_called_unnamed() {
    let place = Place::new();
    let node = node_on_two_cores(&place, "r=ram:32MiB");
    let admin = Admin::join_unnamed(&node, "data");
    for queue in [1, 2] {
        let mut io = admin.io(queue, 8);
        let write = Command::write(NSID, Lba(0), 0, 4096).with_capsule_data(4096);
        let write = numbered(write, queue);
        assert_eq!(io.run_with(&write, &[7; 4096]), Status::SUCCESS);
    }
    assert_eq!(node.command(&["status"])["hosts"][0]["host"], "unnamed");
    eventually("the log names the host so", || place.log().contains("unnamed"));
}
