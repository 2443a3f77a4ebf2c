//! Commands, their numbers, residuals and sense.

use std::sync::Arc;

use nearflash_request::{Addressees, Attention, Operation, Raised, VolumeId};
use nearflash_scsi::{LogicalUnit, LogicalUnits};
use nearflash_units::Nanos;

use super::*;
use crate::check::Stage;
use crate::check::target::{TARGET, WINDOW, config, exports, unit};
use crate::serving::Exports;

fn bench(setup: Setup) -> Bench {
    Bench::new(Stage::FullFeature, setup)
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| u8::try_from(index % 251).unwrap()).collect()
}

#[test]
fn a_read_is_answered_by_one_data_in_with_the_status_in_it() {
    let mut bench = bench(PLAIN);
    bench.volume.bytes_mut()[1024..1536].copy_from_slice(&pattern(512));
    bench.send(read(0, 2, 1).as_bytes(), &[]);
    bench.answer_all();
    let pdu = said_once(&mut bench);
    let data: &DataIn = pdu.of();
    assert_eq!((pdu.opcode(), data.flags, data.status), (Opcode::DATA_IN, FINAL | 1, 0));
    assert_eq!(data.itt.get(), 0);
    assert_eq!(data.exp_cmd_sn, number(1));
    assert_eq!(data.max_cmd_sn, number(WINDOW));
    assert_eq!(pdu.data, pattern(512));
    bench.end();
}

#[test]
fn a_long_read_comes_in_parts_and_sequences_and_its_buffer_goes_back_once() {
    let keys = "MaxRecvDataSegmentLength=1024&MaxBurstLength=1536&";
    let mut bench = bench(Setup { header_digest: true, data_digest: true, keys });
    bench.volume.bytes_mut()[..4096].copy_from_slice(&pattern(4096));
    bench.send(read(0, 0, 8).as_bytes(), &[]);
    bench.answer_all();
    let pdus = said(&mut bench);
    let all: Vec<u8> = pdus.iter().flat_map(|pdu| pdu.data.clone()).collect();
    assert_eq!(all, pattern(4096));
    let told: Vec<_> = pdus
        .iter()
        .map(|pdu| {
            let data: &DataIn = pdu.of();
            (data.data_sn.get(), data.offset.get(), data.flags)
        })
        .collect();
    let expected =
        [(0, 0, 0), (1, 1024, FINAL), (2, 1536, 0), (3, 2560, FINAL), (4, 3072, FINAL | 1)];
    assert_eq!(told, expected);
    bench.end();
}

#[test]
fn inquiry_is_answered_at_once_and_cut_to_what_is_expected() {
    let mut bench = bench(PLAIN);
    let cdb = [0x12, 0, 0, 0, 255, 0, 0, 0, 0, 0];
    bench.send(command(0, ScsiCommand::READ, cdb, 255).as_bytes(), &[]);
    let whole = said_once(&mut bench);
    let len = u32::try_from(whole.data.len()).unwrap();
    assert!(len >= 36);
    let data: &DataIn = whole.of();
    assert_eq!((data.flags, data.residual.get()), (FINAL | 3, 255 - len), "underflow, status");
    bench.send(command(1, ScsiCommand::READ, cdb, 5).as_bytes(), &[]);
    let cut = said_once(&mut bench);
    let data: &DataIn = cut.of();
    assert_eq!((data.flags, data.residual.get()), (FINAL | 5, len - 5), "overflow, status");
    assert_eq!(cut.data, whole.data[..5]);
    bench.end();
}

