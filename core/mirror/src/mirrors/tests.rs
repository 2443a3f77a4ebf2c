//! Single rules, step by step. How they work together is the simulation's part.

mod copy;
mod gone;
mod handover;
mod lost;
mod moves;
mod repair;

use nearflash_device::{DeviceId, DeviceOperation, MirrorKey};
use nearflash_request::{BufferId, Outcome, SentIn};
use nearflash_units::{ByteLen, ByteOffset};
use uuid::Uuid;

use super::*;
use crate::{Local, MirrorEntry, OPERATIONS, Refusal, Remote};

const FIRST: DeviceId = DeviceId(1000);
const LOCAL_DEVICE: DeviceId = DeviceId(3);
const REPLICA_FACE: DeviceId = DeviceId(100);
const PRIMARY_FACE: DeviceId = DeviceId(200);
const START: u64 = 1 << 24;
const LEN: u64 = 1 << 20;
const TERM: Term = Term(5);
const SENT: SentIn = SentIn { term: TERM.0, session: 9, is_digest: false };

fn entry(role: Role) -> MirrorEntry {
    let local = Local { device: LOCAL_DEVICE, start: ByteOffset(START), volatile_cache: true };
    let remote = Remote { device: REPLICA_FACE, session: 9, has_all: false, volatile_cache: true };
    MirrorEntry {
        key: MirrorKey { volume: Uuid::from_bytes([7; 16]), number: 0 },
        term: TERM,
        len: ByteLen(LEN),
        role,
        owner: Core(0),
        local: Some(local),
        remotes: [(role == Role::Primary).then_some(remote), None],
        primary: (role != Role::Primary).then_some(PRIMARY_FACE),
        session: 9,
        needs_lease: false,
        stay: 0,
        kept_since: Term(0),
        zeroes: true,
        deallocates: true,
    }
}

fn table(entry: MirrorEntry) -> Arc<MirrorTable> {
    Arc::new(MirrorTable::new().with(MirrorId(0), Some(entry)))
}

fn mirrors(entry: MirrorEntry) -> Mirrors {
    Mirrors::new(Core(0), table(entry))
}

fn request(number: u32, operation: DeviceOperation) -> DeviceRequest {
    let id = OperationId { io: number, op: 0, generation: 0 };
    DeviceRequest { id, device: FIRST, operation, offset: ByteOffset(4096), len: ByteLen(4096) }
}

const fn write() -> DeviceOperation {
    let (buffer, buffer_offset) = (BufferId(1), ByteLen(0));
    DeviceOperation::Write { buffer, buffer_offset, durable: false }
}

const fn read() -> DeviceOperation {
    DeviceOperation::Read { buffer: Some(BufferId(1)), buffer_offset: ByteLen(0) }
}

fn submitted(mirrors: &mut Mirrors) -> Submission {
    mirrors.poll_device().expect("something is submitted")
}

fn ended(mirrors: &mut Mirrors) -> DeviceResult {
    mirrors.poll_ended().expect("an operation has ended").1
}

#[test]
fn a_write_is_sent_then_written_when_it_is_received_and_answered_when_both_have_done_it() {
    let mut mirrors = mirrors(entry(Role::Primary));
    mirrors.submit(MirrorId(0), request(0, write()));
    let remote = submitted(&mut mirrors);
    assert_eq!((remote.request.device, remote.request.offset), (REPLICA_FACE, ByteOffset(4096)));
    assert_eq!(remote.cause.sent_in, Some(SENT));
    assert_eq!(mirrors.poll_device(), None);
    mirrors.handle_received(remote.request.id);
    let local = submitted(&mut mirrors);
    let place = ByteOffset(START + 4096);
    assert_eq!(
        (local.request.device, local.request.offset, local.cause.sent_in),
        (LOCAL_DEVICE, place, None)
    );
    mirrors.handle_device(local.request.id, DeviceResult::Done);
    assert_eq!(mirrors.poll_ended(), None);
    mirrors.handle_device(remote.request.id, DeviceResult::Done);
    assert_eq!(ended(&mut mirrors), DeviceResult::Done);
    assert!(mirrors.is_idle() && mirrors.poll_message().is_none());
}

