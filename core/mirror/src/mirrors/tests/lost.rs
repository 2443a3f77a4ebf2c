//! Answered writes that the last replica in sync has lost with its power.

use super::*;

use nearflash_device::Health;

const ZEROES: DeviceOperation = DeviceOperation::WriteZeroes { deallocate: false };

/// The next term, in which nothing was lost, or what was not flushed.
fn next(entry: MirrorEntry, is_lost: bool) -> MirrorEntry {
    let term = Term(entry.term.0 + 1);
    MirrorEntry { term, kept_since: if is_lost { term } else { entry.kept_since }, ..entry }
}

fn watched(entry: MirrorEntry) -> (Mirrors, Arc<Health>) {
    let (mut mirrors, health) = (mirrors(entry), Arc::new(Health::default()));
    mirrors.set_health(MirrorId(0), Arc::clone(&health));
    (mirrors, health)
}

/// An operation of a host of this node is done, wherever it is.
fn done(mirrors: &mut Mirrors, operation: DeviceOperation) {
    mirrors.submit(MirrorId(0), request(0, operation));
    while let Some(submission) = mirrors.poll_device() {
        mirrors.handle_received(submission.request.id);
        mirrors.handle_device(submission.request.id, DeviceResult::Done);
    }
    assert_eq!(ended(mirrors), DeviceResult::Done);
}

#[test]
fn a_node_that_has_answered_writes_which_were_lost_fails_its_next_flush() {
    for role in [Role::Elsewhere, Role::Secondary, Role::Primary] {
        for operation in [write(), ZEROES, DeviceOperation::Deallocate] {
            let (mut mirrors, health) = watched(entry(role));
            done(&mut mirrors, operation);
            mirrors.set_table(table(next(entry(Role::Elsewhere), false)));
            assert!(!health.is_suspect(), "a term in which nothing is lost");
            mirrors.set_table(table(next(next(entry(Role::Elsewhere), false), true)));
            assert!(health.is_suspect());
            assert_eq!((mirrors.poll_lost(), mirrors.poll_lost()), (Some(MirrorId(0)), None));
        }
    }
}

#[test]
fn writes_that_were_flushed_or_durable_or_those_of_other_nodes_are_not_lost() {
    let DeviceOperation::Write { buffer, buffer_offset, .. } = write() else { unreachable!() };
    let durable = DeviceOperation::Write { buffer, buffer_offset, durable: true };
    let cases: [&[DeviceOperation]; 3] =
        [&[write(), DeviceOperation::Flush], &[durable], &[read()]];
    for case in cases {
        let (mut mirrors, health) = watched(entry(Role::Elsewhere));
        case.iter().for_each(|operation| done(&mut mirrors, *operation));
        mirrors.set_table(table(next(entry(Role::Elsewhere), true)));
        assert_eq!((health.is_suspect(), mirrors.poll_lost()), (false, None));
    }
    let (mut mirrors, health) = watched(entry(Role::Primary));
    mirrors.submit_forwarded(MirrorId(0), request(0, write()));
    let remote = submitted(&mut mirrors).request.id;
    mirrors.handle_device(remote, DeviceResult::Done);
    let local = submitted(&mut mirrors).request.id;
    mirrors.handle_device(local, DeviceResult::Done);
    assert_eq!(ended(&mut mirrors), DeviceResult::Done);
    mirrors.set_table(table(next(entry(Role::Elsewhere), true)));
    assert!(!health.is_suspect());
}

#[test]
fn a_flush_covers_only_the_writes_that_were_answered_before_it() {
    let (mut mirrors, health) = watched(entry(Role::Elsewhere));
    done(&mut mirrors, write());
    mirrors.submit(MirrorId(0), request(1, DeviceOperation::Flush));
    let flush = submitted(&mut mirrors).request.id;
    done(&mut mirrors, write());
    mirrors.handle_device(flush, DeviceResult::Done);
    assert_eq!(ended(&mut mirrors), DeviceResult::Done);
    mirrors.set_table(table(next(entry(Role::Elsewhere), true)));
    assert!(health.is_suspect());
}

#[test]
fn an_answer_that_another_core_gets_late_fails_the_next_flush_too() {
    let (mut late, health) = watched(entry(Role::Elsewhere));
    late.submit(MirrorId(0), request(0, write()));
    let under_way = submitted(&mut late).request.id;
    let lost = next(entry(Role::Elsewhere), true);
    let mut other = Mirrors::new(Core(1), table(lost));
    other.set_health(MirrorId(0), Arc::clone(&health));
    assert!(!health.is_suspect());
    late.handle_device(under_way, DeviceResult::Done);
    assert_eq!(ended(&mut late), DeviceResult::Done);
    assert!(health.is_suspect());
}
