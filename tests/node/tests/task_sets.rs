//! Task management on a real node: commands of other connections and other initiators are ended, on
//! other cores, and none of their data is written later. RFC 7143, 11.5; SAM-5, 7.
#![allow(clippy::unwrap_used)] // a failed test says where

use nearflash_iscsi::initiator::cdb;
use nearflash_iscsi::initiator::{CommandData, Ending, Status};
use nearflash_iscsi::pdu::{TaskFunction, TaskResult};
use nearflash_node_tests::{
    Initiator, Node, Place, Who, assert_serves_iscsi, eventually, two_cores,
};

const DEVICE: [&str; 4] = ["--device", "r=ram:64MiB", "--volume", "data=32MiB@r"];
const BLOCK_LEN: usize = 4096;
/// The number of blocks of a write whose data stops half-way.
const COUNT: u32 = 64;
/// The number of bytes of such a write that are sent: its header, and some of the data.
const HALF: usize = 48 + 10_000;

/// A node on two cores, if the machine has two. Sessions are distributed over them in turn.
fn node<'a>(place: &'a Place, flags: &[&str]) -> Node<'a> {
    let cores = two_cores();
    let cores = cores.as_deref().map_or(vec![], |cores| vec!["--cores", cores]);
    Node::with_iscsi(place, &[&DEVICE[..], flags, &cores].concat())
}

fn login(node: &Node<'_>, name: &str) -> Initiator {
    let mut initiator = Initiator::login(node, "data", &Who::named(name)).unwrap();
    initiator.hear_all();
    initiator
}

/// Begins a write that the node cannot finish without more data.
fn begin_half_a_write(initiator: &mut Initiator, lba: u64) {
    let data = CommandData::SmallOutgoing(vec![0xEE; COUNT as usize * BLOCK_LEN]);
    initiator.begin(&cdb::write(0, lba, COUNT), data);
    initiator.send_at_most(HALF);
}

/// Waits until the node has allocated buffers for this number of writes.
fn await_begun(node: &Node<'_>, writes: u64, whole: u64) {
    let len = writes * u64::from(COUNT) * BLOCK_LEN as u64;
    eventually("the node has begun them", || node.counted("pool_free_bytes") + len <= whole);
}

/// Checks that the rest of the data has no effect, and that the connection continues.
fn assert_nothing_lands(initiator: &mut Initiator, reader: &mut Initiator, lba: u64) {
    initiator.send_at_most(usize::MAX);
    assert_eq!(initiator.write(lba + u64::from(COUNT), &[1; BLOCK_LEN]), Status::GOOD);
    for block in 0..u64::from(COUNT) {
        assert_eq!(reader.read(lba + block), [0; BLOCK_LEN], "block {block}");
    }
}

#[test]
fn an_abort_of_a_task_set_ends_the_commands_of_all_connections_of_the_session() {
    let place = Place::new();
    let node = node(&place, &[]);
    let who = Who::named("several");
    for function in [TaskFunction::ABORT_TASK_SET, TaskFunction::CLEAR_TASK_SET] {
        let mut first = Initiator::login(&node, "data", &who).unwrap();
        let mut second = first.join(&node, "data", &who, 1).unwrap();
        first.hear_all();
        begin_half_a_write(&mut second, 512);
        let managing = first.begin_function(function);
        // The node asks the second connection for a confirmation that it has received all earlier
        // answers.
        second.hear().unwrap();
        let result = first.end_function();
        assert_eq!(result, TaskResult::COMPLETE);
        second.conclude(&managing, result);
        assert_eq!(second.next_done().unwrap().ending, Ending::Aborted);
        assert_nothing_lands(&mut second, &mut first, 512);
        first.log_out();
    }
    node.terminate();
}

