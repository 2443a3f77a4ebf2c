//! Sessions with several connections, and how they end.

use nearflash_request::{Addressees, Attention, ChangeKind, Raised, ResetScope, TaskSet};

use super::*;
use crate::check::Stage;
use crate::check::target::{WINDOW, admit, login_pdu, unit};
use crate::error::PeerError;
use crate::login::LoginDemand;
use crate::pdu::{LogoutReason, LogoutRequest, NO_TAG, NopOut, TaskFunction, TaskRequest};

const SEVERAL: Setup = Setup { keys: "MaxConnections=4&InitialR2T=No&", ..PLAIN };

/// A connection of a session, and one that asks to join it.
fn one_and_a_half() -> ([Bench; 2], Box<LoginDemand>) {
    let first = Bench::new(Stage::FullFeature, SEVERAL);
    let mut second = Bench::new(Stage::Login, SEVERAL);
    let tsih = first.end.session.shared.tsih;
    assert_ne!(tsih, 0, "the login is granted");
    second.feed(&login_pdu(SEVERAL, tsih, 2, false));
    let Some(Demand::Login(demand)) = second.demands.pop() else { panic!("no login") };
    ([first, second], demand)
}

/// Two connections of one session.
fn pair() -> [Bench; 2] {
    let ([mut first, mut second], demand) = one_and_a_half();
    let granted = admit(&mut first.portal, &demand);
    second.end.session.handle_login(granted);
    assert_eq!(said_once(&mut second).number(36), 0, "status success");
    assert_eq!(second.end.session.shared.nexus, first.end.session.shared.nexus);
    [first, second]
}

/// Drives both connections as the shard does when one concerns its siblings.
fn resume(benches: &mut [Bench; 2]) {
    while benches.iter_mut().any(|bench| bench.end.session.concerns_siblings()) {
        for index in 0..2 {
            carry_orders(benches, index);
            benches[index].end.session.resume().unwrap();
            benches[index].feed(&[]);
        }
    }
}

fn carry_orders(benches: &mut [Bench; 2], index: usize) {
    let other = 1 - index;
    while let Some(order) = benches[index].end.session.sibling_request() {
        let outcome = benches[other].end.session.handle_sibling_request(&order);
        benches[other].feed(&[]);
        benches[index].end.session.handle_sibling_outcome(outcome);
    }
    if benches[index].end.session.awaits_others() && benches[other].end.session.is_acknowledged() {
        benches[index].end.session.lift_fence();
    }
}

fn end(benches: [Bench; 2]) {
    benches.into_iter().for_each(Bench::end);
}

#[test]
fn commands_begin_in_the_order_of_their_numbers_over_all_connections() {
    let mut benches = pair();
    for index in [1, 3, 5] {
        benches[1].send(read(index, 0, 1).as_bytes(), &[]);
    }
    resume(&mut benches);
    assert!(benches[1].demands.is_empty(), "others come first");
    assert!(benches[1].end.session.awaits_data(), "the initiator owes them");
    benches[0].send(read(0, 0, 1).as_bytes(), &[]);
    resume(&mut benches);
    assert_eq!([benches[0].demands.len(), benches[1].demands.len()], [1, 1]);
    benches[0].send(read(2, 0, 1).as_bytes(), &[]);
    benches[0].send(read(4, 0, 1).as_bytes(), &[]);
    resume(&mut benches);
    assert_eq!([benches[0].demands.len(), benches[1].demands.len()], [3, 3]);
    assert!(!benches[1].end.session.awaits_data());
    benches.iter_mut().for_each(Bench::answer_all);
    let [first, second] = [0, 1].map(|index| said(&mut benches[index]));
    assert_eq!([first.len(), second.len()], [3, 3]);
    assert_eq!(second[2].number(28), number(6).get());
    assert_eq!(second[2].number(32), number(WINDOW + 5).get(), "one window for both");
    let numbers: Vec<_> = second.iter().map(|pdu| pdu.stat_sn() - second[0].stat_sn()).collect();
    assert_eq!(numbers, [0, 1, 2], "status is numbered for each connection");
    end(benches);
}

