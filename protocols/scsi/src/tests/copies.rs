//! Third-party copies.

use nearflash_request::{Completion, Outcome, Payload, Tag};

use super::{PROTECTED, SOFTWARE_PROTECTED, Session, THIN};
use crate::limits::{COPY_DESCRIPTORS_LEN_MAX, COPY_ENDS_MAX, COPY_SEGMENTS_MAX};
use crate::{CopyState, Failure, Sense, Series, Task};

/// A target descriptor of the session's unit, by its NAA designator.
fn end() -> Vec<u8> {
    let data = Session::new(THIN).data(&[0x12, 1, 0x83, 0, 255, 0]);
    let naa = &data[4..4 + 12];
    let mut end = vec![0xE4, 0, 0, 0];
    end.extend(naa);
    end.resize(28, 0);
    end.extend(512_u32.to_be_bytes());
    end
}

fn segment(source: u64, destination: u64, count: u16) -> Vec<u8> {
    let mut segment = vec![2, 0, 0, 24, 0, 0, 0, 0, 0, 0];
    segment.extend(count.to_be_bytes());
    segment.extend(source.to_be_bytes());
    segment.extend(destination.to_be_bytes());
    segment
}

/// A parameter list with this list identifier and LIST ID USAGE.
fn list(id: u8, usage: u8, ends: &[Vec<u8>], segments: &[Vec<u8>]) -> Vec<u8> {
    let (ends, segments) = (ends.concat(), segments.concat());
    let mut list = vec![id, usage << 3];
    list.extend(u16::try_from(ends.len()).unwrap().to_be_bytes());
    list.extend([0; 4]);
    list.extend(u32::try_from(segments.len()).unwrap().to_be_bytes());
    list.extend([0; 4]);
    [list, ends, segments].concat()
}

fn ask(session: &Session, list: &[u8]) -> Result<Task, Sense> {
    let mut cdb = [0; 16];
    cdb[0] = 0x83;
    cdb[10..14].copy_from_slice(&u32::try_from(list.len()).unwrap().to_be_bytes());
    session.ask_with(&cdb, list)
}

fn status(session: &Session, id: u8) -> Result<Task, Sense> {
    session.ask(&[0x84, 0, id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0])
}

#[test]
fn a_copy_can_be_followed_from_its_beginning_to_its_end_and_after() {
    let session = Session::new(THIN);
    assert_eq!(status(&session, 7), Err(Sense::cdb_field(2, 7)));
    let segments = [segment(0, 3000, 10), segment(100, 200, 1)];
    let task = ask(&session, &list(7, 0, &[end()], &segments));
    let Ok(Task::Copy(task)) = task else { panic!("{task:?}") };
    assert_eq!(ask(&session, &list(7, 0, &[end()], &segments)), Err(Sense::OPERATION_IN_PROGRESS));
    let told =
        |session: &Session| session.data(&[0x84, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0]);
    assert_eq!(told(&session), [0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0]);
    let mut series = Series::of_copy(task.clone()).unwrap();
    assert!(series.advance() && !series.advance());
    session.copies.note(task.id.unwrap(), series.progress(CopyState::Done));
    assert_eq!(told(&session), [0, 0, 0, 8, 1, 0, 2, 1, 0, 0, 0, 5]);
}

#[test]
fn a_copy_without_a_name_is_not_remembered() {
    let session = Session::new(THIN);
    let segments = [segment(0, 9, 1)];
    assert!(matches!(ask(&session, &list(0, 3, &[end()], &segments)), Ok(Task::Copy(_))));
    assert!(status(&session, 0).is_err());
    let named = ask(&session, &list(1, 3, &[end()], &segments));
    assert_eq!(named, Err(Sense::parameter_field(0, 7)));
    let reserved = ask(&session, &list(1, 1, &[end()], &segments));
    assert_eq!(reserved, Err(Sense::parameter_field(1, 4)));
}

#[test]
fn lists_are_as_long_as_they_say_and_no_longer_than_is_told() {
    let session = Session::new(THIN);
    let whole = list(1, 0, &[end()], &[segment(0, 9, 1)]);
    for len in [1, 15, 16, 16 + 31, whole.len() - 1] {
        let told = match ask_short(&session, &whole[..len]) {
            Ok(other) => panic!("{other:?}"),
            Err(sense) => sense,
        };
        assert_eq!(told, Sense::PARAMETER_LIST_LENGTH, "{len}");
    }
    let ends = vec![end(); COPY_ENDS_MAX + 1];
    let told = ask(&session, &list(1, 0, &ends, &[segment(0, 9, 1)]));
    assert_eq!(told, Err(Sense::TOO_MANY_TARGET_DESCRIPTORS));
    let segments = vec![segment(0, 9, 1); COPY_SEGMENTS_MAX + 1];
    let told = ask(&session, &list(1, 0, &[end()], &segments));
    assert_eq!(told, Err(Sense::TOO_MANY_SEGMENT_DESCRIPTORS));
    let longer = list(1, 0, &ends, &segments);
    assert!(longer.len() > COPY_DESCRIPTORS_LEN_MAX + 16);
    assert_eq!(ask_short(&session, &longer), Err(Sense::PARAMETER_LIST_LENGTH));
}

