//! Reads that the device of the primary fails.

use super::*;

const FAILED: DeviceResult = DeviceResult::MediumError;
const UNREADABLE: DeviceResult = DeviceResult::Remote(Outcome::UnrecoveredRead);

/// A primary whose other replica is in sync.
fn in_sync() -> MirrorEntry {
    let entry = entry(Role::Primary);
    let remotes = entry.remotes.map(|it| it.map(|remote| Remote { has_all: true, ..remote }));
    MirrorEntry { needs_lease: true, remotes, ..entry }
}

/// A primary that asks the other replica for what its own device could not read.
fn failed() -> (Mirrors, DeviceRequest) {
    let mut mirrors = mirrors(in_sync());
    mirrors.set_leases(&[(MirrorId(0), HOLD)]);
    mirrors.submit(MirrorId(0), request(0, read()));
    let local = submitted(&mut mirrors).request.id;
    mirrors.handle_device(local, FAILED);
    let there = submitted(&mut mirrors);
    assert_eq!(there.cause.sent_in, Some(SENT));
    assert_eq!((there.digests, mirrors.poll_failure()), (None, None));
    (mirrors, there.request)
}

/// The write of the bytes that the other replica gave.
fn restored(mirrors: &mut Mirrors, there: DeviceRequest) -> DeviceRequest {
    mirrors.handle_device(there.id, DeviceResult::Done);
    assert_eq!(mirrors.poll_ended(), None);
    assert!(!mirrors.is_drained(MirrorId(0)) && !mirrors.is_idle());
    submitted(mirrors).request
}

#[test]
fn a_range_that_cannot_be_read_is_read_from_the_other_replica_and_written_back() {
    let (mut mirrors, there) = failed();
    assert_eq!((there.device, there.offset), (REPLICA_FACE, ByteOffset(4096)));
    assert_eq!(there.operation, read());
    // A write of the range waits.
    mirrors.submit(MirrorId(0), request(1, write()));
    assert_eq!(mirrors.poll_device(), None);
    let here = restored(&mut mirrors, there);
    assert_eq!((here.device, here.offset), (LOCAL_DEVICE, ByteOffset(START + 4096)));
    let DeviceOperation::Write { buffer, buffer_offset, .. } = write() else { unreachable!() };
    assert_eq!(here.operation, DeviceOperation::Write { buffer, buffer_offset, durable: true });
    assert_eq!(mirrors.written(MirrorId(0)).next(0, ByteLen(8192)), Some(4096..8192));
    mirrors.handle_device(here.id, DeviceResult::Done);
    assert_eq!(mirrors.poll_ended(), Some((request(0, read()).id, DeviceResult::Done)));
    assert_eq!((mirrors.poll_repaired(), mirrors.poll_repaired()), (Some(MirrorId(0)), None));
    assert_eq!(submitted(&mut mirrors).request.operation, write());
}

#[test]
fn a_replica_notes_what_the_primary_repairs_and_not_what_it_compares() {
    for is_digest in [false, true] {
        let mut mirrors = mirrors(entry(Role::Secondary));
        let (mirror, sent) = (MirrorId(0), SentIn { is_digest, ..SENT });
        mirrors.accept(mirror, request(1, read()), sent).unwrap();
        let noted = mirrors.written(mirror).next(0, ByteLen(8192));
        assert_eq!(noted.is_some(), !is_digest);
    }
}

#[test]
fn a_range_that_cannot_be_written_back_is_a_failure_and_the_read_is_answered() {
    let (mut mirrors, there) = failed();
    let here = restored(&mut mirrors, there);
    mirrors.handle_device(here.id, FAILED);
    assert_eq!(ended(&mut mirrors), DeviceResult::Done);
    assert_eq!(mirrors.poll_failure(), Some((MirrorId(0), FAILED, Side::Local)));
    assert_eq!((mirrors.poll_repaired(), mirrors.is_idle()), (None, true));
}

#[test]
fn bytes_that_a_client_can_change_are_not_written_back_and_that_is_no_failure() {
    let (mut mirrors, there) = failed();
    let here = restored(&mut mirrors, there);
    mirrors.handle_device(here.id, DeviceResult::Unsupported);
    assert_eq!(ended(&mut mirrors), DeviceResult::Done);
    assert_eq!((mirrors.poll_failure(), mirrors.poll_repaired()), (None, None));
}

#[test]
fn the_error_of_a_range_that_neither_replica_can_read_goes_to_the_host() {
    let (mut mirrors, there) = failed();
    mirrors.handle_device(there.id, UNREADABLE);
    assert_eq!(ended(&mut mirrors), FAILED);
    assert_eq!((mirrors.poll_failure(), mirrors.is_idle()), (None, true));
}