#[test]
fn connections_look_at_one_another_only_when_a_command_waits_for_its_turn() {
    let mut benches = pair();
    benches[0].send(read(0, 0, 1).as_bytes(), &[]);
    benches[1].send(read(1, 0, 1).as_bytes(), &[]);
    assert!(benches.iter_mut().all(|bench| !bench.end.session.concerns_siblings()));
    benches[1].send(read(3, 0, 1).as_bytes(), &[]);
    benches[0].send(read(2, 0, 1).as_bytes(), &[]);
    assert!(benches[0].end.session.concerns_siblings());
    benches[1].end.session.resume().unwrap();
    benches[1].feed(&[]);
    assert_eq!([benches[0].demands.len(), benches[1].demands.len()], [2, 2]);
    end(benches);
}

#[test]
fn an_early_write_is_received_and_done_in_its_turn() {
    let mut benches = pair();
    let mut early = write(1, 0, 2);
    early.flags &= !FINAL;
    benches[1].send(early.as_bytes(), &[1; 512]);
    benches[1].send(data_out(1, NO_TAG, 0, 512, FINAL).as_bytes(), &[2; 512]);
    // One that was late enough to come before its data has.
    let mut later = write(2, 4, 1);
    later.flags &= !FINAL;
    benches[1].send(later.as_bytes(), &[]);
    let ping = {
        let mut ping = NopOut::new(LunField::new(0), 9, NO_TAG);
        ping.opcode = OpcodeByte::new(Opcode::NOP_OUT);
        ping.cmd_sn = number(3);
        ping
    };
    benches[1].send(ping.as_bytes(), b"early");
    resume(&mut benches);
    assert!(benches[1].demands.is_empty() && said(&mut benches[1]).is_empty());
    benches[0].send(test_unit_ready(0).as_bytes(), &[]);
    resume(&mut benches);
    assert_eq!(said_once(&mut benches[1]).data, b"early");
    benches[1].send(data_out(2, NO_TAG, 0, 0, FINAL).as_bytes(), &[3; 512]);
    benches.iter_mut().for_each(Bench::answer_all);
    assert_eq!(said(&mut benches[1]).iter().map(status).collect::<Vec<_>>(), [0, 0]);
    assert_eq!(benches[1].volume.bytes()[..1024], [[1; 512], [2; 512]].concat());
    assert_eq!(benches[1].volume.bytes()[2048..2560], [3; 512]);
    end(benches);
}

#[test]
fn a_number_that_came_already_on_a_connection_is_not_held_twice() {
    let mut benches = pair();
    for _ in 0..3 {
        benches[1].send(read(1, 0, 1).as_bytes(), &[]);
    }
    benches[0].send(read(0, 0, 1).as_bytes(), &[]);
    resume(&mut benches);
    assert_eq!(benches[1].demands.len(), 1);
    end(benches);
}

#[test]
fn a_number_that_came_on_two_connections_is_one_command_and_stops_nobody() {
    let mut benches = pair();
    benches[0].send(read(1, 0, 1).as_bytes(), &[]);
    benches[1].send(write(1, 0, 1).as_bytes(), &[1; 512]);
    benches[1].send(read(2, 0, 1).as_bytes(), &[]);
    benches[0].send(read(0, 0, 1).as_bytes(), &[]);
    resume(&mut benches);
    assert_eq!([benches[0].demands.len(), benches[1].demands.len()], [2, 1]);
    assert_eq!(benches[1].end.session.commands_in_flight(), 1, "the second one is forgotten");
    end(benches);
}

fn logout(reason: LogoutReason, cid: u16, index: u32) -> LogoutRequest {
    let mut request = LogoutRequest::new(reason, 9, cid);
    request.opcode = OpcodeByte::new(Opcode::LOGOUT_REQUEST);
    request.cmd_sn = number(index);
    request
}

#[test]
fn a_logout_of_the_session_ends_all_connections_and_one_of_a_connection_only_that() {
    for (reason, cid, expected) in [
        (LogoutReason::SESSION, 1, [true, true]),
        (LogoutReason::CONNECTION, 1, [true, false]),
        (LogoutReason::CONNECTION, 2, [false, true]),
    ] {
        let mut benches = pair();
        benches[0].send(logout(reason, cid, 0).as_bytes(), &[]);
        resume(&mut benches);
        let pdu = said_once(&mut benches[0]);
        assert_eq!((pdu.opcode(), pdu.header[2]), (Opcode::LOGOUT_RESPONSE, 0));
        assert_eq!([0, 1].map(|index| benches[index].end.session.is_closing()), expected);
        end(benches);
    }
}