#[test]
fn an_answer_that_comes_again_or_too_late_matches_nothing() {
    let alone = MirrorEntry { remotes: [None; 2], ..entry(Role::Primary) };
    let mut mirrors = mirrors(alone);
    mirrors.submit(MirrorId(0), request(0, write()));
    let first = submitted(&mut mirrors).request.id;
    mirrors.handle_device(first, DeviceResult::Done);
    assert_eq!(ended(&mut mirrors), DeviceResult::Done);
    mirrors.submit(MirrorId(0), request(1, write()));
    let second = submitted(&mut mirrors).request.id;
    assert!(first.io == second.io && first.io >= OPERATIONS);
    mirrors.handle_device(first, DeviceResult::MediumError);
    mirrors.handle_received(first);
    assert_eq!(mirrors.poll_ended(), None);
    mirrors.handle_device(second, DeviceResult::Done);
    assert_eq!(ended(&mut mirrors), DeviceResult::Done);
}

#[test]
fn an_error_of_the_last_replica_goes_to_the_host() {
    let mut mirrors = mirrors(MirrorEntry { remotes: [None; 2], ..entry(Role::Primary) });
    mirrors.submit(MirrorId(0), request(0, write()));
    let id = submitted(&mut mirrors).request.id;
    mirrors.handle_device(id, DeviceResult::NoSpace);
    assert_eq!(ended(&mut mirrors), DeviceResult::NoSpace);
}

#[test]
fn a_part_that_fails_is_tried_again_until_the_replica_is_dropped() {
    let mut mirrors = mirrors(entry(Role::Primary));
    mirrors.submit(MirrorId(0), request(0, write()));
    let lost = DeviceResult::Remote(Outcome::PathLost);
    let remote = submitted(&mut mirrors).request;
    for (result, is_failure) in [(DeviceResult::MediumError, true), (lost, false)] {
        mirrors.handle_device(remote.id, result);
        // A connection that is lost says nothing about the replica's device.
        let failure = is_failure.then_some((MirrorId(0), result, Side::Remote(9)));
        assert_eq!(mirrors.poll_failure(), failure);
        assert_eq!(mirrors.poll_device(), None);
        mirrors.set_now(mirrors.poll_timeout().expect("it is tried again"));
        mirrors.handle_timeout();
        assert_eq!(submitted(&mut mirrors).request, remote);
    }
    mirrors.handle_device(remote.id, lost);
    let (term, remotes) = (Term(6), [None; 2]);
    mirrors.set_table(table(MirrorEntry { term, remotes, ..entry(Role::Primary) }));
    let local = submitted(&mut mirrors).request.id;
    mirrors.handle_device(local, DeviceResult::Done);
    assert_eq!(ended(&mut mirrors), DeviceResult::Done);
    assert!(mirrors.is_idle());
}

#[test]
fn a_write_that_was_sent_is_path_lost_when_another_node_is_primary() {
    let mut mirrors = mirrors(entry(Role::Primary));
    mirrors.submit(MirrorId(0), request(0, write()));
    let remote = submitted(&mut mirrors).request.id;
    mirrors.set_table(table(entry(Role::Elsewhere)));
    // The buffer is in use until the operation has ended.
    assert_eq!(mirrors.poll_ended(), None);
    mirrors.handle_device(remote, DeviceResult::Remote(Outcome::PathLost));
    assert_eq!(ended(&mut mirrors), DeviceResult::Remote(Outcome::PathLost));
}

#[test]
fn a_write_that_one_replica_may_have_is_not_given_up_while_this_node_may_be_primary_again() {
    let mut mirrors = mirrors(entry(Role::Primary));
    mirrors.submit(MirrorId(0), request(0, write()));
    let remote = submitted(&mut mirrors).request.id;
    mirrors.set_table(table(entry(Role::Nobody)));
    mirrors.handle_device(remote, DeviceResult::Remote(Outcome::PathLost));
    assert_eq!(mirrors.poll_ended(), None);
    mirrors.set_table(table(entry(Role::Primary)));
    let again = submitted(&mut mirrors).request.id;
    mirrors.handle_received(again);
    let local = submitted(&mut mirrors).request.id;
    mirrors.handle_device(again, DeviceResult::Done);
    mirrors.handle_device(local, DeviceResult::Done);
    assert_eq!(ended(&mut mirrors), DeviceResult::Done);
}

