//! Persistent reservations, and those of SPC-2.

use nearflash_request::{
    ChangeKind, ChangeResult, Expected, Identity, Nexus, Refusal, Registrant, Report,
    ReservationType,
};

use super::{Session, THIN};
use crate::{ChangeTask, Failure, Sense, Task};

fn change(task: Result<Task, Sense>) -> ChangeTask {
    match task {
        Ok(Task::Change(change)) => change,
        other => panic!("{other:?}"),
    }
}

fn read_in(action: u8, len: u8) -> ChangeTask {
    change(Session::new(THIN).ask(&[0x5E, action, 0, 0, 0, 0, 0, 0, len, 0]))
}

fn out(action: u8, scope_and_type: u8, flags: u8) -> Result<Task, Sense> {
    let mut list = [0; 24];
    list[7] = 1; // key
    list[15] = 2; // service action key
    list[20] = flags;
    let cdb = [0x5F, action, scope_and_type, 0, 0, 0, 0, 0, 24, 0];
    Session::new(THIN).ask_with(&cdb, &list)
}

fn registrant(key: u64, holds: bool) -> Registrant {
    let initiator = "iqn.2026-11.io.example:a".into();
    let identity = Identity::Iscsi { initiator, isid: [0, 2, 0x3D, 0, 0, 1], portal_group: 1 };
    Registrant { nexus: Nexus(u128::from(key)), identity, key, holds }
}

fn report(reservation: Option<ReservationType>) -> ChangeResult {
    ChangeResult::Report(Box::new(Report {
        generation: 5,
        reservation,
        persists: true,
        registrants: vec![registrant(0xA, false), registrant(0xB, reservation.is_some())],
    }))
}

#[test]
fn keys_are_cut_and_their_length_is_not() {
    let whole = read_in(0, 255).answer(&report(None)).unwrap();
    let expected = [0, 0, 0, 5, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0xA, 0, 0, 0, 0, 0, 0, 0, 0xB];
    assert_eq!(whole, expected);
    assert_eq!(read_in(0, 8).answer(&report(None)).unwrap(), expected[..8]);
}

#[test]
fn a_reservation_is_told_with_its_holder_unless_all_hold_it() {
    let read = read_in(1, 255);
    assert_eq!(read.answer(&report(None)).unwrap(), [0, 0, 0, 5, 0, 0, 0, 0]);
    let held = read.answer(&report(Some(ReservationType::ExclusiveAccess))).unwrap();
    assert_eq!(held[4..], [0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0xB, 0, 0, 0, 0, 0, 3, 0, 0]);
    let shared = read.answer(&report(Some(ReservationType::WriteExclusiveAllRegistrants)));
    assert_eq!(shared.unwrap()[8..], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0]);
}

#[test]
fn capabilities_name_every_type_and_what_persists() {
    let data = read_in(2, 255).answer(&report(None)).unwrap();
    assert_eq!(data, [0, 8, 0x15, 0x81, 0xEA, 0x01, 0, 0]);
}

#[test]
fn full_status_names_every_registrant() {
    let held = report(Some(ReservationType::WriteExclusive));
    let data =
        change(Session::new(THIN).ask(&[0x5E, 3, 0, 0, 0, 0, 0, 1, 0, 0])).answer(&held).unwrap();
    let len = usize::try_from(u32::from_be_bytes([data[4], data[5], data[6], data[7]])).unwrap();
    assert_eq!(len + 8, data.len());
    let second = &data[8 + len / 2..];
    assert_eq!(second[..8], [0, 0, 0, 0, 0, 0, 0, 0xB]);
    assert_eq!(second[12..14], [1, 1]); // holds it; write exclusive
    assert_eq!(second[18..24], [0, 1, 0, 0, 0, 48]); // port 1, length of the TransportID
    assert!(second[28..].starts_with(b"iqn.2026-11.io.example:a,i,0x00023d000001\0"));
}

