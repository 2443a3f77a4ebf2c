//! Initiators with a list of volumes: the units that they see, and those that they do not.

use std::sync::Arc;

use nearflash_request::{HostList, HostRight, HostRights, UnlistedHosts, VolumeId};

use super::*;
use crate::check::Stage;
use crate::check::target::{INITIATOR, TARGET, config, exports};
use crate::pdu::{LoginStatus, TextRequest};
use crate::serving::Exports;

/// Exports of two units to the initiator of these tests, with its right on each.
fn exports_with(rights: [Option<HostRight>; 2]) -> Exports {
    // The bench's volumes have the number of the unit and 7.
    let list = (7..).map(VolumeId).zip(rights);
    let list: HostList = list.filter_map(|(volume, right)| Some((volume, right?))).collect();
    let lists = [(INITIATOR.to_lowercase().into(), list)];
    exports(2).with_rights(Arc::new(HostRights::new(lists, UnlistedHosts::All)))
}

const READ: Option<HostRight> = Some(HostRight::Read);
const WRITE: Option<HostRight> = Some(HostRight::ReadWrite);

fn bench(rights: [Option<HostRight>; 2]) -> Bench {
    Bench::of(Stage::FullFeature, PLAIN, exports_with(rights), config())
}

fn of_unit(mut command: ScsiCommand, lun: u16) -> ScsiCommand {
    command.lun = LunField::new(lun);
    command
}

/// The answer to a command without data to the target.
fn answer(bench: &mut Bench, command: &ScsiCommand) -> Pdu {
    bench.send(command.as_bytes(), &[]);
    bench.answer_all();
    said(bench).pop().unwrap()
}

/// The units of REPORT LUNS.
fn luns(bench: &mut Bench, index: u32) -> Vec<u8> {
    let mut report = command(index, ScsiCommand::READ, [0; 10], 64);
    report.cdb[..12].copy_from_slice(&[0xA0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0]);
    bench.send(report.as_bytes(), &[]);
    let pdu = said(bench).remove(0);
    pdu.data[8..].chunks(8).map(|lun| lun[1]).collect()
}

#[test]
fn an_initiator_sees_the_units_of_its_list_and_cannot_reach_others_by_their_numbers() {
    let mut bench = bench([None, WRITE]);
    assert_eq!(luns(&mut bench, 0), [1]);
    for (command, index) in [(read(1, 0, 1), 1), (write(2, 0, 1), 2), (test_unit_ready(3), 3)] {
        let done = answer(&mut bench, &of_unit(command, 0));
        // ILLEGAL REQUEST, LOGICAL UNIT NOT SUPPORTED.
        assert_eq!(sense(&done), [5, 0x25, 0], "command {index}");
    }
    bench.send(of_unit(read(4, 0, 1), 1).as_bytes(), &[]);
    bench.answer_all();
    assert!(said(&mut bench).iter().any(|pdu| pdu.opcode() == Opcode::DATA_IN));
}

#[test]
fn a_unit_that_an_initiator_may_only_read_is_write_protected() {
    let mut bench = bench([READ, WRITE]);
    assert_eq!(luns(&mut bench, 0), [0, 1]);
    let commands: [(&[u8], u32); 6] = [
        (&[0x2A, 0, 0, 0, 0, 0, 0, 0, 1, 0], 512), // WRITE (10)
        (&[0x2E, 0, 0, 0, 0, 0, 0, 0, 1, 0], 512), // WRITE AND VERIFY (10)
        (&[0x41, 0, 0, 0, 0, 0, 0, 0, 1, 0], 512), // WRITE SAME (10)
        (&[0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0], 24), // UNMAP
        (&[0x93, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0], 0), // WRITE SAME (16), NDOB
        (&[0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0], 1024), // COMPARE AND WRITE
    ];
    for (index, (cdb, len)) in (1..).zip(commands) {
        let mut writes = command(index, ScsiCommand::WRITE, [0; 10], len);
        writes.cdb[..cdb.len()].copy_from_slice(cdb);
        let done = answer(&mut bench, &writes);
        // DATA PROTECT, WRITE PROTECTED.
        assert_eq!(sense(&done), [7, 0x27, 0], "{cdb:02x?}");
    }
    // MODE SENSE (6): WP, and DPOFUA.
    let mode =
        |index| command(index, ScsiCommand::READ, [0x1A, 8, 0x3F, 0, 192, 0, 0, 0, 0, 0], 192);
    let protected = |bench: &mut Bench, mode: ScsiCommand| answer_data(bench, &mode)[2] & 0x80 != 0;
    assert!(protected(&mut bench, mode(7)));
    assert!(!protected(&mut bench, of_unit(mode(8), 1)));
    let done = answer(&mut bench, &read(9, 0, 1));
    assert_eq!(done.opcode(), Opcode::DATA_IN);
}

