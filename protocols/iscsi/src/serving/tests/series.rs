//! Commands that run piece by piece: transfers longer than a buffer, and third-party copies.

use nearflash_request::{Addressees, Attention, Raised};

use super::*;
use crate::check::Stage;
use crate::check::target::{exports, unit};
use crate::pdu::{NO_TAG, TaskFunction, TaskRequest, TaskResult};
use crate::serving::{NONCE_LEN, SessionConfig};

/// Two mebibytes, all of the volume: two pieces.
const LEN: usize = 2 << 20;
const BLOCKS: u8 = 0x10; // in the count's high byte
/// Bursts that end elsewhere than pieces do.
const BURST: u32 = 768 * 1024;

fn bench() -> Bench {
    let setup = Setup { keys: "MaxBurstLength=786432&MaxRecvDataSegmentLength=524288&", ..PLAIN };
    let config = SessionConfig { anonymous: true, ..SessionConfig::with_nonce([7; NONCE_LEN]) };
    Bench::of(Stage::FullFeature, setup, exports(1), config)
}

/// WRITE (10) or READ (10) of the whole volume.
fn all(index: u32, opcode: u8, direction: u8) -> ScsiCommand {
    let cdb = [opcode, 0, 0, 0, 0, 0, 0, BLOCKS, 0, 0];
    command(index, direction, cdb, u32::try_from(LEN).unwrap())
}

fn noise() -> Vec<u8> {
    (0_u32..).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).take(LEN).collect()
}

/// Sends what the R2Ts that were said ask for. How many there were.
fn send_asked(bench: &mut Bench, itt: u32, bytes: &[u8]) -> usize {
    let pdus = said(bench);
    for pdu in &pdus {
        let r2t: &R2t = pdu.of();
        let (start, len) = (r2t.offset.get(), r2t.desired_len.get());
        assert!(pdu.opcode() == Opcode::R2T && len <= BURST, "{pdu:?}");
        let parts = (start..start + len).step_by(256 * 1024).zip(0..);
        for (offset, number) in parts {
            let end = (offset + 256 * 1024).min(start + len);
            let flags = if end == start + len { FINAL } else { 0 };
            let header = data_out(itt, r2t.ttt.get(), number, offset, flags);
            bench.send(header.as_bytes(), &bytes[offset as usize..end as usize]);
        }
    }
    pdus.len()
}

#[test]
fn a_long_write_holds_one_buffer_at_a_time_and_is_answered_once() {
    let mut bench = bench();
    bench.send(all(0, 0x2A, ScsiCommand::WRITE).as_bytes(), &[]);
    let bytes = noise();
    let mut r2ts = 0;
    for _ in 0..2 {
        while bench.demands.is_empty() {
            assert_eq!(bench.end.memory.taken(), 1);
            r2ts += send_asked(&mut bench, 0, &bytes);
        }
        bench.answer_all();
    }
    let pdu = said_once(&mut bench);
    assert_eq!((status(&pdu), pdu.number(44)), (0, 0));
    assert_eq!(pdu.of::<ScsiResponse>().exp_data_sn.get() as usize, r2ts);
    assert!(bench.volume.bytes() == bytes);
    bench.end();
}

#[test]
fn a_long_read_is_one_run_of_numbered_parts_with_the_status_in_the_last() {
    let mut bench = bench();
    let bytes = noise();
    bench.volume.bytes_mut().copy_from_slice(&bytes);
    bench.send(all(0, 0x28, ScsiCommand::READ).as_bytes(), &[]);
    let mut pdus = Vec::new();
    for _ in 0..2 {
        let request = handed_out(&mut bench);
        bench.answer(request);
        assert!(bench.end.memory.taken() <= 1);
        pdus.extend(said(&mut bench));
        bench.take_demands();
    }
    let mut read: Vec<u8> = Vec::new();
    let mut burst = 0;
    for (pdu, number) in pdus.iter().zip(0..) {
        let part: &DataIn = pdu.of();
        assert_eq!((part.data_sn.get(), part.offset.get() as usize), (number, read.len()));
        read.extend(&pdu.data);
        burst += pdu.data.len();
        let is_last = read.len() == LEN;
        assert_eq!(part.flags & FINAL != 0, burst == BURST as usize || is_last);
        assert_eq!(part.flags & 1 != 0, is_last, "the status is in the last");
        burst = if part.flags & FINAL != 0 { 0 } else { burst };
    }
    assert!(read == bytes);
    bench.end();
}

#[test]
fn of_a_long_read_no_more_is_read_than_the_initiator_has_room_for() {
    let mut bench = bench();
    bench.volume.bytes_mut().fill(7);
    let mut command = all(0, 0x28, ScsiCommand::READ);
    command.transfer_len = U32::new(700);
    bench.send(command.as_bytes(), &[]);
    let request = handed_out(&mut bench);
    bench.answer(request);
    bench.take_demands();
    assert!(bench.demands.is_empty());
    let pdu = said_once(&mut bench);
    assert_eq!((pdu.data.len(), pdu.number(44)), (700, u32::try_from(LEN).unwrap() - 700));
    bench.end();
}