#[test]
fn every_service_action_is_the_change_it_says() {
    let kind = |action, kind, flags| change(out(action, kind, flags)).kind;
    let register =
        |expected, persist| ChangeKind::Register { expected, new: 2, persist: Some(persist) };
    assert_eq!(kind(0, 0, 0), register(Expected::Key(1), false));
    assert_eq!(kind(6, 0, 0x05), register(Expected::Anything, true));
    let reservation = ReservationType::ExclusiveAccessRegistrantsOnly;
    assert_eq!(kind(1, 6, 0), ChangeKind::Reserve { key: 1, reservation });
    assert_eq!(kind(2, 6, 0), ChangeKind::Release { key: 1, reservation });
    assert_eq!(kind(3, 0xFF, 0), ChangeKind::Clear { key: 1 });
    for (action, abort) in [(4, false), (5, true)] {
        let preempt = ChangeKind::Preempt { key: 1, victim: 2, reservation, abort };
        assert_eq!(kind(action, 6, 0), preempt);
    }
    let mut first = [0; 24];
    first[15] = 2;
    let cdb = [0x5F, 0, 0, 0, 0, 0, 0, 0, 24, 0];
    let first = change(Session::new(THIN).ask_with(&cdb, &first)).kind;
    assert_eq!(first, register(Expected::Nothing, false));
}

#[test]
fn wrong_scopes_types_lengths_and_others_names_are_refused() {
    for action in [1, 2, 4, 5] {
        let cdb = |scope_and_type| [0x5F, action, scope_and_type, 0, 0, 0, 0, 0, 24, 0];
        let session = Session::new(THIN);
        assert_eq!(session.ask(&cdb(0x11)), Err(Sense::cdb_field(2, 7)));
        assert_eq!(session.ask(&cdb(0x02)), Err(Sense::cdb_field(2, 3)));
    }
    assert_eq!(out(0, 0, 0x08), Err(Sense::parameter_field(20, 3))); // SPEC_I_PT
    for len in [0, 23] {
        let cut = Session::new(THIN).ask(&[0x5F, 0, 0, 0, 0, 0, 0, 0, len, 0]);
        assert_eq!(cut, Err(Sense::PARAMETER_LIST_LENGTH));
    }
    let long = Session::new(THIN).ask_with(&[0x5F, 0, 0, 0, 0, 0, 0, 0, 28, 0], &[0; 28]);
    assert_eq!(long, Err(Sense::PARAMETER_LIST_LENGTH));
    let moved = Session::new(THIN).ask(&[0x5F, 7, 0, 0, 0, 0, 0, 0, 24, 0]);
    assert_eq!(moved, Err(Sense::cdb_field(1, 4))); // REGISTER AND MOVE
}

#[test]
fn the_older_reservation_is_of_the_whole_unit_and_for_the_sender() {
    let session = Session::new(THIN);
    for (opcode, kind) in [
        (0x16, ChangeKind::LegacyReserve),
        (0x17, ChangeKind::LegacyRelease),
        (0x56, ChangeKind::LegacyReserve),
        (0x57, ChangeKind::LegacyRelease),
    ] {
        assert_eq!(change(session.ask(&[opcode])).kind, kind);
        assert_eq!(session.ask(&[opcode, 0x10]), Err(Sense::cdb_field(1, 4)));
        assert_eq!(session.ask(&[opcode, 0x01]), Err(Sense::cdb_field(1, 0)));
    }
}

#[test]
fn what_cannot_be_changed_is_a_conflict_or_has_sense() {
    let task = change(out(2, 1, 0));
    assert_eq!(task.answer(&ChangeResult::Done), Ok(Vec::new()));
    assert_eq!(task.answer(&ChangeResult::Conflict), Err(Failure::Conflict));
    let refused = |refusal| task.answer(&ChangeResult::Refused(refusal)).unwrap_err().sense();
    assert_eq!(refused(Refusal::WrongType), Some(Sense::INVALID_RELEASE));
    assert_eq!(refused(Refusal::InvalidKey), Some(Sense::parameter_field(8, 7)));
    assert_eq!(refused(Refusal::TooManyRegistrations), Some(Sense::NO_ROOM_TO_REGISTER));
    assert_eq!(refused(Refusal::VolumeGone), Some(Sense::NO_SUCH_UNIT));
}
