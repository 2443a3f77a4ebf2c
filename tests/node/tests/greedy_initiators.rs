//! Initiators with excessive demands, or that stop half-way: others make progress, and no resources
//! remain. Also sessions with several connections, concurrent changes, and a medium that does not
//! keep written data.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::thread;

use nearflash_iscsi::initiator::cdb::{self, Cdb};
use nearflash_iscsi::initiator::{CommandData, Ending, Status};
use nearflash_node_tests::{Host, Initiator, Node, Place, Who, assert_serves_iscsi, eventually};

const DEVICE: [&str; 4] = ["--device", "r=ram:64MiB", "--volume", "data=32MiB@r"];
const MIB: usize = 1 << 20;
/// The number of 4 KiB blocks in 1 MiB.
const BLOCKS_PER_MIB: u32 = 256;
const SECRET: &str = "sixteen-letters!";

/// PERSISTENT RESERVE OUT, REGISTER AND IGNORE EXISTING KEY. SPC-4, 6.16.
const REGISTER_ANYWAY: u8 = 6;

fn login(node: &Node<'_>, name: &str) -> Initiator {
    let mut initiator = Initiator::login(node, "data", &Who::named(name)).unwrap();
    initiator.hear_all();
    initiator
}

fn assert_works(initiator: &mut Initiator, round: u8) {
    assert_eq!(initiator.write(1, &[round; 4096]), Status::GOOD);
    assert_eq!(initiator.read(1), [round; 4096]);
}

fn is_pool_whole(node: &Node<'_>) -> bool {
    node.counted("pool_free_bytes") >= 31 << 20
}

#[test]
fn an_initiator_that_reads_no_answers_is_throttled_and_others_make_progress() {
    let place = Place::new();
    let node = Node::with_iscsi(&place, &DEVICE);
    let (mut other, mut host) = (login(&node, "other"), Host::connect(&node, "data"));
    let before = node.usage().resident_bytes;
    let mut greedy: Vec<Initiator> =
        (0..4).map(|number| login(&node, &format!("greedy-{number}"))).collect();
    for initiator in &mut greedy {
        for _ in 0..64 {
            let len = u32::try_from(MIB).unwrap();
            initiator.begin(&cdb::read(0, BLOCKS_PER_MIB), CommandData::SmallIncoming(len));
        }
        initiator.send_at_most(usize::MAX);
    }
    for round in 1..30 {
        assert_works(&mut other, round);
        host.assert_works();
        let grown = node.usage().resident_bytes.saturating_sub(before);
        assert!(grown < 128 << 20, "{grown} bytes more for initiators that do not read");
    }
    // An initiator that resumes reading gets everything.
    for _ in 0..64 {
        let done = greedy[0].next_done().unwrap();
        assert!(done.is_good() && done.data.len() == MIB, "{:?}", done.ending);
    }
    drop(greedy);
    eventually("the pool is whole again", || is_pool_whole(&node));
    node.terminate();
}

#[test]
fn an_initiator_that_stops_in_the_middle_of_a_burst_leaves_room_for_others() {
    let place = Place::new();
    let node = Node::with_iscsi(&place, &DEVICE);
    let mut other = login(&node, "other");
    let mut greedy: Vec<Initiator> =
        (0..4).map(|number| login(&node, &format!("greedy-{number}"))).collect();
    for (initiator, left) in greedy.iter_mut().zip([48, 100, 5_000, 70_000]) {
        for _ in 0..8 {
            let data = CommandData::SmallOutgoing(vec![0xEE; MIB]);
            initiator.begin(&cdb::write(0, 1024, BLOCKS_PER_MIB), data);
        }
        initiator.send_at_most(left);
    }
    for round in 1..20 {
        assert_works(&mut other, round);
    }
    drop(greedy);
    eventually("the pool is whole again", || is_pool_whole(&node));
    assert_eq!(other.read(1024), [0; 4096], "nothing of half a command is written");
    node.terminate();
}