#[test]
fn a_flush_that_failed_is_reported_again_while_the_replica_is_not_dropped() {
    let mut mirrors = mirrors(entry(Role::Primary));
    mirrors.submit(MirrorId(0), request(0, DeviceOperation::Flush));
    let remote = submitted(&mut mirrors).request.id;
    let local = submitted(&mut mirrors).request.id;
    mirrors.handle_device(local, DeviceResult::Done);
    mirrors.handle_device(remote, DeviceResult::Remote(Outcome::WriteFault));
    let failure = (MirrorId(0), DeviceResult::Remote(Outcome::WriteFault), Side::Remote(9));
    assert_eq!(mirrors.poll_failure(), Some(failure));
    // The one who was told has forgotten it in the next term.
    mirrors.set_table(table(MirrorEntry { term: Term(6), ..entry(Role::Primary) }));
    for _ in 0..2 {
        while mirrors.poll_failure().is_none() {
            mirrors.set_now(mirrors.poll_timeout().expect("it is looked at again"));
            mirrors.handle_timeout();
        }
    }
    assert_eq!(mirrors.poll_ended(), None);
    mirrors.set_table(table(MirrorEntry { remotes: [None; 2], ..entry(Role::Primary) }));
    assert_eq!(ended(&mut mirrors), DeviceResult::Done);
}

#[test]
fn a_read_is_answered_when_a_lease_is_held_after_it_in_the_same_stay() {
    let needs_lease = MirrorEntry { needs_lease: true, ..entry(Role::Primary) };
    let mut mirrors = mirrors(needs_lease);
    mirrors.set_now(Nanos(100));
    mirrors.set_leases(&[(MirrorId(0), Nanos(100))]);
    mirrors.submit(MirrorId(0), request(0, read()));
    let local = submitted(&mut mirrors).request.id;
    mirrors.handle_device(local, DeviceResult::Done);
    // The lease was over when the bytes came.
    assert_eq!(mirrors.poll_ended(), None);
    mirrors.set_leases(&[(MirrorId(0), Nanos(200))]);
    assert_eq!(ended(&mut mirrors), DeviceResult::Done);
    // Bytes of an earlier stay are read anew.
    mirrors.submit(MirrorId(0), request(1, read()));
    let local = submitted(&mut mirrors).request.id;
    mirrors.set_table(table(MirrorEntry { stay: 1, ..needs_lease }));
    mirrors.handle_device(local, DeviceResult::Done);
    let again = submitted(&mut mirrors).request.id;
    mirrors.handle_device(again, DeviceResult::Done);
    assert_eq!(ended(&mut mirrors), DeviceResult::Done);
}

#[test]
fn an_operation_that_was_forwarded_is_not_forwarded_on() {
    let mut mirrors = mirrors(entry(Role::Secondary));
    mirrors.submit_forwarded(MirrorId(0), request(0, write()));
    assert_eq!(ended(&mut mirrors), DeviceResult::Remote(Outcome::DeviceUnavailable));
    assert_eq!(mirrors.poll_device(), None);
}

#[test]
fn what_the_primary_refuses_is_begun_anew_where_the_table_then_says() {
    let mut mirrors = mirrors(entry(Role::Elsewhere));
    mirrors.submit(MirrorId(0), request(0, write()));
    let sent = submitted(&mut mirrors).request.id;
    mirrors.handle_device(sent, DeviceResult::Remote(Outcome::DeviceUnavailable));
    assert_eq!(mirrors.poll_ended(), None);
    let moved = MirrorEntry { primary: Some(DeviceId(201)), ..entry(Role::Elsewhere) };
    mirrors.set_table(table(moved));
    let again = submitted(&mut mirrors).request;
    assert_eq!(again.device, DeviceId(201));
    // It may have been done there: only its host knows whether to repeat it.
    mirrors.handle_device(again.id, DeviceResult::Remote(Outcome::PathLost));
    assert_eq!(ended(&mut mirrors), DeviceResult::Remote(Outcome::PathLost));
}

#[test]
fn reads_are_local_at_the_primary_and_all_else_goes_there_in_one_hop() {
    let mut primary = mirrors(entry(Role::Primary));
    primary.submit(MirrorId(0), request(0, read()));
    let local = submitted(&mut primary);
    assert_eq!((local.request.device, local.cause.sent_in), (LOCAL_DEVICE, None));
    for (role, operation) in [(Role::Secondary, read()), (Role::Elsewhere, write())] {
        let mut mirrors = mirrors(entry(role));
        mirrors.submit(MirrorId(0), request(0, operation));
        let there = submitted(&mut mirrors);
        assert_eq!((there.request.device, there.request.offset), (PRIMARY_FACE, ByteOffset(4096)));
        mirrors.handle_device(there.request.id, DeviceResult::Done);
        assert_eq!(ended(&mut mirrors), DeviceResult::Done);
    }
}

