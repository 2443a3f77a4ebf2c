//! Commands on blocks.

use nearflash_request::{Access, BlockRange, Completion, Outcome, Payload, Tag};
use nearflash_units::{Blocks, ByteLen, Lba};

use super::{PROTECTED, SOFTWARE_PROTECTED, Session, THICK, THIN};
use crate::{Action, Failure, RequestTask, Sense, SenseKey, Status, Task};

const fn range(start: u64, count: u64) -> BlockRange {
    BlockRange { start: Lba(start), count: Blocks(count) }
}

fn ended(outcome: Outcome, payload: Payload) -> Completion {
    Completion { tag: Tag(0), outcome, payload }
}

#[test]
fn reads_of_every_length_of_command_ask_for_the_same() {
    let session = Session::new(THIN);
    let ten = session.request(&[0x28, 0x18, 0, 0, 1, 2, 0, 0, 3, 0]);
    assert_eq!((ten.action.clone(), ten.range), (Action::Read, range(0x102, 3)));
    assert_eq!((ten.data_in, ten.data_out), (ByteLen(1536), ByteLen(0)));
    assert_eq!(session.request(&[0x08, 0, 1, 2, 3, 0]), ten);
    assert_eq!(session.request(&[0xA8, 0, 0, 0, 1, 2, 0, 0, 0, 3, 0, 0]), ten);
    let sixteen = [0x88, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 3, 0, 0];
    assert_eq!(session.request(&sixteen), ten);
}