#[test]
fn writes_of_more_than_the_pool_at_once_all_end() {
    let place = Place::new();
    let node = Node::with_iscsi(&place, &DEVICE);
    let mut deep = login(&node, "deep");
    // Each write brings some of its data, and is asked for the rest, which follows the other
    // commands.
    for _ in 0..64 {
        let data = CommandData::SmallOutgoing(vec![7; MIB]);
        deep.begin(&cdb::write(0, 0, BLOCKS_PER_MIB), data);
    }
    let (mut good, mut full) = (0, 0);
    for _ in 0..64 {
        match deep.next_done().unwrap().ending {
            Ending::Answered(Status::GOOD) => good += 1,
            Ending::Answered(Status::TASK_SET_FULL) => full += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(good > 0 && good + full == 64, "{good} done, {full} to be sent again");
    assert_eq!(deep.read(255), [7; 4096]);
    eventually("the pool is whole again", || is_pool_whole(&node));
    node.terminate();
}

/// Each long fill holds a buffer until its end, and needs no further data from its initiator.
#[test]
fn an_initiator_with_long_fills_leaves_buffers_for_others() {
    const FILLS: u64 = 64;
    let place = Place::new();
    let flags = ["--device", "n=null:64MiB,write-delay=2ms", "--volume", "data=32MiB@n"];
    let node = Node::with_iscsi(&place, &[&flags[..], &["--pool", "4MiB"]].concat());
    let (mut other, mut greedy) = (login(&node, "other"), login(&node, "greedy"));
    for _ in 0..FILLS {
        // 16 MiB, in 16 steps.
        let fill = cdb::write_same(false, 0, 16 * BLOCKS_PER_MIB);
        greedy.begin(&fill, CommandData::SmallOutgoing(vec![7; 4096]));
    }
    greedy.send_at_most(usize::MAX);
    eventually("they are under way", || node.counted("in_flight") > 0);
    for _ in 0..4 {
        // The write needs as long a buffer as a fill.
        let data = CommandData::SmallOutgoing(vec![1; MIB]);
        other.begin(&cdb::write(0, 0, BLOCKS_PER_MIB), data);
        assert!(other.next_done().unwrap().is_good());
    }
    let done = node.counted("writes") - 4;
    assert!(done < FILLS / 2, "others waited until {done} of {FILLS} fills were done");
    for _ in 0..FILLS {
        assert!(greedy.next_done().unwrap().is_good());
    }
    drop(greedy);
    eventually("the pool is whole again", || node.counted("pool_free_bytes") == 3 << 20);
    node.terminate();
}

#[test]
fn connections_of_a_session_share_its_commands_and_its_end() {
    let place = Place::new();
    let node = Node::with_iscsi(&place, &DEVICE);
    let who = Who::named("several");
    let first = Initiator::login(&node, "data", &who).unwrap();
    let more = |cid| first.join(&node, "data", &who, cid).unwrap();
    let mut all = vec![more(1), more(2), more(3)];
    all.insert(0, first);
    all[2].hear_all();
    for round in 0..32 {
        for (place, connection) in (0..).zip(&mut all) {
            let data = CommandData::SmallOutgoing(vec![place + round; 4096]);
            connection.begin(&cdb::write(0, u64::from(place), 1), data);
        }
        // The commands of the last connection arrive first, ahead of their CmdSN.
        all.iter_mut().rev().for_each(|connection| connection.send_at_most(usize::MAX));
        for connection in &mut all {
            assert!(connection.next_done().unwrap().is_good());
        }
        for place in 0..4 {
            let reader = &mut all[usize::from(3 - place)];
            assert_eq!(reader.read(u64::from(place)), vec![place + round; 4096]);
        }
    }
    assert_eq!(node.command(&["status"])["initiators"].as_array().unwrap().len(), 1);
    // The session ends with any of its connections.
    drop(all.pop());
    for connection in &mut all {
        while connection.try_command(&cdb::test_unit_ready(), CommandData::None).is_ok() {}
    }
    assert_serves_iscsi(&node);
    node.terminate();
}

fn register(initiator: &mut Initiator, key: u64) {
    let mut cdb: Cdb = [0; 16];
    (cdb[0], cdb[1], cdb[8]) = (0x5F, REGISTER_ANYWAY, 24);
    let parameters = [[0; 8], key.to_be_bytes(), [0; 8]].concat();
    initiator.begin(&cdb, CommandData::SmallOutgoing(parameters));
}

#[test]
fn changes_of_sessions_and_of_the_operator_wait_for_one_another_and_never_forever() {
    let place = Place::new();
    let node = Node::with_iscsi(&place, &[&DEVICE[..], &["--anonymous", "iscsi"]].concat());
    std::fs::write(place.path("secret"), SECRET).unwrap();
    for round in 1..=6u64 {
        node.command(&["chap", "add", "app", "--secret-file", &place.text("secret")]);
        let known = Who::named("a").with_account("app", SECRET);
        let other = Who { isid: 2, ..known.clone() };
        let sessions = [known, other].map(|who| Initiator::login(&node, "data", &who).unwrap());
        thread::scope(|scope| {
            for (number, mut session) in (1..).zip(sessions) {
                scope.spawn(move || {
                    for key in 1..=64 {
                        register(&mut session, round << 16 | number << 8 | key);
                    }
                    // Until the user is removed, which ends the session.
                    while session.next_done().is_ok() {}
                });
            }
            scope.spawn(|| {
                (0..4).for_each(|_| drop(node.command(&["reservation", "clear", "data"])));
            });
            scope.spawn(|| drop(node.command(&["chap", "remove", "app"])));
        });
        eventually("its sessions are gone", || {
            node.command(&["status"])["initiators"].as_array().unwrap().is_empty()
        });
    }
    node.command(&["reservation", "clear", "data"]);
    assert_serves_iscsi(&node);
    node.terminate();
}

/// WRITE AND VERIFY (10) of one block, with or without BYTCHK.
fn write_and_verify(compares: bool) -> Cdb {
    let mut cdb: Cdb = [0; 16];
    (cdb[0], cdb[1], cdb[8]) = (0x2E, u8::from(compares) << 1, 1);
    cdb
}

#[test]
fn write_and_verify_says_so_when_the_medium_does_not_hold_what_was_written() {
    let place = Place::new();
    // The null device discards writes, and reads as zeroes.
    let flags = ["--device", "n=null:16MiB", "--volume", "data=8MiB@n"];
    let node = Node::with_iscsi(&place, &flags);
    let mut initiator = login(&node, "a");
    let write = |byte| CommandData::SmallOutgoing(vec![byte; 4096]);
    let done = initiator.command(&write_and_verify(true), &write(7));
    let sense = done.sense.unwrap();
    assert_eq!((sense.key, sense.asc), (0xE, 0x1D), "miscompare during verify");
    assert!(initiator.command(&write_and_verify(true), &write(0)).is_good());
    assert!(initiator.command(&write_and_verify(false), &write(7)).is_good(), "it can be read");
    node.terminate();
}