/// Sends a list that may be refused because of its length alone.
fn ask_short(session: &Session, list: &[u8]) -> Result<Task, Sense> {
    let mut cdb = [0; 16];
    cdb[0] = 0x83;
    cdb[10..14].copy_from_slice(&u32::try_from(list.len()).unwrap().to_be_bytes());
    session.ask(&cdb)?;
    session.ask_with(&cdb, list)
}

#[test]
fn what_a_segment_names_has_to_be_there_and_to_be_writable() {
    let session = Session::new(THIN); // 4000 blocks
    let named = |segment| ask(&session, &list(0, 3, &[end()], &[segment]));
    for (source, destination) in [(3999, 0), (0, 3999), (u64::MAX, 0)] {
        assert_eq!(named(segment(source, destination, 2)), Err(Sense::COPY_ABORTED));
    }
    let mut elsewhere = segment(0, 1, 1);
    elsewhere[7] = 1;
    assert_eq!(named(elsewhere), Err(Sense::COPY_TARGET_NOT_REACHABLE));
    let mut stranger = end();
    stranger[8] ^= 1;
    let told = ask(&session, &list(0, 3, &[stranger], &[segment(0, 1, 1)]));
    assert_eq!(told, Err(Sense::COPY_TARGET_NOT_REACHABLE));
    let mut tape = end();
    tape[1] = 1;
    let told = ask(&session, &list(0, 3, &[tape], &[segment(0, 1, 1)]));
    assert_eq!(told, Err(Sense::INCORRECT_COPY_TARGET_TYPE));
    let mut port = end();
    port[0] = 0xE0;
    let told = ask(&session, &list(0, 3, &[port], &[segment(0, 1, 1)]));
    assert_eq!(told, Err(Sense::UNSUPPORTED_TARGET_DESCRIPTOR));
    let stream = vec![3, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(named(stream), Err(Sense::UNSUPPORTED_SEGMENT_DESCRIPTOR));
    for (kind, sense) in [
        (PROTECTED | THIN, Sense::WRITE_PROTECTED),
        (SOFTWARE_PROTECTED | THIN, Sense::SOFTWARE_WRITE_PROTECTED),
    ] {
        let told = ask(&Session::new(kind), &list(0, 3, &[end()], &[segment(0, 1, 1)]));
        assert_eq!(told, Err(sense));
    }
}

#[test]
fn what_stops_a_copy_is_told_as_such() {
    let session = Session::new(THIN);
    let task = ask(&session, &list(0, 3, &[end()], &[segment(0, 9, 1), segment(20, 30, 1)]));
    let Ok(Task::Copy(task)) = task else { panic!("{task:?}") };
    let mut series = Series::of_copy(task).unwrap();
    let answer = |series: &Series, outcome| {
        series.answer(&Completion { tag: Tag(0), outcome, payload: Payload::None })
    };
    assert_eq!(answer(&series, Outcome::Success), Ok(()));
    assert_eq!(answer(&series, Outcome::ReservationConflict), Err(Failure::Conflict));
    assert!(series.advance());
    for (outcome, sense) in [
        (Outcome::ReservationConflict, Sense::COPY_DEVICE_FAILURE),
        (Outcome::WriteFault, Sense::COPY_DEVICE_FAILURE),
        (Outcome::VolumeGone, Sense::COPY_TARGET_NOT_REACHABLE),
    ] {
        assert_eq!(answer(&series, outcome), Err(Failure::Check(sense)));
    }
}

#[test]
fn limits_are_told_in_the_operating_parameters_and_in_vpd_page_8f() {
    let session = Session::new(THIN);
    let data = session.data(&[0x84, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0]);
    assert_eq!(data.len(), 46);
    assert_eq!(data[..4], [0, 0, 0, 42]);
    assert_eq!(data[8..12], [0, 8, 0, 16]);
    assert_eq!(data[12..20], [0, 0, 2, 192, 0x10, 0, 0, 0]);
    assert_eq!(data[34..38], [0, 16, 16, 20]);
    assert_eq!(data[43..], [2, 0x02, 0xE4]);
    let page = session.data(&[0x12, 1, 0x8F, 4, 0, 0]);
    assert_eq!(usize::from(u16::from_be_bytes([page[2], page[3]])) + 4, page.len());
    let mut rest = &page[4..];
    let mut kinds = Vec::new();
    while let [high, low, a, b, behind @ ..] = rest {
        kinds.push(u16::from_be_bytes([*high, *low]));
        let len = u16::from_be_bytes([*a, *b]);
        assert_eq!(len % 4, 0);
        rest = &behind[usize::from(len)..];
    }
    assert_eq!(kinds, [0x0001, 0x0004, 0x0008, 0x8001]);
    assert_eq!(session.data(&[0x12, 0, 0, 0, 96, 0])[5] & 0x08, 0x08);
}