#[test]
fn a_read_is_repaired_only_from_a_replica_in_sync_and_only_if_the_medium_failed() {
    let alone = MirrorEntry { remotes: [None; 2], ..entry(Role::Primary) };
    // Everything is being copied to the other one.
    let copying = entry(Role::Primary);
    for (entry, result) in [(alone, FAILED), (copying, FAILED), (in_sync(), DeviceResult::Gone)] {
        let mut mirrors = mirrors(entry);
        mirrors.submit(MirrorId(0), request(0, read()));
        let local = submitted(&mut mirrors).request.id;
        mirrors.handle_device(local, result);
        assert_eq!((mirrors.poll_device(), ended(&mut mirrors)), (None, result));
    }
}

#[test]
fn a_replica_that_is_not_reached_is_asked_again_until_it_is_dropped() {
    let (mut mirrors, there) = failed();
    for _ in 0..2 {
        mirrors.handle_device(there.id, DeviceResult::Remote(Outcome::PathLost));
        assert_eq!((mirrors.poll_device(), mirrors.poll_ended()), (None, None));
        mirrors.set_now(mirrors.poll_timeout().expect("it is tried again"));
        mirrors.handle_timeout();
        assert_eq!(submitted(&mut mirrors).request, there);
    }
    mirrors.handle_device(there.id, DeviceResult::Remote(Outcome::PathLost));
    let alone = MirrorEntry { term: Term(6), remotes: [None; 2], ..entry(Role::Primary) };
    mirrors.set_table(table(alone));
    let again = submitted(&mut mirrors).request;
    assert_eq!(again.device, LOCAL_DEVICE);
    mirrors.handle_device(again.id, FAILED);
    assert_eq!((ended(&mut mirrors), mirrors.is_idle()), (FAILED, true));
}

#[test]
fn a_read_that_is_repaired_is_begun_anew_when_another_node_is_primary() {
    let elsewhere = MirrorEntry { term: Term(6), ..entry(Role::Elsewhere) };
    for is_written_back in [false, true] {
        let (mut mirrors, there) = failed();
        if is_written_back {
            let here = restored(&mut mirrors, there);
            mirrors.set_table(table(elsewhere));
            mirrors.handle_device(here.id, DeviceResult::Done);
        } else {
            mirrors.set_table(table(elsewhere));
            mirrors.handle_device(there.id, DeviceResult::Done);
        }
        assert_eq!((mirrors.poll_ended(), mirrors.is_drained(MirrorId(0))), (None, true));
        assert_eq!(submitted(&mut mirrors).request.device, PRIMARY_FACE);
        assert!(mirrors.locks.is_empty());
    }
}

#[test]
fn a_read_that_is_repaired_needs_a_lease_as_any() {
    let (mut mirrors, there) = failed();
    let here = restored(&mut mirrors, there);
    mirrors.set_now(HOLD);
    mirrors.handle_device(here.id, DeviceResult::Done);
    assert_eq!(mirrors.poll_ended(), None);
    mirrors.set_leases(&[(MirrorId(0), HOLD.plus(Nanos(1)))]);
    assert_eq!(ended(&mut mirrors), DeviceResult::Done);
}

#[test]
fn a_range_is_not_restored_from_a_replica_that_another_core_knows_to_be_dropped() {
    let here = in_sync();
    let (mut owner, mut other) = (mirrors(here), Mirrors::new(Core(1), table(here)));
    // The owner writes without the other replica.
    let alone = MirrorEntry { term: Term(6), remotes: [None; 2], ..here };
    owner.set_table(table(alone));
    while owner.poll_abandoned().is_some() {}
    owner.submit(MirrorId(0), request(0, write()));
    let written = submitted(&mut owner).request.id;
    owner.handle_device(written, DeviceResult::Done);
    assert_eq!(ended(&mut owner), DeviceResult::Done);
    // The other core has the table before this one.
    other.submit(MirrorId(0), request(1, read()));
    let local = submitted(&mut other).request.id;
    other.handle_device(local, FAILED);
    let (_, lock) = other.poll_message().expect("it asks for the lock");
    owner.handle_message(lock);
    let (_, locked) = owner.poll_message().expect("it gets the lock");
    other.handle_message(locked);
    assert_eq!((other.poll_device(), other.poll_ended()), (None, None));
    other.set_table(table(alone));
    assert_eq!(submitted(&mut other).request.device, LOCAL_DEVICE);
    let (_, unlock) = other.poll_message().expect("it gives the lock back");
    owner.handle_message(unlock);
    assert!(owner.locks.is_empty());
}