#[test]
fn a_session_does_not_outlive_the_loss_of_a_connection() {
    let mut benches = pair();
    benches[0].end.session.terminate(PeerError::Silent);
    resume(&mut benches);
    assert!(benches[1].end.session.is_closing());
    end(benches);
}

#[test]
fn a_connection_that_joins_a_session_that_is_over_by_then_ends_with_it() {
    let ([mut first, mut second], demand) = one_and_a_half();
    first.end.session.terminate(PeerError::Silent);
    let granted = admit(&mut first.portal, &demand);
    second.end.session.handle_login(granted);
    assert!(second.end.session.is_closing());
    end([first, second]);
}

#[test]
fn what_a_connection_that_logged_out_had_under_way_is_no_part_of_the_window_any_more() {
    let mut benches = pair();
    benches[1].send(write(0, 0, 1).as_bytes(), &[]);
    benches[0].send(logout(LogoutReason::CONNECTION, 2, 1).as_bytes(), &[]);
    resume(&mut benches);
    assert!(benches[1].end.session.is_closing());
    let pdu = said_once(&mut benches[0]);
    assert_eq!(pdu.number(32), number(WINDOW + 1).get(), "nor is the logout");
    benches[0].send(test_unit_ready(2).as_bytes(), &[]);
    benches[0].answer_all();
    let pdu = said_once(&mut benches[0]);
    assert_eq!(pdu.number(32), number(WINDOW + 2).get());
    end(benches);
}

#[test]
fn a_logout_waits_for_what_other_connections_that_it_ends_had_handed_out() {
    for (reason, cid, goes) in
        [(LogoutReason::CONNECTION, 2, false), (LogoutReason::SESSION, 1, true)]
    {
        let mut benches = pair();
        benches[1].send(write(0, 0, 1).as_bytes(), &[1; 512]);
        assert_eq!(benches[1].demands.len(), 1, "it is with the device");
        benches[0].send(logout(reason, cid, 1).as_bytes(), &[]);
        resume(&mut benches);
        assert!(benches[1].end.session.is_closing());
        assert!(said(&mut benches[0]).is_empty(), "the write may land yet");
        let [Demand::Change(_, change)] = &benches[0].demands[..] else { panic!("not asked for") };
        assert_eq!(change.kind, ChangeKind::EndTasks(TaskSet::Own));
        benches[0].answer_all();
        let pdu = said_once(&mut benches[0]);
        assert_eq!((pdu.opcode(), pdu.itt(), pdu.header[2]), (Opcode::LOGOUT_RESPONSE, 9, 0));
        assert_eq!(benches[0].end.session.is_closing(), goes);
        end(benches);
    }
}

#[test]
fn a_logout_of_a_connection_that_is_not_there_says_so_and_ends_no_later_one() {
    let mut benches = pair();
    for cid in [7, 7, 3] {
        let mut request = logout(LogoutReason::CONNECTION, cid, 0);
        request.opcode = OpcodeByte::immediate(Opcode::LOGOUT_REQUEST);
        benches[0].send(request.as_bytes(), &[]);
    }
    resume(&mut benches);
    let results: Vec<u8> = said(&mut benches[0]).iter().map(|pdu| pdu.header[2]).collect();
    assert_eq!(results, [1, 1, 1], "no such connection");
    assert!(benches.iter().all(|bench| !bench.end.session.is_closing()));
    benches[0].send(logout(LogoutReason::CONNECTION, 2, 0).as_bytes(), &[]);
    resume(&mut benches);
    assert_eq!(said_once(&mut benches[0]).header[2], 0);
    assert!(benches[1].end.session.is_closing());
    end(benches);
}

