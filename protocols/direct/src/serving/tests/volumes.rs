//! Volumes are opened, change, and go.

use super::*;

fn open(volume: u16, name: &str) -> Vec<u8> {
    let header = RequestHeader { volume: U16::new(volume), ..header(77, 0, 0) };
    message(Opcode::OPEN, header, name.as_bytes(), Digests::NONE)
}

#[test]
fn an_opened_volume_says_what_it_is() {
    let mut bench = Bench::new(KEYED);
    let (header, payload) = bench.ask(&open(NEW_HANDLE, NAME));
    let (answer, _) = OpenAnswer::ref_from_prefix(&payload).unwrap();
    assert_eq!((header.value.get(), header.tag.get()), (1, 77));
    assert_eq!((answer.bytes.get(), answer.block_size.get()), (VOLUME_LEN, 512));
    assert_eq!((answer.epoch.get(), answer.uuid), (EPOCH, [9; 16]));
    assert_eq!(answer.rights, Rights::READ_WRITE);
}

#[test]
fn an_unknown_volume_is_not_opened() {
    let mut bench = Bench::new(OPEN);
    assert_eq!(bench.status_of(&open(NEW_HANDLE, "date")), Status::NO_SUCH_VOLUME);
    assert_eq!(bench.status_of(&open(NEW_HANDLE, "")), Status::NO_SUCH_VOLUME);
}

#[test]
fn a_volume_without_a_grant_is_not_opened() {
    let mut bench = Bench::with(config(KEYED), granted(&[], false));
    prove(&mut bench, KEYED, &secret());
    bench.answer();
    assert_eq!(bench.status_of(&open(NEW_HANDLE, NAME)), Status::NOT_GRANTED);
    let unknown = bench.status_of(&open(NEW_HANDLE, "unknown"));
    assert_eq!(unknown, Status::NOT_GRANTED, "the client does not learn which names exist");
    for _ in 0..40 {
        assert_eq!(bench.status_of(&open(NEW_HANDLE, "again")), Status::NOT_GRANTED);
    }
    let names = [NAME, "unknown", "again"].map(|name| format!("Refused({name:?})"));
    assert_eq!((&bench.demanded[..3], bench.demanded.len()), (&names[..], 16));
}

#[test]
fn more_volumes_than_agreed_are_not_open_at_a_time() {
    let mut bench = Bench::new(OPEN);
    for _ in 1..4 {
        assert_eq!(bench.status_of(&open(NEW_HANDLE, NAME)), Status::OK);
    }
    assert_eq!(bench.status_of(&open(NEW_HANDLE, NAME)), Status::BUSY);
    let close = RequestHeader { volume: U16::new(2), ..header(0, 0, 0) };
    let close = message(Opcode::CLOSE, close, &[], Digests::NONE);
    assert_eq!(bench.status_of(&close), Status::OK);
    assert_eq!(bench.ask(&open(NEW_HANDLE, NAME)).0.value.get(), 2);
}

#[test]
fn a_client_uses_a_volume_while_it_has_a_handle_that_is_good() {
    let mut bench = Bench::new(KEYED);
    assert!(bench.end.session.has_open(VOLUME));
    let no_grants = granted(&[], false);
    bench.end.session.set_exports(no_grants);
    assert!(!bench.end.session.has_open(VOLUME), "it cannot use it");
    bench.end.session.set_exports(granted(&[(0..512, Rights::READ)], false));
    assert!(bench.end.session.has_open(VOLUME));
    let close = message(Opcode::CLOSE, header(0, 0, 0), &[], Digests::NONE);
    assert_eq!(bench.status_of(&close), Status::OK);
    assert!(!bench.end.session.has_open(VOLUME));
}

#[test]
fn a_closed_handle_is_no_volume() {
    let mut bench = Bench::new(OPEN);
    let close = message(Opcode::CLOSE, header(0, 0, 0), &[], Digests::NONE);
    assert_eq!(bench.status_of(&close), Status::OK);
    assert_eq!(bench.status_of(&close), Status::NO_SUCH_VOLUME);
    assert_eq!(bench.status_of(&read(0, 0, 512)), Status::NO_SUCH_VOLUME);
}

#[test]
fn a_stale_epoch_is_told_the_current_one_and_cured_by_opening_again() {
    let mut bench = Bench::new(OPEN);
    bench.end.session.set_exports(Arc::new(exports(false, EPOCH + 1)));
    let (answer, _) = bench.ask(&read(1, 0, 512));
    assert_eq!(answer.status(), Status::STALE_EPOCH);
    assert_eq!(answer.value.get(), u64::from(EPOCH) + 1);
    let (opened, payload) = bench.ask(&open(0, NAME));
    let (info, _) = OpenAnswer::ref_from_prefix(&payload).unwrap();
    assert_eq!((opened.value.get(), info.epoch.get()), (0, EPOCH + 1));
    let header = RequestHeader { epoch: info.epoch, ..header(1, 0, 512) };
    let again = message(Opcode::READ, header, &[], Digests::NONE);
    assert_eq!(bench.status_of(&again), Status::OK);
}

/// STALE_EPOCH says that nothing was done: no answer to what is half done.
#[test]
fn a_write_that_has_begun_goes_on_when_the_epoch_changes() {
    let mut bench = Bench::new(OPEN);
    let seam = u64::from(SEGMENT_LEN_MAX);
    let bytes = write(1, seam - 512, &[7; 1024]);
    let first = bytes.len() - 512;
    bench.feed(&bytes[..first]);
    bench.settle();
    assert_eq!(bench.demanded.len(), 1, "all but the last block is on its way");
    bench.end.session.set_exports(Arc::new(exports(false, EPOCH + 1)));
    bench.feed(&bytes[first..]);
    bench.settle();
    assert_eq!(bench.answer().0.status(), Status::OK);
    assert_eq!(bench.status_of(&read(1, 0, 512)), Status::STALE_EPOCH, "what comes then");
    bench.end();
}

#[test]
fn a_removed_volume_is_gone_even_if_another_has_its_name() {
    let mut bench = Bench::new(OPEN);
    let other = Export { volume: nearflash_request::VolumeId(8), ..export() };
    bench.end.session.set_exports(Arc::new(Exports::new([(NAME.into(), other)], [])));
    assert_eq!(bench.status_of(&read(0, 0, 512)), Status::NO_SUCH_VOLUME);
}