#[test]
fn a_flush_flushes_both_replicas_if_they_have_volatile_caches() {
    let mut mirrors = mirrors(entry(Role::Primary));
    mirrors.submit(MirrorId(0), request(0, DeviceOperation::Flush));
    let (remote, local) = (submitted(&mut mirrors).request, submitted(&mut mirrors).request);
    assert_eq!((remote.device, local.device), (REPLICA_FACE, LOCAL_DEVICE));
    mirrors.handle_device(local.id, DeviceResult::Done);
    assert_eq!(mirrors.poll_ended(), None);
    mirrors.handle_device(remote.id, DeviceResult::Done);
    assert_eq!(ended(&mut mirrors), DeviceResult::Done);

    let mut through = entry(Role::Primary);
    through.local = through.local.map(|local| Local { volatile_cache: false, ..local });
    through.remotes = through
        .remotes
        .map(|remote| remote.map(|remote| Remote { volatile_cache: false, ..remote }));
    mirrors.set_table(table(through));
    mirrors.submit(MirrorId(0), request(1, DeviceOperation::Flush));
    assert_eq!((mirrors.poll_device(), ended(&mut mirrors)), (None, DeviceResult::Done));
}

#[test]
fn a_flush_that_a_device_failed_is_answered_only_without_that_replica() {
    let mut mirrors = mirrors(entry(Role::Primary));
    mirrors.submit(MirrorId(0), request(0, DeviceOperation::Flush));
    let (remote, local) = (submitted(&mut mirrors).request, submitted(&mut mirrors).request);
    mirrors.handle_device(local.id, DeviceResult::Done);
    // A lost connection says nothing of the device.
    for result in [Outcome::PathLost, Outcome::WriteFault] {
        mirrors.handle_device(remote.id, DeviceResult::Remote(result));
        mirrors.set_now(mirrors.poll_timeout().expect("it is looked at again"));
        mirrors.handle_timeout();
        let again = mirrors.poll_device().map(|submission| submission.request);
        assert_eq!(again, (result == Outcome::PathLost).then_some(remote));
        assert_eq!(mirrors.poll_ended(), None);
    }
    mirrors.set_table(table(MirrorEntry { remotes: [None; 2], ..entry(Role::Primary) }));
    assert_eq!((mirrors.poll_device(), ended(&mut mirrors)), (None, DeviceResult::Done));
}

#[test]
fn a_deallocation_is_zeroes_on_all_replicas_or_nothing() {
    let mut mirrors = mirrors(entry(Role::Primary));
    mirrors.submit(MirrorId(0), request(0, DeviceOperation::Deallocate));
    let zeroes = DeviceOperation::WriteZeroes { deallocate: true };
    assert_eq!(submitted(&mut mirrors).request.operation, zeroes);

    let mut mirrors = self::mirrors(entry(Role::Elsewhere));
    mirrors.submit(MirrorId(0), request(0, DeviceOperation::Deallocate));
    assert_eq!(submitted(&mut mirrors).request.operation, DeviceOperation::Deallocate);

    let mut mirrors = self::mirrors(MirrorEntry { deallocates: false, ..entry(Role::Primary) });
    mirrors.submit(MirrorId(0), request(0, DeviceOperation::Deallocate));
    assert_eq!((mirrors.poll_device(), ended(&mut mirrors)), (None, DeviceResult::Done));
}

#[test]
fn zeroes_are_refused_before_any_replica_has_written_them() {
    let mut mirrors = mirrors(MirrorEntry { zeroes: false, ..entry(Role::Primary) });
    mirrors.submit(MirrorId(0), request(0, DeviceOperation::WriteZeroes { deallocate: false }));
    assert_eq!((mirrors.poll_device(), ended(&mut mirrors)), (None, DeviceResult::Unsupported));
}