#[test]
fn what_a_connection_that_leaves_had_waiting_keeps_nobody_waiting() {
    for leaves_by_itself in [false, true] {
        let mut benches = pair();
        benches[1].send(read(1, 0, 1).as_bytes(), &[]);
        benches[1].send(write(3, 0, 1).as_bytes(), &[1; 512]);
        let mut request = logout(LogoutReason::CONNECTION, 2, 4);
        request.opcode = OpcodeByte::immediate(Opcode::LOGOUT_REQUEST);
        benches[usize::from(leaves_by_itself)].send(request.as_bytes(), &[]);
        resume(&mut benches);
        assert!(benches[1].end.session.is_closing() && benches[1].demands.is_empty());
        benches[0].drain_output();
        for index in [0, 2, 4] {
            benches[0].send(read(index, 0, 1).as_bytes(), &[]);
        }
        assert_eq!(benches[0].demands.len(), 3);
        benches[0].answer_all();
        let pdus = said(&mut benches[0]);
        assert_eq!(pdus[2].number(28), number(5).get());
        assert_eq!(pdus[2].number(32), number(WINDOW + 4).get(), "the window is whole");
        end(benches);
    }
}

#[test]
fn a_function_of_a_connection_that_leaves_is_no_part_of_the_window_any_more() {
    let mut benches = pair();
    benches[1].send(read(0, 0, 1).as_bytes(), &[]);
    let mut waits = function(TaskFunction::ABORT_TASK, 0, 1);
    waits.opcode = OpcodeByte::new(Opcode::TASK_REQUEST);
    benches[1].send(waits.as_bytes(), &[]);
    assert!(said(&mut benches[1]).is_empty(), "it waits for the read");
    benches[0].send(logout(LogoutReason::CONNECTION, 2, 2).as_bytes(), &[]);
    resume(&mut benches);
    benches[0].send(test_unit_ready(3).as_bytes(), &[]);
    benches.iter_mut().for_each(Bench::answer_all);
    resume(&mut benches);
    let pdus = said(&mut benches[0]);
    assert_eq!(pdus.last().unwrap().number(32), number(WINDOW + 3).get());
    end(benches);
}

fn function(code: TaskFunction, referenced: u32, index: u32) -> TaskRequest {
    let mut request = TaskRequest::new(code, LunField::new(0), 1000, referenced);
    request.opcode = OpcodeByte::immediate(Opcode::TASK_REQUEST);
    request.cmd_sn = number(index);
    request
}

/// The initiator answers a ping, which acknowledges the earlier PDUs.
fn acknowledge(bench: &mut Bench, ping: &Pdu) {
    assert_eq!((ping.opcode(), ping.itt()), (Opcode::NOP_IN, NO_TAG));
    let mut answer = NopOut::new(LunField::new(0), NO_TAG, ping.number(20));
    answer.exp_stat_sn = U32::new(ping.stat_sn());
    bench.send(answer.as_bytes(), &[]);
}

#[test]
fn a_task_that_is_aborted_before_its_turn_is_never_done() {
    let mut benches = pair();
    benches[1].send(read(1, 0, 1).as_bytes(), &[]);
    benches[1].send(function(TaskFunction::ABORT_TASK, 1, 2).as_bytes(), &[]);
    assert_eq!(said(&mut benches[1]).len(), 1, "the function is over");
    benches[1].send(read(2, 0, 1).as_bytes(), &[]);
    benches[0].send(read(0, 0, 1).as_bytes(), &[]);
    resume(&mut benches);
    assert_eq!(benches[1].demands.len(), 1, "only what came after it is done");
    benches.iter_mut().for_each(Bench::answer_all);
    assert_eq!(said_once(&mut benches[1]).itt(), 2);
    assert_eq!(said_once(&mut benches[0]).number(28), number(3).get());
    end(benches);
}

fn abort_of(referenced: u32, index: u32) -> TaskRequest {
    let mut request = function(TaskFunction::ABORT_TASK, referenced, index);
    request.ref_cmd_sn = number(referenced);
    request
}

