//! A mirror that is gone, because its volume was removed.

use super::*;

fn gone() -> Arc<MirrorTable> {
    Arc::new(MirrorTable::new())
}

/// The next look, at which everything that can end has ended.
fn look(mirrors: &mut Mirrors) {
    mirrors.set_now(mirrors.poll_timeout().expect("there is something to look at"));
    mirrors.handle_timeout();
}

#[test]
fn a_write_that_the_other_node_refuses_is_not_tried_again_when_its_mirror_is_gone() {
    for refused in [Outcome::DeviceUnavailable, Outcome::PathLost] {
        let mut mirrors = mirrors(entry(Role::Primary));
        mirrors.submit(MirrorId(0), request(0, write()));
        let remote = submitted(&mut mirrors).request.id;
        // The other node has withdrawn its replica.
        mirrors.handle_device(remote, DeviceResult::Remote(refused));
        look(&mut mirrors);
        assert_eq!(submitted(&mut mirrors).request.id, remote, "as long as the table names it");
        mirrors.handle_device(remote, DeviceResult::Remote(refused));
        mirrors.set_table(gone());
        assert!(!ended(&mut mirrors).is_done());
        assert!(mirrors.is_idle());
    }
}

#[test]
fn every_kind_of_operation_ends_when_its_mirror_is_gone() {
    let refused = DeviceResult::Remote(Outcome::DeviceUnavailable);
    for operation in [write(), read(), DeviceOperation::Flush, DeviceOperation::Deallocate] {
        for role in [Role::Primary, Role::Secondary, Role::Elsewhere, Role::Nobody] {
            let mut mirrors = mirrors(entry(role));
            mirrors.submit(MirrorId(0), request(0, operation));
            mirrors.submit(MirrorId(0), request(1, operation));
            mirrors.set_table(gone());
            while let Some(submission) = mirrors.poll_device() {
                mirrors.handle_device(submission.request.id, refused);
            }
            let results = [ended(&mut mirrors), ended(&mut mirrors)];
            assert!(results.iter().all(|it| !it.is_done()), "{operation:?} {role:?} {results:?}");
            assert!(mirrors.is_idle(), "{operation:?} {role:?}");
        }
    }
}

#[test]
fn an_operation_of_a_mirror_that_is_gone_waits_for_the_device_that_uses_its_buffer() {
    let mut mirrors = mirrors(entry(Role::Primary));
    mirrors.submit(MirrorId(0), request(0, write()));
    let remote = submitted(&mut mirrors).request.id;
    mirrors.handle_received(remote);
    let local = submitted(&mut mirrors).request.id;
    mirrors.set_table(gone());
    mirrors.handle_device(remote, DeviceResult::Remote(Outcome::PathLost));
    assert!(mirrors.poll_ended().is_none() && !mirrors.is_drained(MirrorId(0)));
    mirrors.handle_device(local, DeviceResult::Done);
    assert_eq!(ended(&mut mirrors), DeviceResult::Remote(Outcome::PathLost));
    assert!(mirrors.is_idle());
}

#[test]
fn the_faces_of_a_mirror_that_is_gone_are_left_only_when_their_nodes_had_time_to_answer() {
    for (role, face) in [(Role::Primary, REPLICA_FACE), (Role::Elsewhere, PRIMARY_FACE)] {
        let mut mirrors = mirrors(entry(role));
        mirrors.submit(MirrorId(0), request(0, write()));
        submitted(&mut mirrors);
        mirrors.set_table(gone());
        assert_eq!(mirrors.poll_abandoned(), None, "a connection that others use would be closed");
        let mut left = None;
        while left.is_none() {
            look(&mut mirrors);
            left = mirrors.poll_abandoned();
        }
        assert_eq!(left, Some(face));
        assert!(mirrors.now >= Nanos::from_secs(2));
    }
}