#[test]
fn an_operation_past_the_end_of_a_mirror_reaches_no_device() {
    let mut mirrors = mirrors(entry(Role::Primary));
    for offset in [LEN - 2048, LEN, u64::MAX - 1] {
        mirrors.submit(
            MirrorId(0),
            DeviceRequest { offset: ByteOffset(offset), ..request(0, write()) },
        );
        let refused = DeviceResult::Remote(Outcome::OutOfRange);
        assert_eq!((mirrors.poll_device(), ended(&mut mirrors)), (None, refused));
    }
}

#[test]
fn without_a_primary_reads_wait_longer_than_writes() {
    let mut mirrors = mirrors(entry(Role::Nobody));
    mirrors.submit(MirrorId(0), request(0, write()));
    mirrors.submit(MirrorId(0), request(1, read()));
    let refused = DeviceResult::Remote(Outcome::DeviceUnavailable);
    for (number, span) in [(0, REDRIVE), (1, HOLD)] {
        mirrors.set_now(span);
        mirrors.handle_timeout();
        assert_eq!(mirrors.poll_ended(), None);
        mirrors.set_now(span.plus(RETRY_PERIOD).plus(RETRY_PERIOD));
        mirrors.handle_timeout();
        assert_eq!(mirrors.poll_ended(), Some((request(number, read()).id, refused)));
    }
    assert!(mirrors.is_idle());
}

struct Asked {
    mirror: MirrorId,
    request: DeviceRequest,
    sent: SentIn,
}

/// The refusal of a request that differs in one field from the request of the primary.
fn refusal_of(entry: MirrorEntry, change: impl FnOnce(&mut Asked)) -> Option<Refusal> {
    let mut asked = Asked { mirror: MirrorId(0), request: request(1, write()), sent: SENT };
    change(&mut asked);
    let mut mirrors = mirrors(entry);
    let refusal = mirrors.accept(asked.mirror, asked.request, asked.sent).err();
    assert_eq!(refusal.is_none(), mirrors.poll_device().is_some());
    refusal
}

#[test]
fn a_replica_accepts_only_operations_of_its_term_and_session() {
    let secondary = entry(Role::Secondary);
    assert_eq!(refusal_of(secondary, |_| ()), None);
    assert_eq!(refusal_of(secondary, |r| r.request.operation = DeviceOperation::Flush), None);
    // The primary compares what it copies.
    assert_eq!(refusal_of(secondary, |r| r.request.operation = read()), None);
    type Change = dyn Fn(&mut Asked);
    let cases: [(&Change, Refusal); 6] = [
        (&|r| r.sent.term = 4, Refusal::StaleTerm(TERM)),
        (&|r| r.sent.term = 6, Refusal::StaleTerm(TERM)),
        (&|r| r.sent.session = 8, Refusal::StaleSession(9)),
        (&|r| r.request.offset = ByteOffset(LEN), Refusal::OutOfRange),
        (&|r| r.request.operation = DeviceOperation::Deallocate, Refusal::Operation),
        (&|r| r.mirror = MirrorId(1), Refusal::NoReplica),
    ];
    for (change, refusal) in cases {
        assert_eq!(refusal_of(secondary, change), Some(refusal));
    }
    for role in [Role::Primary, Role::Elsewhere, Role::Nobody] {
        assert_eq!(refusal_of(entry(role), |_| ()), Some(Refusal::NotSecondary));
    }
}

#[test]
fn a_steady_load_of_writes_needs_one_device_write_on_each_replica_and_no_further_memory() {
    let mut mirrors = mirrors(entry(Role::Primary));
    let capacities = |m: &Mirrors| {
        let queues = (m.submissions.capacity(), m.ended.capacity(), m.granted.capacity());
        (m.jobs.capacity(), queues)
    };
    let (mut after_first, mut device_operations) = (None, 0);
    for turn in 0..1000 {
        // The second write of each turn waits for the first one.
        (0..2).for_each(|number| mirrors.submit(MirrorId(0), request(2 * turn + number, write())));
        while let Some(Submission { request, cause, .. }) = mirrors.poll_device() {
            device_operations += 1;
            if cause.sent_in.is_some() {
                mirrors.handle_received(request.id);
            }
            mirrors.handle_device(request.id, DeviceResult::Done);
        }
        assert!(mirrors.poll_ended().is_some() && mirrors.poll_ended().is_some());
        assert_eq!(device_operations, 2 * 2 * (turn + 1), "nothing else is written");
        let now = capacities(&mirrors);
        assert_eq!(*after_first.get_or_insert(now), now);
    }
    assert!(mirrors.is_idle());
}