/// The commands of libiscsi's residual tests, with blocks of 512 bytes.
#[test]
fn residuals_of_reads_are_what_is_missing_or_too_much() {
    for (count, expected, moved, flag, residual) in
        [(1, 0, 0, 4, 512), (1, 10_000, 512, 2, 9488), (1, 200, 200, 4, 312), (2, 512, 512, 4, 512)]
    {
        let mut bench = bench(PLAIN);
        bench.volume.bytes_mut()[..1024].copy_from_slice(&pattern(1024));
        let mut command = read(0, 0, count);
        command.transfer_len = U32::new(expected);
        bench.send(command.as_bytes(), &[]);
        bench.answer_all();
        let pdu = said_once(&mut bench);
        assert_eq!(pdu.data, pattern(moved));
        assert_eq!((pdu.header[1] & 6, pdu.number(44)), (flag, residual), "{expected}");
        assert_eq!(pdu.opcode() == Opcode::DATA_IN, moved > 0);
        bench.end();
    }
}

#[test]
fn a_write_that_brings_too_little_writes_that_and_says_how_much_was_missing() {
    for (count, expected, residual) in [(1, 0, 512), (2, 512, 512), (1, 200, 312)] {
        let mut bench = bench(PLAIN);
        let mut command = write(0, 0, count);
        command.transfer_len = U32::new(expected);
        let data = vec![7; usize::try_from(expected).unwrap()];
        bench.send(command.as_bytes(), &data);
        bench.answer_all();
        let pdu = said_once(&mut bench);
        assert_eq!((status(&pdu), pdu.header[1] & 6, pdu.number(44)), (0, 4, residual));
        let written = bench.volume.bytes().iter().take_while(|byte| **byte == 7).count();
        assert_eq!(written, data.len());
        assert!(bench.volume.bytes()[written..].iter().all(|byte| *byte == 0));
        bench.end();
    }
}

#[test]
fn a_write_that_brings_too_much_writes_what_it_says() {
    let mut bench = bench(PLAIN);
    let mut command = write(0, 0, 1);
    command.transfer_len = U32::new(1024);
    bench.send(command.as_bytes(), &[7; 1024]);
    bench.answer_all();
    let pdu = said_once(&mut bench);
    assert_eq!(status(&pdu), 0);
    assert_eq!((pdu.header[1] & 6, pdu.number(44)), (2, 512));
    assert_eq!(bench.volume.bytes()[..1024], [[7; 512], [0; 512]].concat());
    bench.end();
}

/// libiscsi, Read10Invalid: a READ that is flagged as a write succeeds, and returns no data.
#[test]
fn a_read_that_is_flagged_as_a_write_is_good_and_gives_nothing() {
    let mut bench = bench(PLAIN);
    let cdb = read(0, 0, 1).cdb;
    let mut command = write(0, 0, 1);
    command.cdb = cdb;
    bench.send(command.as_bytes(), &[0xA6; 512]);
    bench.answer_all();
    let pdu = said_once(&mut bench);
    assert_eq!((status(&pdu), pdu.header[1] & 6, pdu.number(44)), (0, 4, 512));
    bench.end();
}

#[test]
fn a_write_that_is_flagged_as_a_read_or_as_both_is_refused() {
    for flags in [ScsiCommand::READ, ScsiCommand::READ | ScsiCommand::WRITE] {
        let mut bench = bench(PLAIN);
        let mut command = write(0, 0, 1);
        command.flags = FINAL | flags;
        bench.send(command.as_bytes(), &[]);
        assert_eq!(sense(&said_once(&mut bench)), [5, 0x0E, 3]);
        bench.end();
    }
}

#[test]
fn a_compare_and_write_fills_two_buffers() {
    let mut bench = bench(PLAIN);
    let mut command = write(0, 0, 1);
    command.cdb = [0x89, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0];
    command.transfer_len = U32::new(1024);
    let data = [[0; 512], [9; 512]].concat();
    bench.send(command.as_bytes(), &data);
    bench.answer_all();
    assert_eq!(status(&said_once(&mut bench)), 0);
    assert_eq!(bench.volume.bytes()[3 * 512..4 * 512], [9; 512]);
    command.cmd_sn = number(1);
    bench.send(command.as_bytes(), &data);
    bench.answer_all();
    assert_eq!(sense(&said_once(&mut bench)), [0xE, 0x1D, 0], "it differs by now");
    bench.end();
}

