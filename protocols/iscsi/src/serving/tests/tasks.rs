//! Task management, logout, pings and text.

use nearflash_request::{Addressees, Attention, ChangeKind, Raised, ResetScope, TaskSet};
use nearflash_units::Nanos;
use zerocopy::big_endian::U16;

use super::*;
use crate::check::Stage;
use crate::check::target::{config, unit};
use crate::error::PeerError;
use crate::pdu::{
    LogoutReason, LogoutRequest, NO_TAG, NopOut, RejectReason, TaskFunction, TaskRequest,
    TaskResult, TextRequest,
};

fn bench() -> Bench {
    Bench::new(Stage::FullFeature, PLAIN)
}

fn function(function: TaskFunction, lun: u16, referenced: u32) -> TaskRequest {
    let mut request = TaskRequest::new(function, LunField::new(lun), 1000, referenced);
    request.opcode = OpcodeByte::immediate(Opcode::TASK_REQUEST);
    request
}

fn result(pdu: &Pdu) -> TaskResult {
    assert_eq!((pdu.opcode(), pdu.itt()), (Opcode::TASK_RESPONSE, 1000), "{pdu:?}");
    TaskResult(pdu.header[2])
}

#[test]
fn a_task_that_collects_data_is_aborted_without_a_word_and_its_late_data_passed_over() {
    let mut bench = bench();
    bench.send(write(0, 0, 1).as_bytes(), &[]);
    let tag = said_once(&mut bench).of::<R2t>().ttt.get();
    bench.send(function(TaskFunction::ABORT_TASK, 0, 0).as_bytes(), &[]);
    let pdu = said_once(&mut bench);
    assert_eq!(result(&pdu), TaskResult::COMPLETE);
    assert_eq!(pdu.number(32), number(8).get(), "its place in the window is free");
    bench.send(data_out(0, tag, 0, 0, FINAL).as_bytes(), &[1; 512]);
    assert!(said(&mut bench).is_empty() && bench.demands.is_empty());
    bench.send(read(1, 0, 1).as_bytes(), &[]);
    bench.answer_all();
    assert_eq!(said_once(&mut bench).opcode(), Opcode::DATA_IN);
    bench.end();
}

/// libiscsi, AsyncAbort: the write is good, and then there is no such task.
#[test]
fn a_task_in_the_engine_is_answered_before_its_abort_is() {
    let mut bench = bench();
    bench.send(write(0, 0, 1).as_bytes(), &[1; 512]);
    bench.send(function(TaskFunction::ABORT_TASK, 0, 0).as_bytes(), &[]);
    assert!(said(&mut bench).is_empty(), "it waits");
    bench.answer_all();
    let pdus = said(&mut bench);
    assert_eq!((status(&pdus[0]), result(&pdus[1])), (0, TaskResult::NO_TASK));
    bench.send(function(TaskFunction::ABORT_TASK, 0, 55).as_bytes(), &[]);
    assert_eq!(result(&said_once(&mut bench)), TaskResult::NO_TASK);
    bench.end();
}