#[test]
fn a_count_of_zero_is_256_in_six_bytes_and_none_in_ten() {
    let session = Session::new(THIN);
    assert_eq!(session.request(&[0x08, 0, 0, 0, 0, 0]).range.count, Blocks(256));
    let none = session.request(&[0x28, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(none.action, Action::Admit(Access::Read));
}

#[test]
fn a_unit_ends_where_its_capacity_says() {
    let session = Session::new(THIN); // 4000 blocks
    let read = |start: u16, count: u8| {
        let [high, low] = start.to_be_bytes();
        session.ask(&[0x28, 0, 0, 0, high, low, 0, 0, count, 0])
    };
    assert!(read(3999, 1).is_ok());
    assert!(read(4000, 0).is_ok());
    for (start, count) in [(3999, 2), (4000, 1), (4001, 0)] {
        let sense = Sense::LBA_OUT_OF_RANGE.with_information(u64::from(start));
        assert_eq!(read(start, count), Err(sense));
    }
    let far = [0x88, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 1, 0, 0];
    assert_eq!(session.ask(&far), Err(Sense::LBA_OUT_OF_RANGE.with_information(u64::MAX)));
}

#[test]
fn protection_is_refused_wherever_it_can_be_asked_for() {
    let session = Session::new(THIN);
    for opcode in [
        0x28, 0x2A, 0x2E, 0x2F, 0x41, 0x88, 0x89, 0x8A, 0x8B, 0x8E, 0x8F, 0x93, 0xA8, 0xAA, 0xAE,
        0xAF,
    ] {
        for protect in 1..8 {
            let refused = session.ask(&[opcode, protect << 5]);
            assert_eq!(refused, Err(Sense::cdb_field(1, 7)), "{opcode:#04x}");
        }
    }
}

#[test]
fn force_unit_access_reaches_the_write() {
    let session = Session::new(THICK);
    for (flags, force_unit_access) in [(0x00, false), (0x10, false), (0x08, true), (0x1A, true)] {
        let task = session.request(&[0x2A, flags, 0, 0, 0, 0, 0, 0, 1, 0]);
        assert_eq!(task.action, Action::Write { force_unit_access });
        assert_eq!(task.data_out, ByteLen(512));
        let mut or_write = [0x8B, flags, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0];
        assert_eq!(session.request(&or_write).action, Action::OrWrite { force_unit_access });
        or_write[0] = 0x89;
        let task = session.request(&or_write);
        assert_eq!(task.action, Action::CompareAndWrite { force_unit_access });
    }
}

#[test]
fn nothing_is_written_to_a_unit_that_is_protected() {
    for (kind, sense) in [
        (THIN | PROTECTED, Sense::WRITE_PROTECTED),
        (THIN | SOFTWARE_PROTECTED, Sense::SOFTWARE_WRITE_PROTECTED),
    ] {
        let session = Session::new(kind);
        for opcode in [0x0A, 0x2A, 0x2E, 0x41, 0x42, 0x89, 0x8A, 0x8B, 0x8E, 0x93, 0xAA, 0xAE] {
            assert_eq!(session.ask(&[opcode]), Err(sense), "{opcode:#04x}");
        }
        assert!(session.ask(&[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0]).is_ok());
        assert!(session.ask(&[0x2F, 0, 0, 0, 0, 0, 0, 0, 1, 0]).is_ok());
    }
}

#[test]
fn a_transfer_is_as_long_as_the_limits_page_says_at_most() {
    let large = Session::new(THIN | 1); // 4096 bytes a block
    let longest = [0x88, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x08, 0x00, 0, 0];
    assert_eq!(large.request(&longest).data_in, ByteLen(8 << 20));
    let longer = [0x88, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x08, 0x01, 0, 0];
    assert_eq!(large.ask(&longer), Err(Sense::cdb_field(10, 7)));
    let compare = [0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 129, 0, 0];
    assert_eq!(large.ask(&compare), Err(Sense::cdb_field(13, 7)));
}

#[test]
fn compare_and_write_brings_two_buffers_of_the_same_length() {
    let session = Session::new(THICK);
    let task = session.request(&[0x89, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 3, 0, 0]);
    assert_eq!((task.range, task.data_out), (range(9, 3), ByteLen(3072)));
    assert_eq!((task.buffer_count(), task.buffer_len()), (2, ByteLen(1536)));
    let differs = task.answer(&ended(Outcome::Miscompare, Payload::Differs(700)));
    assert_eq!(differs, Err(Failure::Check(Sense::MISCOMPARE.with_information(700))));
}

#[test]
fn a_verification_that_fails_names_the_block() {
    let session = Session::new(THICK);
    let task = session.request(&[0x2F, 0x02, 0, 0, 0, 5, 0, 0, 3, 0]);
    assert_eq!((task.action.clone(), task.data_out), (Action::Compare, ByteLen(1536)));
    let differs = task.answer(&ended(Outcome::Miscompare, Payload::Differs(700)));
    assert_eq!(differs, Err(Failure::Check(Sense::MISCOMPARE.with_information(6))));
}

#[test]
fn byte_checks_are_none_all_or_one_block_over_and_over() {
    let session = Session::new(THICK);
    let with = |flags| [0xAF, flags, 0, 0, 0, 5, 0, 0, 0x08, 0x20, 0, 0]; // 2080 blocks
    let medium = session.request(&with(0));
    assert_eq!((medium.action, medium.data_out), (Action::Verify, ByteLen(0)));
    let same = session.request(&with(6));
    assert_eq!((same.action, same.data_out), (Action::CompareSame, ByteLen(512)));
    assert_eq!(session.ask(&with(4)), Err(Sense::cdb_field(1, 2)));
    let large = Session::new(THICK | 1); // more than a transfer
    assert_eq!(large.ask(&with(2)), Err(Sense::cdb_field(6, 7)));
    let written = |flags| session.ask(&[0x2E, flags, 0, 0, 0, 5, 0, 0, 1, 0]);
    assert_eq!(written(4), Err(Sense::cdb_field(1, 2)));
    let Ok(Task::Request(task)) = written(2) else { panic!() };
    assert_eq!(task.action, Action::WriteAndVerify { compare: true });
}

#[test]
fn write_same_of_no_count_goes_to_the_end_if_that_is_not_too_far() {
    let session = Session::new(THIN);
    let task = session.request(&[0x41, 0, 0, 0, 0x0F, 0x00, 0, 0, 0, 0]);
    assert_eq!((task.action, task.range), (Action::WriteSame, range(3840, 160)));
    assert_eq!(task.data_out, ByteLen(512));
    let blocks = Blocks(1 << 30);
    let large = Session::of(crate::LogicalUnit { blocks, ..crate::check::unit(THIN) });
    let refused = large.ask(&[0x41, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(refused, Err(Sense::cdb_field(7, 7)));
}

#[test]
fn write_same_refuses_what_the_unit_cannot() {
    let (thin, thick) = (Session::new(THIN), Session::new(THICK));
    let with = |flags| [0x93, flags, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0];
    assert_eq!(thin.ask(&with(0x10)), Err(Sense::cdb_field(1, 4))); // ANCHOR
    assert_eq!(thin.ask(&with(0x18)), Err(Sense::cdb_field(1, 4)));
    assert_eq!(thick.ask(&with(0x08)), Err(Sense::cdb_field(1, 3))); // UNMAP
    let ten = [0x41, 0x08, 0, 0, 0, 0, 0, 0, 8, 0];
    assert_eq!(thin.ask(&ten), Err(Sense::cdb_field(1, 3)));
    assert_eq!(thick.ask(&with(0x02)), Err(Sense::cdb_field(1, 1))); // LBDATA
    let RequestTask { action, data_out, .. } = thin.request(&with(0x09)); // UNMAP, NDOB
    assert_eq!((action, data_out), (Action::WriteZeroes { deallocate: true }, ByteLen(0)));
}

fn unmap_list(descriptors: &[(u64, u32)]) -> Vec<u8> {
    let len = u16::try_from(descriptors.len() * 16).unwrap();
    let mut list = (len + 6).to_be_bytes().to_vec();
    list.extend(len.to_be_bytes());
    list.extend([0; 4]);
    for (start, count) in descriptors {
        list.extend(start.to_be_bytes());
        list.extend(count.to_be_bytes());
        list.extend([0; 4]);
    }
    list
}

fn unmap(session: &Session, list: &[u8]) -> Result<Task, Sense> {
    let [high, low] = u16::try_from(list.len()).unwrap().to_be_bytes();
    session.ask_with(&[0x42, 0, 0, 0, 0, 0, 0, high, low, 0], list)
}

#[test]
fn unmap_releases_what_its_descriptors_say() {
    let session = Session::new(THIN);
    let Ok(Task::Request(task)) = unmap(&session, &unmap_list(&[(3, 4), (9, 0), (3998, 2)])) else {
        panic!()
    };
    let ranges = Box::new([range(3, 4), range(3998, 2)]);
    assert_eq!(task.action, Action::Deallocate(ranges));
    for empty in [&[][..], &[(0, 0)], &[(4000, 0)]] {
        let Ok(Task::Request(task)) = unmap(&session, &unmap_list(empty)) else { panic!() };
        assert_eq!(task.action, Action::Admit(Access::Write));
    }
}

#[test]
fn unmap_refuses_what_is_out_of_range_too_much_or_cut() {
    let session = Session::new(THIN);
    let out = unmap(&session, &unmap_list(&[(3999, 2)]));
    assert_eq!(out, Err(Sense::LBA_OUT_OF_RANGE.with_information(3999)));
    let list = unmap_list(&[(0, 1)]);
    assert_eq!(unmap(&session, &list[..20]), Err(Sense::PARAMETER_LIST_LENGTH));
    let long = [0x42, 0, 0, 0, 0, 0, 0, 0x10, 0x18, 0]; // 257 descriptors
    assert_eq!(session.ask(&long), Err(Sense::INVALID_FIELD_IN_PARAMETERS));
    assert_eq!(session.ask(&[0x42, 1, 0, 0, 0, 0, 0, 0, 24, 0]), Err(Sense::cdb_field(1, 0)));
    let short = [0x42, 0, 0, 0, 0, 0, 0, 0, 7, 0];
    assert_eq!(session.ask(&short), Err(Sense::PARAMETER_LIST_LENGTH));
    let blocks = Blocks(1 << 30);
    let large = Session::of(crate::LogicalUnit { blocks, ..crate::check::unit(THIN) });
    let much = unmap(&large, &unmap_list(&[(0, 1 << 20), (1 << 20, 1)]));
    assert_eq!(much, Err(Sense::parameter_field(32, 7)));
}

#[test]
fn lba_status_tells_the_run_that_begins_there() {
    let session = Session::new(THIN);
    let ask = |start, len| [0x9E, 0x12, 0, 0, 0, 0, 0, 0, 0, start, 0, 0, 0, len, 0, 0];
    let task = session.request(&ask(5, 24));
    assert_eq!((task.action.clone(), task.range), (Action::Allocation, range(5, 3995)));
    let run = Payload::Allocation { mapped: false, blocks: Blocks(3) };
    let data = task.answer(&ended(Outcome::Success, run)).unwrap();
    assert_eq!(data.len(), 24);
    assert_eq!(data[..8], [0, 0, 0, 20, 0, 0, 0, 0]);
    assert_eq!(data[8..], [0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 3, 1, 0, 0, 0]);
    let task = session.request(&ask(5, 10));
    assert_eq!(task.answer(&ended(Outcome::Success, run)).unwrap(), data[..10]);
    let end = [0x9E, 0x12, 0, 0, 0, 0, 0, 0, 0x0F, 0xA0, 0, 0, 0, 24, 0, 0];
    assert_eq!(session.ask(&end), Err(Sense::LBA_OUT_OF_RANGE.with_information(4000)));
}

#[test]
fn caches_are_flushed_and_filled_within_the_unit() {
    let session = Session::new(THICK);
    assert_eq!(session.request(&[0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0]).action, Action::Flush);
    let prefetch = session.request(&[0x34, 2, 0, 0, 0x0F, 0xA0, 0, 0, 0, 0]);
    assert_eq!(prefetch.action, Action::Admit(Access::Read));
    for opcode in [0x34, 0x35] {
        let out = session.ask(&[opcode, 0, 0, 0, 0x0F, 0xA0, 0, 0, 1, 0]);
        assert_eq!(out, Err(Sense::LBA_OUT_OF_RANGE.with_information(4000)));
        let out = session.ask(&[opcode, 0, 0, 0, 0x0F, 0xA1, 0, 0, 0, 0]);
        assert_eq!(out, Err(Sense::LBA_OUT_OF_RANGE.with_information(4001)));
    }
}

#[test]
fn every_outcome_has_a_status_of_its_own() {
    let task = Session::new(THIN).request(&[0x28, 0, 0, 0, 0, 5, 0, 0, 1, 0]);
    let of = |outcome| {
        task.answer(&ended(outcome, Payload::None)).map_err(|failure| {
            (failure.status(), failure.sense().map(|sense| (sense.key, sense.code.0)))
        })
    };
    let check = |key, code| Err((Status::CHECK_CONDITION, Some((key, code))));
    assert_eq!(of(Outcome::Success), Ok(Vec::new()));
    assert_eq!(of(Outcome::ReservationConflict), Err((Status::RESERVATION_CONFLICT, None)));
    assert_eq!(of(Outcome::Aborted), Err((Status::TASK_ABORTED, None)));
    assert_eq!(of(Outcome::OutOfRange), check(SenseKey::ILLEGAL_REQUEST, 0x2100));
    assert_eq!(of(Outcome::VolumeGone), check(SenseKey::ILLEGAL_REQUEST, 0x2500));
    assert_eq!(of(Outcome::CapacityExceeded), check(SenseKey::DATA_PROTECT, 0x2707));
    assert_eq!(of(Outcome::WriteProtected), check(SenseKey::DATA_PROTECT, 0x2702));
    assert_eq!(of(Outcome::UnrecoveredRead), check(SenseKey::MEDIUM_ERROR, 0x1100));
    assert_eq!(of(Outcome::WriteFault), check(SenseKey::MEDIUM_ERROR, 0x0C00));
    assert_eq!(of(Outcome::DeviceUnavailable), check(SenseKey::NOT_READY, 0x0400));
    assert_eq!(of(Outcome::PathLost), check(SenseKey::ABORTED_COMMAND, 0x0800));
    assert_eq!(of(Outcome::Unsupported), check(SenseKey::ILLEGAL_REQUEST, 0x2000));
}

#[test]
fn stopping_a_unit_makes_all_durable() {
    let stop = [0x1B, 0, 0, 0, 0, 0];
    assert_eq!(Session::new(THIN).request(&stop).action, Action::Flush);
    assert_eq!(Session::new(PROTECTED).request(&stop).action, Action::Admit(Access::Manage));
    let start = [0x1B, 0, 0, 0, 1, 0];
    assert_eq!(Session::new(THIN).request(&start).action, Action::Admit(Access::Look));
    let eject = [0x1B, 0, 0, 0, 2, 0];
    assert_eq!(Session::new(THIN).ask(&eject), Err(Sense::cdb_field(4, 1)));
}

#[test]
fn missing_data_is_left_out_by_blocks_and_of_a_plain_write_by_bytes() {
    let session = Session::new(THIN);
    let plain = session.request(&[0x2A, 0x08, 0, 0, 0, 5, 0, 0, 2, 0]);
    let bytes = plain.with_data_of(ByteLen(600)).unwrap();
    assert_eq!(bytes.action, Action::WriteBytes { len: 600, force_unit_access: true });
    assert_eq!((bytes.range, bytes.data_out), (range(5, 2), ByteLen(600)));
    assert_eq!((bytes.buffer_count(), bytes.buffer_len()), (1, ByteLen(1024)));
    let write = session.request(&[0x2E, 0x02, 0, 0, 0, 5, 0, 0, 2, 0]);
    assert_eq!(write.clone().with_data_of(ByteLen(10_000)), Ok(write.clone()));
    let one = write.clone().with_data_of(ByteLen(512)).unwrap();
    assert_eq!(
        (one.range, one.data_out, one.action),
        (range(5, 1), ByteLen(512), write.action.clone())
    );
    let none = write.clone().with_data_of(ByteLen(0)).unwrap();
    assert_eq!((none.action.clone(), none.buffer_count()), (Action::Admit(Access::Write), 0));
    assert_eq!(write.with_data_of(ByteLen(600)), Err(Sense::INVALID_INFORMATION_UNIT));
    let compare = session.request(&[0x89, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 3, 0, 0]);
    for brought in [0, 1024, 4096] {
        let refused = compare.clone().with_data_of(ByteLen(brought));
        assert_eq!(refused, Err(Sense::cdb_field(13, 7)));
    }
    // 256 blocks do not fit into the 8-bit count.
    let none = session.request(&[0x89, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0]);
    assert_eq!(none.clone().with_data_of(ByteLen(0)), Ok(none.clone()));
    assert_eq!(none.with_data_of(ByteLen(262_144)), Err(Sense::cdb_field(13, 7)));
}