#[test]
fn parameters_are_gathered_and_then_understood() {
    let mut bench = bench(PLAIN);
    // UNMAP of two blocks at 4: a header of 8 bytes, one descriptor of 16.
    bench.volume.bytes_mut().fill(1);
    let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
    list.extend([0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 0]);
    let cdb = [0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0];
    bench.send(command(0, ScsiCommand::WRITE, cdb, 24).as_bytes(), &list);
    bench.answer_all();
    assert_eq!(status(&said_once(&mut bench)), 0);
    let zeroes = bench.volume.bytes().iter().filter(|byte| **byte == 0).count();
    assert_eq!(zeroes, 1024);
    bench.end();
}

#[test]
fn wrong_commands_are_answered_with_their_sense() {
    let invalid_opcode = command(0, 0, [0xC1, 0, 0, 0, 0, 0, 0, 0, 0, 0], 0);
    let mut no_unit = test_unit_ready(0);
    no_unit.lun = LunField::new(5);
    let mut no_address = test_unit_ready(0);
    no_address.lun = LunField([0xC1, 1, 0, 0, 0, 0, 0, 0]);
    let mut beyond = read(0, 0, 1);
    beyond.cdb[2] = 0xFF;
    for (command, expected) in [
        (invalid_opcode, [5, 0x20, 0]),
        (no_unit, [5, 0x25, 0]),
        (no_address, [5, 0x25, 0]),
        (beyond, [5, 0x21, 0]),
    ] {
        let mut bench = bench(PLAIN);
        bench.send(command.as_bytes(), &[]);
        let pdu = said_once(&mut bench);
        assert_eq!(sense(&pdu), expected);
        let residual = (pdu.header[1] & 6, pdu.number(44));
        let expected = command.transfer_len.get();
        assert_eq!(residual, if expected > 0 { (2, expected) } else { (0, 0) });
        bench.end();
    }
}

#[test]
fn what_the_engine_says_becomes_status_and_sense() {
    for (outcome, expected) in [
        (Outcome::ReservationConflict, Err(0x18)),
        (Outcome::Aborted, Err(0x40)),
        (Outcome::UnrecoveredRead, Ok([3, 0x11, 0])),
        (Outcome::VolumeGone, Ok([5, 0x25, 0])),
    ] {
        let mut bench = bench(PLAIN);
        bench.send(read(0, 0, 1).as_bytes(), &[]);
        let request = handed_out(&mut bench);
        answer_with(&mut bench, &request, outcome);
        let pdu = said_once(&mut bench);
        match expected {
            Ok(expected) => assert_eq!(sense(&pdu), expected),
            Err(expected) => assert_eq!(status(&pdu), expected),
        }
        assert_eq!((pdu.header[1] & 6, pdu.number(44)), (2, 512), "nothing came");
        bench.end();
    }
}

#[test]
fn an_attention_is_told_by_the_next_command_that_may_tell_it() {
    let mut bench = bench(PLAIN);
    bench.end.session.raise(&Raised {
        volume: Some(unit(0).volume),
        to: Addressees::All,
        attention: Attention::Reset,
    });
    bench.end.session.raise(&Raised {
        volume: Some(VolumeId(99)),
        to: Addressees::All,
        attention: Attention::ModeChanged,
    });
    let others = Addressees::AllBut(bench.end.session.shared.nexus);
    let attention = Attention::ModeChanged;
    bench.end.session.raise(&Raised { volume: Some(unit(0).volume), to: others, attention });
    let inquiry = [0x12, 0, 0, 0, 36, 0, 0, 0, 0, 0];
    bench.send(command(0, ScsiCommand::READ, inquiry, 36).as_bytes(), &[]);
    assert_eq!(said_once(&mut bench).opcode(), Opcode::DATA_IN);
    bench.send(read(1, 0, 1).as_bytes(), &[]);
    assert_eq!(sense(&said_once(&mut bench)), [6, 0x29, 3]);
    bench.send(read(2, 0, 1).as_bytes(), &[]);
    bench.answer_all();
    assert_eq!(said_once(&mut bench).opcode(), Opcode::DATA_IN);
    bench.end();
}