#[test]
fn what_is_ended_of_another_initiator_says_so_and_never_lands() {
    let place = Place::new();
    let node = node(&place, &[]);
    let whole = node.counted("pool_free_bytes");
    for (function, told) in [
        (TaskFunction::CLEAR_TASK_SET, None),
        (TaskFunction::LOGICAL_UNIT_RESET, Some((0x29, 0x03))),
        (TaskFunction::TARGET_WARM_RESET, Some((0x29, 0x03))),
    ] {
        let mut all = ["a", "b", "c"].map(|name| login(&node, name));
        for (place, initiator) in (0..).zip(&mut all[..2]) {
            begin_half_a_write(initiator, 1024 * (1 + place));
        }
        await_begun(&node, 2, whole);
        all[2].begin_function(function);
        assert_eq!(all[2].end_function(), TaskResult::COMPLETE);
        let [a, b, c] = &mut all;
        for (place, initiator) in (0..).zip([a, b]) {
            let done = initiator.next_done().unwrap();
            assert_eq!(done.ending, Ending::Answered(Status::TASK_ABORTED), "{function:?}");
            assert_eq!(initiator.attention(), told, "{function:?}");
            assert_eq!(initiator.attention(), None);
            assert_nothing_lands(initiator, c, 1024 * (1 + place));
        }
        assert_eq!(c.write(0, &[2; BLOCK_LEN]), Status::GOOD);
    }
    assert_serves_iscsi(&node);
    node.terminate();
}

/// Service actions and a type of PERSISTENT RESERVE OUT. SPC-4, 6.16.
const REGISTER: u8 = 0;
const PREEMPT_AND_ABORT: u8 = 5;
const WRITE_EXCLUSIVE: u8 = 1;

#[test]
fn a_preemption_with_abort_ends_the_commands_of_who_was_only_registered() {
    let place = Place::new();
    let node = node(&place, &[]);
    let whole = node.counted("pool_free_bytes");
    let [mut a, mut b] = ["a", "b"].map(|name| login(&node, name));
    assert_eq!(a.reserve_out(REGISTER, 0, (0, 0xA), false), Status::GOOD);
    assert_eq!(b.reserve_out(REGISTER, 0, (0, 0xB), false), Status::GOOD);
    begin_half_a_write(&mut a, 1024);
    await_begun(&node, 1, whole);
    let preempted = b.reserve_out(PREEMPT_AND_ABORT, WRITE_EXCLUSIVE, (0xB, 0xA), false);
    assert_eq!(preempted, Status::GOOD);
    let done = a.next_done().unwrap();
    assert_eq!(done.ending, Ending::Answered(Status::TASK_ABORTED));
    assert_eq!(a.attention(), Some((0x2A, 0x05)), "registrations preempted");
    assert_nothing_lands(&mut a, &mut b, 1024);
    node.terminate();
}

#[test]
fn a_cold_reset_of_a_target_ends_all_its_sessions_and_those_of_no_other() {
    let place = Place::new();
    let node = node(&place, &["--volume", "logs=8MiB@r"]);
    let whole = node.counted("pool_free_bytes");
    let mut bystander = Initiator::login(&node, "logs", &Who::named("a")).unwrap();
    bystander.hear_all();
    let (mut other, mut asks) = (login(&node, "a"), login(&node, "b"));
    begin_half_a_write(&mut other, 512);
    await_begun(&node, 1, whole);
    asks.begin_function(TaskFunction::TARGET_COLD_RESET);
    assert_eq!(asks.end_function(), TaskResult::COMPLETE);
    for ended in [&mut other, &mut asks] {
        while ended.hear().is_ok() {}
    }
    for name in ["a", "b"] {
        let mut again = Initiator::login(&node, "data", &Who::named(name)).unwrap();
        assert_eq!(again.attention(), Some((0x29, 0x00)), "as after power on");
        assert_eq!(again.read(512), [0; BLOCK_LEN]);
    }
    assert_eq!(bystander.attention(), None);
    assert_eq!(bystander.write(0, &[1; BLOCK_LEN]), Status::GOOD);
    node.terminate();
}