#[test]
fn an_abort_of_a_task_set_takes_what_collects_waits_for_the_rest_and_not_for_later_ones() {
    let mut bench = bench();
    let mut elsewhere = read(0, 0, 1);
    elsewhere.lun = LunField::new(1);
    bench.send(elsewhere.as_bytes(), &[]);
    bench.send(write(1, 0, 1).as_bytes(), &[]); // an R2T is out
    bench.send(read(2, 0, 1).as_bytes(), &[]);
    bench.drain_output();
    bench.send(function(TaskFunction::ABORT_TASK_SET, 0, NO_TAG).as_bytes(), &[]);
    bench.send(read(3, 0, 1).as_bytes(), &[]);
    let mut requests: Vec<_> = bench
        .demands
        .drain(..)
        .map(|demand| match demand {
            Demand::Request(request) => request,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(requests.len(), 3);
    assert!(said(&mut bench).is_empty());
    bench.answer(requests.remove(1));
    assert_eq!(opcodes(&said(&mut bench)), [Opcode::DATA_IN, Opcode::TASK_RESPONSE]);
    requests.into_iter().for_each(|request| bench.answer(request));
    assert_eq!(said(&mut bench).len(), 2);
    bench.end();
}

#[test]
fn a_function_for_everybody_goes_to_the_control_side_when_own_tasks_are_over() {
    let reset = ChangeKind::Reset;
    for (code, kind, ends) in [
        (TaskFunction::CLEAR_TASK_SET, ChangeKind::EndTasks(TaskSet::All), false),
        (TaskFunction::LOGICAL_UNIT_RESET, reset(ResetScope::LogicalUnit), false),
        (TaskFunction::TARGET_WARM_RESET, reset(ResetScope::Target), false),
        (TaskFunction::TARGET_COLD_RESET, reset(ResetScope::TargetAndSessions), true),
    ] {
        let mut bench = bench();
        bench.send(write(0, 0, 1).as_bytes(), &[1; 512]);
        bench.send(function(code, 0, NO_TAG).as_bytes(), &[]);
        let request = handed_out(&mut bench);
        bench.answer(request);
        assert_eq!(status(&said_once(&mut bench)), 0);
        bench.take_demands();
        let [Demand::Change(_, change)] = &bench.demands[..] else { panic!("{:?}", bench.demands) };
        assert_eq!((change.volume, change.kind), (unit(0).volume, kind));
        bench.answer_all();
        let pdus = said(&mut bench);
        assert_eq!(result(&pdus[0]), TaskResult::COMPLETE);
        assert_eq!(bench.end.session.is_closing(), ends);
        assert_eq!(pdus.len(), if ends { 2 } else { 1 }, "who is thrown out is told");
        bench.end();
    }
}

#[test]
fn a_reset_by_another_aborts_what_collects_data_and_says_so() {
    let mut bench = bench();
    bench.send(write(0, 0, 1).as_bytes(), &[]);
    bench.drain_output();
    let (volume, attention) = (Some(unit(0).volume), Attention::Reset);
    bench.end.session.raise(&Raised { volume, to: Addressees::All, attention });
    assert_eq!(bench.end.session.commands_in_flight(), 0);
    assert_eq!(status(&said_once(&mut bench)), 0x40, "TASK ABORTED");
    bench.send(test_unit_ready(1).as_bytes(), &[]);
    assert_eq!(sense(&said_once(&mut bench)), [6, 0x29, 3]);
    bench.end();
}

#[test]
fn a_task_set_that_another_clears_is_aborted_and_only_the_tasks_say_so() {
    let mut bench = bench();
    bench.send(write(0, 0, 1).as_bytes(), &[]);
    let tag = said_once(&mut bench).of::<R2t>().ttt.get();
    let (volume, attention) = (Some(unit(0).volume), Attention::TasksCleared);
    bench.end.session.raise(&Raised { volume, to: Addressees::All, attention });
    assert_eq!(status(&said_once(&mut bench)), 0x40, "TASK ABORTED");
    bench.send(data_out(0, tag, 0, 0, FINAL).as_bytes(), &[1; 512]);
    assert!(bench.demands.is_empty(), "what comes late is nobody's");
    bench.send(test_unit_ready(1).as_bytes(), &[]);
    bench.answer_all();
    assert_eq!(status(&said_once(&mut bench)), 0, "no attention");
    bench.end();
}

#[test]
fn a_target_that_begins_anew_ends_its_sessions_and_is_told_of_as_a_start() {
    let mut bench = bench();
    bench.send(write(0, 0, 1).as_bytes(), &[]);
    bench.drain_output();
    let (volume, attention) = (Some(unit(0).volume), Attention::ColdReset);
    bench.end.session.raise(&Raised { volume, to: Addressees::All, attention });
    let pdu = said_once(&mut bench);
    assert_eq!((pdu.opcode(), pdu.header[36]), (Opcode::ASYNC, 3), "all connections are dropped");
    assert!(bench.end.session.is_closing());
    assert!(bench.end.session.shared.is_forgotten());
    bench.end();
}

#[test]
fn functions_that_are_not_served_say_so() {
    for (code, lun, expected) in [
        (TaskFunction::TASK_REASSIGN, 0, TaskResult::NO_REASSIGNMENT),
        (TaskFunction::CLEAR_ACA, 0, TaskResult::NOT_SUPPORTED),
        (TaskFunction(99), 0, TaskResult::NOT_SUPPORTED),
        (TaskFunction::LOGICAL_UNIT_RESET, 5, TaskResult::NO_LUN),
        (TaskFunction::ABORT_TASK_SET, 5, TaskResult::NO_LUN),
    ] {
        let mut bench = bench();
        bench.send(function(code, lun, NO_TAG).as_bytes(), &[]);
        assert_eq!(result(&said_once(&mut bench)), expected);
        bench.end();
    }
}

#[test]
fn a_logout_waits_for_tasks_and_then_the_connection_ends() {
    let mut bench = bench();
    bench.send(read(0, 0, 1).as_bytes(), &[]);
    bench.send(write(1, 0, 1).as_bytes(), &[]);
    bench.drain_output();
    let mut request = LogoutRequest::new(LogoutReason::SESSION, 9, 1);
    request.cmd_sn = number(2);
    bench.send(request.as_bytes(), &[]);
    bench.send(read(3, 0, 1).as_bytes(), &[]);
    assert_eq!(bench.demands.len(), 1, "nothing is taken any more");
    assert!(said(&mut bench).is_empty() && !bench.end.session.is_closing());
    bench.answer_all();
    let pdus = said(&mut bench);
    assert_eq!(opcodes(&pdus), [Opcode::DATA_IN, Opcode::LOGOUT_RESPONSE]);
    assert_eq!((pdus[1].itt(), pdus[1].header[2]), (9, 0));
    assert!(bench.end.session.is_closing() && bench.end.session.has_logged_out);
    bench.end();
}

#[test]
fn a_logout_of_another_connection_or_for_recovery_is_refused() {
    for (reason, cid, expected) in
        [(LogoutReason::CONNECTION, 77, 1), (LogoutReason::RECOVERY, 1, 2)]
    {
        let mut bench = bench();
        let mut request = LogoutRequest::new(reason, 9, cid);
        request.cid = U16::new(cid);
        request.cmd_sn = number(0);
        bench.send(request.as_bytes(), &[]);
        let pdu = said_once(&mut bench);
        assert_eq!((pdu.opcode(), pdu.header[2]), (Opcode::LOGOUT_RESPONSE, expected));
        assert!(!bench.end.session.is_closing());
        bench.end();
    }
}

fn ping(itt: u32, index: u32) -> NopOut {
    let mut ping = NopOut::new(LunField::new(0), itt, NO_TAG);
    ping.opcode = OpcodeByte::new(Opcode::NOP_OUT);
    ping.cmd_sn = number(index);
    ping
}

#[test]
fn a_ping_comes_back_with_its_data() {
    let mut bench = bench();
    bench.send(ping(7, 0).as_bytes(), b"hello");
    let pdu = said_once(&mut bench);
    assert_eq!((pdu.opcode(), pdu.itt(), pdu.number(20)), (Opcode::NOP_IN, 7, NO_TAG));
    assert_eq!(pdu.data, b"hello");
    assert_eq!(pdu.number(28), number(1).get(), "it had a number");
    let mut answer = ping(NO_TAG, 1);
    answer.opcode = OpcodeByte::immediate(Opcode::NOP_OUT);
    bench.send(answer.as_bytes(), &[]);
    assert!(said(&mut bench).is_empty(), "an answer is not answered");
    bench.end();
}

#[test]
fn a_silent_initiator_is_asked_and_then_given_up() {
    let usual = config();
    let mut bench = bench();
    let start = usual.login_timeout;
    assert_eq!(bench.end.session.handle_timeout(start), Ok(()));
    assert!(said(&mut bench).is_empty(), "it has just logged in");
    let asked_at = start.plus(usual.ping_interval);
    assert_eq!(bench.end.session.handle_timeout(Nanos(asked_at.0 - 1)), Ok(()));
    assert!(said(&mut bench).is_empty(), "it is not asked before it has been silent");
    assert_eq!(bench.end.session.handle_timeout(asked_at), Ok(()));
    let pdu = said_once(&mut bench);
    assert_eq!((pdu.opcode(), pdu.itt()), (Opcode::NOP_IN, NO_TAG));
    let mut answer = NopOut::new(LunField::new(0), NO_TAG, pdu.number(20));
    answer.cmd_sn = number(0);
    bench.send(answer.as_bytes(), &[]);
    let heard_at = asked_at.plus(usual.ping_timeout);
    assert_eq!(bench.end.session.handle_timeout(heard_at), Ok(()));
    assert!(said(&mut bench).is_empty());
    let asked_at = heard_at.plus(usual.ping_interval);
    assert_eq!(bench.end.session.handle_timeout(asked_at), Ok(()));
    let over_at = asked_at.plus(usual.ping_timeout);
    assert_eq!(bench.end.session.handle_timeout(over_at), Err(PeerError::Silent));
    assert!(bench.end.session.is_closing());
    bench.end();
}

#[test]
fn a_login_has_its_time() {
    let mut bench = Bench::new(Stage::Login, PLAIN);
    let end = config().login_timeout;
    assert_eq!(bench.end.session.handle_timeout(Nanos(end.0 - 1)), Ok(()));
    assert_eq!(bench.end.session.handle_timeout(end), Err(PeerError::Silent));
    bench.end();
}

fn text_request(index: u32, flags: u8, ttt: u32) -> TextRequest {
    let mut request = TextRequest::new(flags, 5, ttt);
    request.opcode = OpcodeByte::new(Opcode::TEXT_REQUEST);
    request.cmd_sn = number(index);
    request
}

#[test]
fn send_targets_is_answered_in_every_session() {
    let all = "TargetName=iqn.2026-11.io.nearflash:check\0TargetAddress=127.0.0.1:3260,1\0";
    for (stage, text, expected) in [
        (Stage::FullFeature, "SendTargets=All\0", all),
        (Stage::FullFeature, "SendTargets=\0", all),
        (Stage::Discovery, "SendTargets=All\0", all),
        (Stage::Discovery, "SendTargets=iqn.2026-11.io.nearflash:CHECK\0", all),
        (Stage::Discovery, "SendTargets=iqn.2026-11.io.nearflash:other\0", ""),
        (Stage::Discovery, "SendTargets=\0", "SendTargets=Reject\0"),
        (Stage::FullFeature, "SendTargets=Alle\0", "SendTargets=Reject\0"),
        (Stage::FullFeature, "SendTargetsPlease=All\0", "SendTargetsPlease=NotUnderstood\0"),
        (Stage::FullFeature, "HeaderDigest=None\0", "HeaderDigest=Reject\0"),
    ] {
        let mut bench = Bench::new(stage, PLAIN);
        bench.send(text_request(0, FINAL, NO_TAG).as_bytes(), text.as_bytes());
        let pdu = said_once(&mut bench);
        assert_eq!((pdu.opcode(), pdu.header[1]), (Opcode::TEXT_RESPONSE, FINAL));
        assert_eq!((pdu.itt(), pdu.number(20)), (5, NO_TAG));
        assert_eq!(String::from_utf8(pdu.data).unwrap(), expected);
        bench.end();
    }
}

#[test]
fn long_text_comes_in_parts_when_it_is_asked_for() {
    let setup = Setup { keys: "MaxRecvDataSegmentLength=512&", ..PLAIN };
    let mut bench = Bench::new(Stage::FullFeature, setup);
    let text: String = (0..40).map(|index| format!("X-com.example.{index}=1\0")).collect();
    let (first, second) = text.as_bytes().split_at(300);
    bench.send(text_request(0, crate::pdu::CONTINUE, NO_TAG).as_bytes(), first);
    let pdu = said_once(&mut bench);
    assert_eq!((pdu.header[1], pdu.data.len()), (0, 0));
    let tag = pdu.number(20);
    bench.send(text_request(1, FINAL, tag).as_bytes(), second);
    let (mut answer, mut index) = (Vec::new(), 2);
    loop {
        let pdu = said_once(&mut bench);
        answer.extend_from_slice(&pdu.data);
        if pdu.header[1] == FINAL {
            break;
        }
        assert_eq!((pdu.header[1], pdu.data.len()), (crate::pdu::CONTINUE, 512));
        bench.send(text_request(index, FINAL, pdu.number(20)).as_bytes(), &[]);
        index += 1;
    }
    assert_eq!(String::from_utf8(answer).unwrap(), text.replace("=1", "=NotUnderstood"));
    bench.end();
}

#[test]
fn text_that_is_none_or_belongs_to_no_exchange_is_rejected() {
    for (text, tag, reason) in
        [(&b"no pair"[..], NO_TAG, RejectReason::PROTOCOL), (b"", 17, RejectReason::INVALID_FIELD)]
    {
        let mut bench = bench();
        bench.send(text_request(0, FINAL, tag).as_bytes(), text);
        let pdu = said_once(&mut bench);
        assert_eq!((pdu.opcode(), pdu.header[2]), (Opcode::REJECT, reason.0));
        assert_eq!(bench.end.error, None);
        bench.end();
    }
}

#[test]
fn a_shutdown_is_announced() {
    let mut bench = bench();
    bench.end.session.shut_down();
    let pdu = said_once(&mut bench);
    assert_eq!((pdu.opcode(), pdu.header[36], pdu.number(36)), (Opcode::ASYNC, 2, 2 << 24 | 1));
    assert!(bench.end.session.is_closing());
    bench.end();
}
