//! A primary that stops, and another node that goes on.

use super::*;

fn stopped() -> MirrorEntry {
    MirrorEntry { remotes: entry(Role::Primary).remotes, ..entry(Role::Nobody) }
}

/// A primary that has sent a write.
fn sent() -> (Mirrors, OperationId) {
    let mut mirrors = mirrors(entry(Role::Primary));
    mirrors.submit(MirrorId(0), request(0, write()));
    let remote = submitted(&mut mirrors).request.id;
    (mirrors, remote)
}

#[test]
fn a_write_that_was_sent_is_completed_by_a_primary_that_has_stopped() {
    let (mut mirrors, remote) = sent();
    mirrors.set_table(table(stopped()));
    assert_eq!(mirrors.poll_abandoned(), None);
    assert!(!mirrors.is_drained(MirrorId(0)));
    mirrors.handle_received(remote);
    let local = submitted(&mut mirrors).request.id;
    mirrors.handle_device(remote, DeviceResult::Done);
    assert!(!mirrors.is_drained(MirrorId(0)));
    mirrors.handle_device(local, DeviceResult::Done);
    assert_eq!(ended(&mut mirrors), DeviceResult::Done);
    assert!(mirrors.is_drained(MirrorId(0)) && mirrors.is_idle());
}

#[test]
fn a_part_that_fails_is_tried_again_by_a_primary_that_has_stopped() {
    let (mut mirrors, remote) = sent();
    mirrors.set_table(table(stopped()));
    mirrors.handle_device(remote, DeviceResult::Remote(Outcome::PathLost));
    mirrors.set_now(mirrors.poll_timeout().expect("it is tried again"));
    mirrors.handle_timeout();
    assert_eq!(submitted(&mut mirrors).request.id, remote);
}

#[test]
fn a_part_that_failed_is_not_tried_again_at_a_replica_that_was_replaced() {
    let (mut mirrors, remote) = sent();
    mirrors.handle_received(remote);
    let local = submitted(&mut mirrors).request.id;
    mirrors.handle_device(remote, DeviceResult::Done);
    mirrors.handle_device(local, DeviceResult::MediumError);
    mirrors.set_table(table(stopped()));
    assert_eq!(submitted(&mut mirrors).request.id, local);
    mirrors.handle_device(local, DeviceResult::MediumError);
    // The new places come before the record of the next term.
    mirrors.set_table(table(MirrorEntry { local: None, ..stopped() }));
    assert_eq!((mirrors.poll_device(), mirrors.poll_ended()), (None, None));
    mirrors.set_table(table(MirrorEntry { term: Term(6), local: None, ..entry(Role::Elsewhere) }));
    assert_eq!(ended(&mut mirrors), DeviceResult::Done);
}

#[test]
fn a_write_of_another_term_is_not_continued_without_a_primary() {
    let (mut mirrors, remote) = sent();
    mirrors.set_table(table(MirrorEntry { term: Term(7), ..stopped() }));
    assert!(mirrors.is_drained(MirrorId(0)));
    mirrors.handle_received(remote);
    assert_eq!((mirrors.poll_device(), mirrors.poll_ended()), (None, None));
}

#[test]
fn a_write_that_the_device_here_failed_is_answered_by_the_replica_that_has_it() {
    let (mut mirrors, remote) = sent();
    mirrors.handle_received(remote);
    let local = submitted(&mut mirrors).request.id;
    mirrors.handle_device(local, DeviceResult::MediumError);
    mirrors.set_table(table(stopped()));
    assert!(!mirrors.is_drained(MirrorId(0)));
    mirrors.handle_device(remote, DeviceResult::Done);
    assert!(mirrors.is_drained(MirrorId(0)));
    assert_eq!(mirrors.poll_ended(), None);
    mirrors.set_table(table(MirrorEntry { term: Term(6), ..entry(Role::Elsewhere) }));
    assert_eq!(ended(&mut mirrors), DeviceResult::Done);
}

#[test]
fn a_write_that_nothing_has_goes_to_the_next_primary_while_it_is_young() {
    let elsewhere = MirrorEntry { term: Term(6), ..entry(Role::Elsewhere) };
    let refused = DeviceResult::Remote(Outcome::DeviceUnavailable);
    for is_young in [true, false] {
        let (mut mirrors, remote) = sent();
        mirrors.set_now(if is_young { REDRIVE } else { REDRIVE.plus(Nanos(1)) });
        mirrors.handle_device(remote, refused);
        assert_eq!(mirrors.poll_ended(), None);
        mirrors.set_table(table(elsewhere));
        let there = mirrors.poll_device().map(|submission| submission.request.device);
        assert_eq!(there, is_young.then_some(PRIMARY_FACE));
        let answer = mirrors.poll_ended().map(|(_, result)| result);
        assert_eq!(answer, (!is_young).then_some(refused));
        assert!(mirrors.locks.is_empty());
    }
    // It has accepted one that it refuses later, so it may have it.
    let (mut mirrors, remote) = sent();
    mirrors.handle_received(remote);
    let local = submitted(&mut mirrors).request.id;
    mirrors.handle_device(remote, refused);
    mirrors.handle_device(local, DeviceResult::Done);
    mirrors.set_table(table(elsewhere));
    assert_eq!(ended(&mut mirrors), DeviceResult::Remote(Outcome::PathLost));
}

#[test]
fn a_write_that_waits_for_its_range_goes_to_the_next_primary() {
    let (mut mirrors, remote) = sent();
    mirrors.submit(MirrorId(0), request(1, write()));
    mirrors.submit_forwarded(MirrorId(0), request(2, write()));
    mirrors.set_table(table(stopped()));
    // Another node keeps its own.
    let refused = DeviceResult::Remote(Outcome::DeviceUnavailable);
    assert_eq!(mirrors.poll_ended(), Some((request(2, write()).id, refused)));
    mirrors.handle_received(remote);
    let local = submitted(&mut mirrors).request.id;
    mirrors.handle_device(remote, DeviceResult::Done);
    mirrors.handle_device(local, DeviceResult::Done);
    assert_eq!(ended(&mut mirrors), DeviceResult::Done);
    assert_eq!(mirrors.poll_device(), None);
    mirrors.set_table(table(MirrorEntry { term: Term(6), ..entry(Role::Elsewhere) }));
    assert_eq!(submitted(&mut mirrors).request.device, PRIMARY_FACE);
    assert_eq!(mirrors.poll_ended(), None);
}

#[test]
fn the_answers_of_an_earlier_primary_are_waited_for_unless_it_is_primary_again() {
    for is_back in [false, true] {
        let mut mirrors = mirrors(entry(Role::Elsewhere));
        let moved = MirrorEntry { primary: Some(DeviceId(201)), ..entry(Role::Elsewhere) };
        mirrors.set_table(table(moved));
        assert_eq!(mirrors.poll_abandoned(), None);
        let at = mirrors.poll_timeout().expect("it is left later");
        if is_back {
            mirrors.set_table(table(entry(Role::Elsewhere)));
        }
        mirrors.set_now(at);
        mirrors.handle_timeout();
        let left = if is_back { DeviceId(201) } else { PRIMARY_FACE };
        assert_eq!((mirrors.poll_abandoned(), mirrors.poll_abandoned()), (Some(left), None));
        assert_eq!(mirrors.poll_timeout(), None);
    }
}