#[test]
fn a_piece_that_fails_ends_the_command_with_what_was_moved_before() {
    let mut bench = bench();
    bench.volume.bytes_mut().fill(7);
    bench.send(all(0, 0x28, ScsiCommand::READ).as_bytes(), &[]);
    let request = handed_out(&mut bench);
    bench.answer(request);
    let parts = said(&mut bench).len();
    bench.take_demands();
    let request = handed_out(&mut bench);
    answer_with(&mut bench, &request, Outcome::UnrecoveredRead);
    let pdu = said_once(&mut bench);
    assert_eq!((sense(&pdu), pdu.number(44)), ([3, 0x11, 0], 1 << 20));
    assert_eq!(pdu.of::<ScsiResponse>().exp_data_sn.get() as usize, parts);
    // The block is the piece's first.
    assert_eq!(pdu.data[2 + 3..2 + 7], 2048_u32.to_be_bytes());
    bench.end();
}

/// EXTENDED COPY of the volume's first half to its second, named 5.
fn copy(index: u32) -> (ScsiCommand, Vec<u8>) {
    let mut list = vec![5, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 28, 0, 0, 0, 0];
    list.extend([0xE4, 0, 0, 0, 1, 0x0A, 0, 18, 0x10, 0]);
    list.extend(unit(0).uuid);
    list.extend([0, 0, 0, 0, 2, 0]);
    list.extend([2, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0x08, 0]);
    list.extend([0, 0, 0, 0, 0, 0, 0, 0]);
    list.extend([0, 0, 0, 0, 0, 0, 0x08, 0]);
    let mut command = ScsiCommand::new(FINAL | ScsiCommand::WRITE, index);
    command.cdb[0] = 0x83;
    command.cdb[13] = u8::try_from(list.len()).unwrap();
    command.transfer_len = U32::new(u32::try_from(list.len()).unwrap());
    command.cmd_sn = number(index);
    (command, list)
}

/// COPY STATUS of the copy: its state, and the segments and KiB copied.
fn copy_status(bench: &mut Bench, index: u32) -> Option<(u8, u8, u32)> {
    let mut command = ScsiCommand::new(FINAL | ScsiCommand::READ, index);
    command.cdb[..3].copy_from_slice(&[0x84, 0, 5]);
    command.cdb[13] = 12;
    command.transfer_len = U32::new(12);
    command.cmd_sn = number(index);
    bench.send(command.as_bytes(), &[]);
    bench.answer_all();
    let pdu = said_once(bench);
    if pdu.opcode() != Opcode::DATA_IN {
        assert_eq!(sense(&pdu), [5, 0x24, 0]);
        return None;
    }
    let [.., state, _, segments, _, a, b, c, d] = pdu.data[..] else { panic!("{pdu:?}") };
    Some((state, segments, u32::from_be_bytes([a, b, c, d])))
}

#[test]
fn a_copy_moves_no_data_of_the_initiators_and_can_be_asked_about() {
    let mut bench = bench();
    let bytes = noise();
    bench.volume.bytes_mut().copy_from_slice(&bytes);
    assert_eq!(copy_status(&mut bench, 0), None);
    let (command, list) = copy(1);
    bench.send(command.as_bytes(), &list);
    let held_back = std::mem::take(&mut bench.demands);
    assert_eq!((bench.end.memory.taken(), held_back.len()), (0, 1));
    assert_eq!(copy_status(&mut bench, 2), Some((0, 0, 0)));
    bench.demands = held_back;
    bench.answer_all();
    assert_eq!(status(&said_once(&mut bench)), 0);
    assert_eq!(copy_status(&mut bench, 3), Some((1, 1, 1024)));
    assert!(bench.volume.bytes()[LEN / 2..] == bytes[..LEN / 2]);
    bench.end();
}

fn function(function: TaskFunction, referenced: u32) -> TaskRequest {
    let mut request = TaskRequest::new(function, LunField::new(0), 1000, referenced);
    request.opcode = OpcodeByte::immediate(Opcode::TASK_REQUEST);
    request
}

#[test]
fn what_goes_piece_by_piece_is_aborted_between_two_pieces() {
    for code in [TaskFunction::ABORT_TASK, TaskFunction::ABORT_TASK_SET] {
        let mut bench = bench();
        bench.volume.bytes_mut().fill(7);
        bench.send(all(0, 0x28, ScsiCommand::READ).as_bytes(), &[]);
        let request = handed_out(&mut bench);
        let referenced = if code == TaskFunction::ABORT_TASK { 0 } else { NO_TAG };
        bench.send(function(code, referenced).as_bytes(), &[]);
        assert!(said(&mut bench).is_empty(), "the piece is waited for");
        bench.answer(request);
        bench.take_demands();
        assert!(bench.demands.is_empty(), "and no other follows");
        let pdu = said_once(&mut bench);
        assert_eq!((pdu.opcode(), pdu.header[2]), (Opcode::TASK_RESPONSE, TaskResult::COMPLETE.0));
        assert_eq!((bench.end.session.commands_in_flight(), bench.end.memory.taken()), (0, 0));
        bench.end();
    }
}

#[test]
fn a_reset_ends_a_copy_and_nothing_is_known_of_it_any_more() {
    let mut bench = bench();
    let (command, list) = copy(0);
    bench.send(command.as_bytes(), &list);
    let request = handed_out(&mut bench);
    let raised =
        Raised { volume: Some(unit(0).volume), to: Addressees::All, attention: Attention::Reset };
    bench.end.session.raise(&raised);
    bench.answer(request);
    assert_eq!(bench.end.session.commands_in_flight(), 0);
    assert_eq!(status(&said_once(&mut bench)), 0x40, "TASK ABORTED");
    bench.send(test_unit_ready(1).as_bytes(), &[]);
    assert_eq!(sense(&said_once(&mut bench)), [6, 0x29, 3]);
    assert_eq!(copy_status(&mut bench, 2), None);
    bench.end();
}