#[test]
fn a_command_that_is_aborted_before_it_comes_keeps_nobody_waiting_and_is_passed_over() {
    let mut benches = pair();
    benches[1].send(read(1, 0, 1).as_bytes(), &[]);
    benches[0].send(abort_of(2, 3).as_bytes(), &[]);
    assert_eq!(said_once(&mut benches[0]).header[2], 0, "function complete");
    resume(&mut benches);
    assert!(benches[1].demands.is_empty(), "one is still missing");
    benches[0].send(abort_of(0, 3).as_bytes(), &[]);
    resume(&mut benches);
    assert_eq!(benches[1].demands.len(), 1);
    let pdu = said_once(&mut benches[0]);
    assert_eq!((pdu.header[2], pdu.number(28)), (0, number(1).get()));
    // The skipped commands come after all, and are ignored.
    for index in [0, 2] {
        let mut late = write(index, 0, 1);
        late.flags &= !FINAL;
        benches[0].send(late.as_bytes(), &[]);
        benches[0].send(data_out(index, NO_TAG, 0, 0, FINAL).as_bytes(), &[1; 512]);
    }
    resume(&mut benches);
    assert!(said(&mut benches[0]).is_empty() && benches[0].demands.is_empty());
    benches[0].send(read(3, 0, 1).as_bytes(), &[]);
    benches.iter_mut().rev().for_each(Bench::answer_all);
    let pdu = said_once(&mut benches[0]);
    assert_eq!(pdu.number(28), number(4).get());
    assert_eq!(pdu.number(32), number(WINDOW + 3).get(), "the window is whole");
    end(benches);
}

#[test]
fn a_number_that_cannot_come_any_more_or_only_later_is_no_task() {
    let mut benches = pair();
    benches[0].send(test_unit_ready(0).as_bytes(), &[]);
    benches[0].answer_all();
    benches[0].drain_output();
    for (referenced, index) in [(0, 1), (3, 3), (3, 1), (WINDOW + 1, WINDOW + 2)] {
        benches[0].send(abort_of(referenced, index).as_bytes(), &[]);
        assert_eq!(said_once(&mut benches[0]).header[2], 1, "{referenced}: no such task");
    }
    benches[0].send(read(1, 0, 1).as_bytes(), &[]);
    assert_eq!(benches[0].demands.len(), 1);
    end(benches);
}

#[test]
fn a_function_waits_for_the_commands_before_it_and_ends_those_of_every_connection() {
    for (code, kind) in [
        (TaskFunction::ABORT_TASK_SET, ChangeKind::EndTasks(TaskSet::Own)),
        (TaskFunction::CLEAR_TASK_SET, ChangeKind::EndTasks(TaskSet::All)),
        (TaskFunction::LOGICAL_UNIT_RESET, ChangeKind::Reset(ResetScope::LogicalUnit)),
        (TaskFunction::TARGET_WARM_RESET, ChangeKind::Reset(ResetScope::Target)),
    ] {
        let mut benches = pair();
        benches[1].send(write(1, 0, 1).as_bytes(), &[]);
        benches[1].send(function(code, NO_TAG, 3).as_bytes(), &[]);
        benches[1].send(read(3, 0, 1).as_bytes(), &[]);
        assert!(said(&mut benches[1]).is_empty(), "others come first");
        benches[0].send(write(0, 8, 1).as_bytes(), &[]);
        resume(&mut benches);
        let tags = [0, 1].map(|index| said_once(&mut benches[index]).of::<R2t>().ttt.get());
        assert!(benches[1].demands.is_empty(), "one is missing that it is about");
        benches[0].send(read(2, 0, 1).as_bytes(), &[]);
        resume(&mut benches);
        // Late data of aborted commands.
        for (index, itt) in [(0, 0), (1, 1)] {
            let data = data_out(itt, tags[index], 0, 0, FINAL);
            benches[index].send(data.as_bytes(), &[0xEE; 512]);
            assert!(said(&mut benches[index]).is_empty());
        }
        assert_eq!(benches[0].demands.len(), 1, "what was handed out is not taken back");
        let asked = benches[1].demands.iter().filter_map(|demand| match demand {
            Demand::Change(_, change) => Some((change.volume, change.kind)),
            _ => None,
        });
        assert_eq!(asked.collect::<Vec<_>>(), [(unit(0).volume, kind)]);
        assert_eq!(benches[1].demands.len(), 2, "and what came after it goes on");
        end(benches);
    }
}

#[test]
fn a_function_is_answered_when_the_other_connections_have_been_heard() {
    let mut benches = pair();
    benches[0].send(read(0, 0, 1).as_bytes(), &[]);
    benches[1].send(function(TaskFunction::ABORT_TASK_SET, NO_TAG, 1).as_bytes(), &[]);
    resume(&mut benches);
    benches.iter_mut().for_each(Bench::answer_all);
    assert!(said(&mut benches[1]).is_empty());
    resume(&mut benches);
    let pdus = said(&mut benches[0]);
    assert_eq!(opcodes(&pdus), [Opcode::DATA_IN, Opcode::NOP_IN]);
    // Other PDUs do not lift the fence; only the answer to the ping does.
    benches[0].send(test_unit_ready(1).as_bytes(), &[]);
    resume(&mut benches);
    assert!(said(&mut benches[1]).is_empty());
    acknowledge(&mut benches[0], &pdus[1]);
    resume(&mut benches);
    let pdu = said_once(&mut benches[1]);
    assert_eq!((pdu.opcode(), pdu.itt(), pdu.header[2]), (Opcode::TASK_RESPONSE, 1000, 0));
    end(benches);
}