/// The data of a command.
fn answer_data(bench: &mut Bench, command: &ScsiCommand) -> Vec<u8> {
    bench.send(command.as_bytes(), &[]);
    bench.answer_all();
    said(bench).remove(0).data
}

#[test]
fn an_initiator_that_sees_no_unit_of_a_target_neither_finds_it_nor_logs_in() {
    let mut bench = Bench::of(Stage::Login, PLAIN, exports_with([None, None]), config());
    bench.feed(&crate::check::target::login_of(PLAIN, 0, 1));
    // As for a target that does not exist.
    let refused = LoginStatus::NOT_FOUND;
    assert_eq!(bench.end.error, Some(crate::PeerError::Login(refused)));
    for (rights, is_told) in [([None, None], false), ([None, READ], true)] {
        for asked in ["SendTargets=All\0".to_owned(), format!("SendTargets={TARGET}\0")] {
            let mut bench = Bench::of(Stage::Discovery, PLAIN, exports_with(rights), config());
            let mut request = TextRequest::new(FINAL, 5, crate::pdu::NO_TAG);
            request.opcode = OpcodeByte::new(Opcode::TEXT_REQUEST);
            request.cmd_sn = number(0);
            bench.send(request.as_bytes(), asked.as_bytes());
            let told = String::from_utf8(said_once(&mut bench).data).unwrap();
            assert_eq!(told.contains(TARGET), is_told, "{told}");
        }
    }
}

#[test]
fn a_change_of_rights_is_reported_and_the_session_stays() {
    let mut bench = bench([WRITE, WRITE]);
    // One unit less: the other one says that the inventory has changed, and the initiator is told at once.
    bench.end.session.set_exports(Arc::new(exports_with([WRITE, None])));
    assert_eq!(opcodes(&said(&mut bench)), [Opcode::ASYNC]);
    assert_eq!(sense(&answer(&mut bench, &test_unit_ready(0))), [6, 0x3F, 0x0E]);
    assert_eq!(status(&answer(&mut bench, &test_unit_ready(1))), 0);
    assert_eq!(luns(&mut bench, 2), [0]);
    // The unit becomes write protected: MODE PARAMETERS CHANGED.
    bench.end.session.set_exports(Arc::new(exports_with([READ, None])));
    assert_eq!(opcodes(&said(&mut bench)), [Opcode::NOP_IN; 0]);
    assert_eq!(sense(&answer(&mut bench, &test_unit_ready(3))), [6, 0x2A, 1]);
    // No unit at all, and then both again.
    bench.end.session.set_exports(Arc::new(exports_with([None, None])));
    said(&mut bench);
    assert_eq!(sense(&answer(&mut bench, &test_unit_ready(4))), [5, 0x25, 0]);
    assert_eq!(luns(&mut bench, 5), [0; 0]);
    bench.end.session.set_exports(Arc::new(exports(2)));
    assert_eq!(opcodes(&said(&mut bench)), [Opcode::ASYNC]);
    assert_eq!(sense(&answer(&mut bench, &test_unit_ready(6))), [6, 0x3F, 0x0E]);
    assert_eq!(luns(&mut bench, 7), [0, 1]);
    assert_eq!(bench.end.error, None);
}

#[test]
fn an_initiator_that_holds_data_back_does_not_keep_a_right_that_it_has_lost() {
    let cases: [([Option<HostRight>; 2], [u8; 3]); 2] =
        [([None, WRITE], [5, 0x25, 0]), ([READ, WRITE], [7, 0x27, 0])];
    for (rights, expected) in cases {
        let mut bench = bench([WRITE, WRITE]);
        bench.send(write(0, 0, 2).as_bytes(), &[]);
        let r2t = said_once(&mut bench);
        assert_eq!(r2t.opcode(), Opcode::R2T);
        let tag = r2t.of::<R2t>().ttt.get();
        bench.end.session.set_exports(Arc::new(exports_with(rights)));
        bench.take_demands();
        let pdus = said(&mut bench);
        let refused = pdus.iter().find(|pdu| pdu.opcode() == Opcode::SCSI_RESPONSE).unwrap();
        assert_eq!(sense(refused), expected);
        // The data that comes nevertheless is dropped.
        bench.send(data_out(0, tag, 0, 0, FINAL).as_bytes(), &[9; 1024]);
        assert_eq!((bench.demands.len(), bench.end.error), (0, None));
    }
}
