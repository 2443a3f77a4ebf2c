//! A replica that takes the place of another one.

use super::*;

const THIRD_FACE: DeviceId = DeviceId(101);

/// A primary with another replica in sync, which leaves, and a third one that joins in session 10.
fn moving() -> MirrorEntry {
    let [leaving, _] =
        entry(Role::Primary).remotes.map(|it| it.map(|it| Remote { has_all: true, ..it }));
    let third = Remote { device: THIRD_FACE, session: 10, has_all: false, volatile_cache: true };
    MirrorEntry { remotes: [leaving, Some(third)], ..entry(Role::Primary) }
}

/// The third replica is in sync, and the other one is not any more.
fn moved() -> MirrorEntry {
    let [_, third] = moving().remotes.map(|it| it.map(|it| Remote { has_all: true, ..it }));
    MirrorEntry { term: Term(6), remotes: [None, third], ..entry(Role::Primary) }
}

/// A write that was sent to both.
fn sent() -> (Mirrors, [DeviceRequest; 2]) {
    let mut mirrors = mirrors(moving());
    mirrors.submit(MirrorId(0), request(1, write()));
    let sent = [submitted(&mut mirrors), submitted(&mut mirrors)].map(|it| it.request);
    assert_eq!(sent.map(|it| it.device), [REPLICA_FACE, THIRD_FACE]);
    (mirrors, sent)
}

#[test]
fn a_write_goes_to_both_and_is_written_here_when_both_have_accepted_it() {
    let (mut mirrors, [leaving, third]) = sent();
    mirrors.handle_received(third.id);
    assert_eq!(mirrors.poll_device(), None);
    mirrors.handle_received(leaving.id);
    let local = submitted(&mut mirrors).request;
    assert_eq!(local.device, LOCAL_DEVICE);
    mirrors.handle_device(local.id, DeviceResult::Done);
    mirrors.handle_device(leaving.id, DeviceResult::Done);
    assert_eq!(mirrors.poll_ended(), None);
    mirrors.handle_device(third.id, DeviceResult::Done);
    assert_eq!(ended(&mut mirrors), DeviceResult::Done);
}

#[test]
fn after_the_exchange_a_write_needs_the_one_that_came_and_not_the_one_that_left() {
    let (mut mirrors, [leaving, third]) = sent();
    mirrors.handle_received(leaving.id);
    mirrors.handle_received(third.id);
    let local = submitted(&mut mirrors).request.id;
    mirrors.handle_device(local, DeviceResult::Done);
    mirrors.handle_device(third.id, DeviceResult::Remote(Outcome::WriteFault));
    let failure = (MirrorId(0), DeviceResult::Remote(Outcome::WriteFault), Side::Remote(10));
    assert_eq!(mirrors.poll_failure(), Some(failure));
    mirrors.set_table(table(moved()));
    assert_eq!(mirrors.poll_abandoned(), Some(REPLICA_FACE));
    assert_eq!((mirrors.poll_abandoned(), mirrors.poll_ended()), (None, None));
    mirrors.handle_device(leaving.id, DeviceResult::Remote(Outcome::PathLost));
    assert_eq!(mirrors.poll_ended(), None, "the third one has failed it");
    mirrors.set_now(mirrors.poll_timeout().expect("it is tried again"));
    mirrors.handle_timeout();
    let again = submitted(&mut mirrors).request;
    assert_eq!((again.device, mirrors.poll_device()), (THIRD_FACE, None));
    mirrors.handle_device(again.id, DeviceResult::Done);
    assert_eq!(ended(&mut mirrors), DeviceResult::Done);
}

#[test]
fn a_write_that_only_the_one_that_joins_has_is_lost_with_the_primary() {
    for (leaving_result, expected) in [
        (DeviceResult::Done, DeviceResult::Done),
        (DeviceResult::Remote(Outcome::PathLost), DeviceResult::Remote(Outcome::PathLost)),
    ] {
        let (mut mirrors, [leaving, third]) = sent();
        mirrors.handle_device(third.id, DeviceResult::Done);
        mirrors.handle_device(leaving.id, leaving_result);
        while let Some(local) = mirrors.poll_device() {
            mirrors.handle_device(local.request.id, DeviceResult::MediumError);
        }
        mirrors.set_table(table(MirrorEntry { term: Term(6), ..entry(Role::Elsewhere) }));
        assert_eq!(ended(&mut mirrors), expected);
    }
}

#[test]
fn a_read_is_repaired_from_the_replica_in_sync_and_not_from_the_one_that_joins() {
    let [leaving, third] = moving().remotes;
    for remotes in [[leaving, third], [third, leaving]] {
        let mut mirrors = mirrors(MirrorEntry { remotes, ..moving() });
        mirrors.submit(MirrorId(0), request(0, read()));
        let local = submitted(&mut mirrors).request.id;
        mirrors.handle_device(local, DeviceResult::MediumError);
        assert_eq!(submitted(&mut mirrors).request.device, REPLICA_FACE);
    }
}