#[test]
fn a_change_of_size_is_told_at_once_and_by_the_next_command() {
    let mut bench = bench(PLAIN);
    let attention = Attention::CapacityChanged;
    let volume = Some(unit(1).volume);
    bench.end.session.raise(&Raised { volume, to: Addressees::All, attention });
    let pdu = said_once(&mut bench);
    assert_eq!((pdu.opcode(), pdu.header[36], pdu.itt()), (Opcode::ASYNC, 0, u32::MAX));
    assert_eq!((pdu.header[9], &pdu.data[14..16]), (1, &[0x2A, 9][..]));
    let mut command = test_unit_ready(0);
    command.lun = LunField::new(1);
    bench.send(command.as_bytes(), &[]);
    assert_eq!(sense(&said_once(&mut bench)), [6, 0x2A, 9]);
    bench.end();
}

#[test]
fn a_change_goes_to_the_control_side_and_its_result_to_the_initiator() {
    let mut bench = bench(PLAIN);
    // PERSISTENT RESERVE IN, READ KEYS.
    let cdb = [0x5E, 0, 0, 0, 0, 0, 0, 0, 255, 0];
    bench.send(command(0, ScsiCommand::READ, cdb, 255).as_bytes(), &[]);
    let [Demand::Change(_, change)] = &bench.demands[..] else { panic!("{:?}", bench.demands) };
    assert_eq!((change.volume, change.nexus), (unit(0).volume, bench.end.session.shared.nexus));
    bench.report.generation = 0x0102_0304;
    bench.answer_all();
    assert_eq!(said_once(&mut bench).data, [1, 2, 3, 4, 0, 0, 0, 0]);
    bench.end();
}

/// Asynchronous event, and its third parameter.
fn event(pdu: &Pdu) -> (u8, u32) {
    assert_eq!(pdu.opcode(), Opcode::ASYNC, "{pdu:?}");
    (pdu.header[36], pdu.number(40) & 0xFFFF)
}

#[test]
fn whose_target_is_gone_is_asked_to_log_out_and_has_no_units_whatever_comes_later() {
    let mut bench = bench(PLAIN);
    bench.end.session.set_exports(Arc::default());
    assert_eq!(event(&said_once(&mut bench)), (1, 10), "log out, within 10 s");
    bench.send(test_unit_ready(0).as_bytes(), &[]);
    assert_eq!(sense(&said_once(&mut bench)), [5, 0x25, 0]);
    bench.end.session.set_exports(Arc::new(exports(1)));
    bench.send(test_unit_ready(1).as_bytes(), &[]);
    assert_eq!(sense(&said_once(&mut bench)), [5, 0x25, 0], "what has its name is another");
    bench.end();
}

#[test]
fn who_does_not_log_out_when_asked_is_dropped() {
    let mut bench = bench(PLAIN);
    bench.end.session.set_exports(Arc::default());
    assert_eq!(event(&said_once(&mut bench)), (1, 10));
    for second in [0, 5, 9] {
        assert_eq!(bench.end.session.handle_timeout(Nanos::from_secs(second)), Ok(()));
        assert!(!bench.end.session.is_closing(), "{second}");
    }
    assert_eq!(bench.end.session.handle_timeout(Nanos::from_secs(10)), Ok(()));
    assert_eq!(event(&said_once(&mut bench)).0, 3, "all connections are dropped");
    assert!(bench.end.session.is_closing());
    bench.end();
}