/// An R2T uses no StatSN: an initiator that has received every status may not have received it.
#[test]
fn a_function_waits_for_the_answer_to_its_own_ping() {
    let mut benches = pair();
    benches[0].send(write(0, 0, 1).as_bytes(), &[]);
    benches[1].send(function(TaskFunction::ABORT_TASK_SET, NO_TAG, 1).as_bytes(), &[]);
    resume(&mut benches);
    benches[1].answer_all();
    resume(&mut benches);
    let pdus = said(&mut benches[0]);
    assert_eq!(opcodes(&pdus), [Opcode::R2T, Opcode::NOP_IN]);
    // On its way before, and with nothing left to acknowledge.
    let mut word = NopOut::new(LunField::new(0), NO_TAG, NO_TAG);
    word.exp_stat_sn = U32::new(pdus[1].stat_sn());
    benches[0].send(word.as_bytes(), &[]);
    resume(&mut benches);
    assert!(said(&mut benches[1]).is_empty(), "the R2T may be on its way");
    acknowledge(&mut benches[0], &pdus[1]);
    resume(&mut benches);
    assert_eq!(said_once(&mut benches[1]).opcode(), Opcode::TASK_RESPONSE);
    end(benches);
}

#[test]
fn a_connection_that_leaves_is_not_waited_for() {
    let mut benches = pair();
    benches[1].send(function(TaskFunction::ABORT_TASK_SET, NO_TAG, 0).as_bytes(), &[]);
    resume(&mut benches);
    benches[1].answer_all();
    resume(&mut benches);
    assert!(said(&mut benches[1]).is_empty());
    benches[0].send(logout(LogoutReason::CONNECTION, 1, 0).as_bytes(), &[]);
    resume(&mut benches);
    assert_eq!(said_once(&mut benches[1]).opcode(), Opcode::TASK_RESPONSE);
    end(benches);
}

#[test]
fn a_function_that_comes_late_is_not_about_what_came_before_it_with_a_higher_number() {
    let mut benches = pair();
    benches[0].send(write(0, 0, 1).as_bytes(), &[]);
    benches[0].send(write(1, 1, 1).as_bytes(), &[]);
    let tags: Vec<u32> =
        said(&mut benches[0]).iter().map(|pdu| pdu.of::<R2t>().ttt.get()).collect();
    benches[1].send(function(TaskFunction::CLEAR_TASK_SET, NO_TAG, 1).as_bytes(), &[]);
    resume(&mut benches);
    for (itt, tag) in (0..).zip(tags) {
        benches[0].send(data_out(itt, tag, 0, 0, FINAL).as_bytes(), &[7; 512]);
    }
    benches[0].answer_all();
    assert_eq!(said_once(&mut benches[0]).itt(), 1);
    assert_eq!(benches[0].volume.bytes()[..1024], [[0; 512], [7; 512]].concat());
    end(benches);
}

#[test]
fn a_reset_by_another_comes_before_what_waits_for_its_turn() {
    let mut benches = pair();
    benches[1].send(write(1, 0, 1).as_bytes(), &[1; 512]);
    let (volume, attention) = (Some(unit(0).volume), Attention::Reset);
    let raised = Raised { volume, to: Addressees::All, attention };
    benches.iter_mut().for_each(|bench| bench.end.session.raise(&raised));
    assert!(said(&mut benches[1]).is_empty(), "it has not begun");
    benches[0].send(test_unit_ready(0).as_bytes(), &[]);
    assert_eq!(sense(&said_once(&mut benches[0])), [6, 0x29, 3]);
    resume(&mut benches);
    benches[1].answer_all();
    assert_eq!(status(&said_once(&mut benches[1])), 0);
    end(benches);
}