#[test]
fn a_login_that_waited_while_its_target_was_removed_is_asked_to_log_out() {
    let mut bench = Bench::new(Stage::Granting, PLAIN);
    bench.end.session.set_exports(Arc::default());
    bench.grant();
    let pdus = said(&mut bench);
    assert_eq!(opcodes(&pdus), [Opcode::LOGIN_RESPONSE, Opcode::ASYNC]);
    assert_eq!(event(&pdus[1]), (1, 10));
    bench.end();
}

#[test]
fn another_volume_under_a_units_number_has_that_to_tell_before_it_is_written() {
    let mut bench = bench(PLAIN);
    let exports_of = |units: &[LogicalUnit]| {
        let units = Arc::new(LogicalUnits::new(TARGET, 1, units.iter().cloned()));
        Arc::new(Exports::new([(TARGET.into(), units)], []))
    };
    let other = LogicalUnit { volume: VolumeId(99), ..unit(1) };
    bench.end.session.set_exports(exports_of(&[unit(0)]));
    bench.end.session.set_exports(exports_of(&[unit(0), other]));
    let mut command = write(0, 0, 1);
    command.lun = LunField::new(1);
    bench.send(command.as_bytes(), &[7; 512]);
    assert_eq!(sense(&said_once(&mut bench)), [6, 0x3F, 0x0E]);
    let mut command = test_unit_ready(1);
    command.lun = LunField::new(0);
    bench.send(command.as_bytes(), &[]);
    bench.answer_all();
    assert_eq!(status(&said_once(&mut bench)), 0, "the other unit is what it was");
    bench.end();
}

#[test]
fn commands_outside_of_the_window_are_not_looked_at() {
    let mut bench = bench(PLAIN);
    for index in [WINDOW, WINDOW + 1000, u32::MAX] {
        bench.send(test_unit_ready(index).as_bytes(), &[]);
        bench.answer_all();
        assert!(said(&mut bench).is_empty(), "{index}");
    }
    bench.send(test_unit_ready(0).as_bytes(), &[]);
    bench.answer_all();
    assert_eq!(status(&said_once(&mut bench)), 0, "the right one still is");
    bench.send(test_unit_ready(0).as_bytes(), &[]);
    bench.answer_all();
    assert!(said(&mut bench).is_empty(), "but only once");
    bench.end();
}

#[test]
fn the_window_moves_when_commands_are_answered() {
    let mut bench = bench(PLAIN);
    for index in 0..WINDOW {
        bench.send(read(index, 0, 1).as_bytes(), &[]);
    }
    bench.send(read(WINDOW, 0, 1).as_bytes(), &[]);
    assert_eq!(bench.demands.len(), usize::try_from(WINDOW).unwrap(), "the last has no room");
    bench.answer_all();
    let pdus = said(&mut bench);
    let maxima: Vec<_> = pdus.iter().map(|pdu| pdu.number(32)).collect();
    let expected: Vec<_> = (0..WINDOW).map(|index| number(WINDOW + index).get()).collect();
    assert_eq!(maxima, expected);
    let numbers: Vec<_> = pdus.iter().map(Pdu::stat_sn).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)));
    bench.end();
}

#[test]
fn write_with_fua_and_read_with_dpo_are_of_the_common_form() {
    let mut bench = Bench::of(Stage::FullFeature, PLAIN, exports(1), config());
    let mut command = write(0, 0, 1);
    command.cdb[1] = 0x18;
    bench.send(command.as_bytes(), &[7; 512]);
    let request = handed_out(&mut bench);
    assert!(matches!(request.operation, Operation::Write { force_unit_access: true, .. }));
    bench.answer(request);
    let mut command = read(1, 0, 1);
    command.cdb[1] = 0x10;
    bench.send(command.as_bytes(), &[]);
    assert_eq!(handed_out(&mut bench).operation, Operation::Read);
    bench.end();
}
