//! Sealed objects: their handles, and the requests on them.

use nearflash_units::Nanos;

use super::*;
use crate::check::NOW;
use crate::check::target::{SALT, UUID};
use crate::serving::{REVOCATIONS_MAX, REVOKED_MAX, Revoked};
use crate::wire::{RevokeRequest, Run, SealKey, SealKeyAnswer, SealTerms};

const SECOND: u64 = NOW.0 / 1_000_000_000;

fn key() -> SealKey {
    SealKey::derive(None, 1, UUID, SALT)
}

/// The volume from 64 KiB on, and then its start.
fn terms(version: u32) -> SealTerms {
    let runs = [Run { start: 64 << 10, len: 1 << 20 }, Run { start: 0, len: 32 << 10 }];
    let (uuid, rights, runs) = ([4; 16], Rights::READ_WRITE, runs.into());
    SealTerms { object: 1, uuid, version, rights, good_until: SECOND, runs }
}

fn open(handle: u16, terms: SealTerms) -> Vec<u8> {
    let seal = key().mint(terms).unwrap().encode();
    let header = RequestHeader { volume: U16::new(handle), ..RequestHeader::default() };
    message(Opcode::OPEN_SEALED, header, &seal, Digests::NONE)
}

fn revoke(tag: u32, object: u64, version: u32) -> Vec<u8> {
    let (object, version) = (U64::new(object), U32::new(version));
    let request = RevokeRequest { object, version, what: U32::new(RevokeRequest::OBJECT) };
    message(Opcode::REVOKE, header(tag, 0, 0), request.as_bytes(), Digests::NONE)
}

/// A request on handle 1.
fn on_object(opcode: Opcode, offset: u64, len: u32, payload: &[u8]) -> Vec<u8> {
    let header =
        RequestHeader { volume: U16::new(1), epoch: U32::new(1), ..header(0, offset, len) };
    message(opcode, header, payload, Digests::NONE)
}

fn opened() -> Bench {
    let mut bench = Bench::new(OPEN);
    let (answer, payload) = bench.ask(&open(NEW_HANDLE, terms(1)));
    assert_eq!((answer.status(), answer.value.get()), (Status::OK, 1));
    let info = OpenAnswer::read_from_bytes(&payload).unwrap();
    assert_eq!((info.bytes.get(), info.epoch.get()), ((1 << 20) + (32 << 10), 1));
    assert_eq!((info.uuid, info.rights), ([4; 16], Rights::READ_WRITE));
    bench
}

#[test]
fn the_answer_to_seal_key_gives_what_both_ends_derive_the_key_from() {
    let mut bench = Bench::new(OPEN);
    let ask = message(Opcode::SEAL_KEY, header(0, 0, 0), &[], Digests::NONE);
    let (answer, payload) = bench.ask(&ask);
    assert_eq!(answer.status(), Status::OK);
    let granted = SealKeyAnswer::read_from_bytes(&payload).unwrap();
    assert_eq!((granted.generation.get(), granted.seconds.get()), (1, SECOND));
    assert_eq!(granted.salt, SALT);
}

#[test]
fn a_request_over_the_end_of_a_run_is_done_in_both() {
    let mut bench = opened();
    let seam = 1 << 20;
    let bytes: Vec<u8> = (0..=255).cycle().take(1024).collect();
    assert_eq!(bench.status_of(&on_object(Opcode::WRITE, seam - 512, 0, &bytes)), Status::OK);
    bench.demanded.clear();
    let zero = on_object(Opcode::ZERO, seam - 512, 1024, &[]);
    assert_eq!(bench.status_of(&zero), Status::OK);
    assert_eq!(bench.demanded.len(), 2, "one range for each run: {:?}", bench.demanded);
    bench.demanded.clear();
    let discard = on_object(Opcode::DISCARD, seam - 700, 1400, &[]);
    assert_eq!(bench.status_of(&discard), Status::OK);
    assert_eq!(bench.demanded.len(), 1, "one request with both ranges");
    bench.end();
}

#[test]
fn what_waits_under_a_seal_is_not_done_by_the_next_one_of_the_handle() {
    let mut bench = opened();
    bench.feed(&on_object(Opcode::READ, 0, 512, &[]));
    bench.take_demands();
    let waiting = bench.requests[0].tag;
    assert!(bench.end.session.is_still_allowed(waiting));
    let elsewhere = SealTerms { runs: [Run { start: 4096, len: 4096 }].into(), ..terms(1) };
    bench.feed(&open(1, elsewhere));
    bench.take_demands();
    assert!(!bench.end.session.is_still_allowed(waiting), "of the same version, too");
    bench.end();
}

#[test]
fn a_write_that_a_revocation_interrupts_is_not_said_to_have_had_no_effect() {
    let mut bench = opened();
    let seam = (1 << 20) - 512;
    let whole = on_object(Opcode::WRITE, seam, 0, &[7; 1024]);
    let (first, second) = whole.split_at(whole.len() - 256);
    bench.feed(first);
    bench.take_demands();
    bench.answer_one();
    let revocation = Revocation::of_object("", UUID, VOLUME, (1, 2));
    bench.end.session.revoke(&revocation);
    bench.feed(second);
    assert_eq!(bench.statuses_of_all(), [Status::NOT_GRANTED]);
    let read = on_object(Opcode::READ, 0, 512, &[]);
    let (answer, _) = bench.ask(&read);
    assert_eq!((answer.status(), answer.value.get()), (Status::STALE_EPOCH, 2));
    bench.end();
}

#[test]
fn a_session_has_64_unanswered_revocations_and_takes_requests_meanwhile() {
    let mut bench = Bench::new(OPEN);
    for tag in 0..u32::try_from(REVOCATIONS_MAX).unwrap() {
        bench.feed(&revoke(tag, 1, 1));
    }
    assert_eq!(bench.answers().len(), 0);
    bench.feed(&revoke(99, 1, 1));
    let (refused, _) = bench.answer();
    assert_eq!((refused.tag.get(), refused.status()), (99, Status::BUSY));
    bench.settle();
    assert_eq!(bench.answers().len(), REVOCATIONS_MAX);
    assert_eq!(bench.status_of(&revoke(0, 1, 0)), Status::INVALID_FIELD, "no version is 0");
}

#[test]
fn a_revocation_is_remembered_as_long_as_an_older_seal_can_be_opened() {
    let seal =
        |version, good_until| key().mint(SealTerms { good_until, ..terms(version) }).unwrap();
    let mut revoked = Revoked::new(SALT);
    let revocation = Revocation::of_object("", UUID, VOLUME, (1, 2));
    revoked.revoke(&revocation, NOW);
    let later = |seconds| Nanos::from_secs(SECOND + seconds);
    let stale = Err((Status::STALE_EPOCH, 2));
    assert_eq!(revoked.check(&seal(1, SECOND + 60), later(60)), stale);
    assert_eq!(revoked.check(&seal(2, SECOND + 60), later(60)), Ok(()));
    assert_eq!(revoked.check(&seal(1, SECOND + 60), later(61)), Err((Status::STALE_EPOCH, 0)));
}

#[test]
fn no_seal_of_a_minter_is_opened_while_one_that_it_revoked_may_not_be_remembered() {
    let mut revoked = Revoked::new(SALT);
    let of = |minter, object| Revocation::of_object(minter, UUID, VOLUME, (object, 2));
    let half = u64::try_from(REVOKED_MAX / 2).unwrap();
    for object in 0..half {
        revoked.revoke(&of("", object + 100), NOW);
    }
    let seal = |good_until| key().mint(SealTerms { good_until, ..terms(1) }).unwrap();
    assert_eq!(revoked.check(&seal(SECOND), NOW), Ok(()));
    revoked.revoke(&of("", 1), NOW);
    assert_eq!(revoked.check(&seal(SECOND), NOW), Err((Status::BUSY, 0)));
    // Others open their seals, and have room to revoke.
    let secret = Secret::new([3; 32]);
    let other = SealKey::derive(Some(("other", &secret)), 1, UUID, SALT);
    let of_other = |version| other.mint(terms(version)).unwrap();
    assert_eq!(revoked.check(&of_other(1), NOW), Ok(()));
    revoked.revoke(&of("other", 1), NOW);
    assert_eq!(revoked.check(&of_other(1), NOW), Err((Status::STALE_EPOCH, 2)));
    assert_eq!(revoked.check(&of_other(2), NOW), Ok(()));
    let later = Nanos::from_secs(SECOND + 61);
    assert_eq!(revoked.check(&seal(SECOND + 61), later), Ok(()));
}

#[test]
fn a_revocation_of_an_object_ends_each_of_its_handles_and_no_other() {
    let mut bench = opened();
    let other = SealTerms { object: 2, ..terms(1) };
    let opens = [(NEW_HANDLE, terms(1)), (NEW_HANDLE, other.clone()), (2, other), (3, terms(1))];
    for (handle, terms) in opens {
        assert_eq!(bench.status_of(&open(handle, terms)), Status::OK);
    }
    // 1 and 3 are of object 1 now, 2 of object 2.
    bench.end.session.revoke(&Revocation::of_object("", UUID, VOLUME, (1, 2)));
    let status = |bench: &mut Bench, handle: u16| {
        let (volume, epoch) = (U16::new(handle), U32::new(1));
        let header = RequestHeader { volume, epoch, ..header(0, 0, 512) };
        bench.status_of(&message(Opcode::READ, header, &[], Digests::NONE))
    };
    let found = [1, 2, 3].map(|handle| status(&mut bench, handle));
    assert_eq!(found, [Status::STALE_EPOCH, Status::OK, Status::STALE_EPOCH]);
    let close = RequestHeader { volume: U16::new(2), ..RequestHeader::default() };
    let close = message(Opcode::CLOSE, close, &[], Digests::NONE);
    assert_eq!(bench.status_of(&close), Status::OK);
    bench.end.session.revoke(&Revocation::of_object("", UUID, VOLUME, (2, 2)));
    bench.end();
}

/// A session with a read that has not begun, whose client has said goodbye.
fn closing() -> (Bench, nearflash_request::Tag) {
    let mut bench = opened();
    bench.feed(&on_object(Opcode::READ, 0, 512, &[]));
    bench.take_demands();
    let waiting = bench.requests[0].tag;
    bench.feed(&message(Opcode::GOODBYE, RequestHeader::default(), &[], Digests::NONE));
    assert!(bench.end.session.is_closing());
    assert!(bench.end.session.is_still_allowed(waiting), "it was received before");
    (bench, waiting)
}

#[test]
fn a_session_that_is_closing_loses_its_rights_when_exports_change() {
    let (mut bench, waiting) = closing();
    // The minter is as good as before, but nobody can say who the client was.
    bench.end.session.set_exports(Arc::new(exports(false, EPOCH)));
    assert!(!bench.end.session.is_still_allowed(waiting));
    bench.end();
}

#[test]
fn a_session_that_is_closing_loses_a_seal_that_is_revoked() {
    let (mut bench, waiting) = closing();
    assert!(bench.end.session.revoke(&Revocation::of_object("", UUID, VOLUME, (1, 2))));
    assert!(!bench.end.session.is_still_allowed(waiting));
    bench.end();
}

fn operator() -> SealKey {
    SealKey::of_operator(12, &Secret::new([8; 32]), UUID)
}

/// An operator's seal for 8 KiB from 4 KiB on.
fn of_operator() -> SealTerms {
    let runs = [Run { start: 4096, len: 8192 }].into();
    SealTerms { rights: Rights::READ, good_until: u64::MAX, runs, ..terms(1) }
}

fn with_operator(with_key: bool) -> Arc<Exports> {
    let access = [(VOLUME, Arc::new(Access::new([(4096..12_288, Rights::READ)])))].into();
    let export = CredentialExport { secret: Secret::new([8; 32]), expired: false, access };
    let name = crate::wire::operator_name(12);
    Arc::new(exports(with_key, EPOCH).with_operator_seals([(name, export)]))
}

fn open_by(key: &SealKey, terms: SealTerms) -> Vec<u8> {
    let seal = key.mint(terms).unwrap().encode();
    let header = RequestHeader { volume: U16::new(NEW_HANDLE), ..RequestHeader::default() };
    message(Opcode::OPEN_SEALED, header, &seal, Digests::NONE)
}

#[test]
fn an_operators_seal_is_good_until_the_node_forgets_its_key() {
    for stand in [OPEN, KEYED] {
        let mut bench = Bench::new(stand);
        let open = open_by(&operator(), of_operator());
        assert_eq!(bench.status_of(&open), Status::NOT_GRANTED, "no such key");
        bench.end.session.set_exports(with_operator(stand.with_key));
        assert_eq!(bench.status_of(&open), Status::OK, "with and without credentials");
        let read = on_object(Opcode::READ, 0, 512, &[]);
        assert_eq!(bench.status_of(&read), Status::OK);
        let wide = [Run { start: 4096, len: 16_384 }].into();
        let wide = open_by(&operator(), SealTerms { runs: wide, ..of_operator() });
        assert_eq!(bench.status_of(&wide), Status::NOT_GRANTED, "more than was granted");
        let ended = bench.end.session.set_exports(Arc::new(exports(stand.with_key, EPOCH)));
        assert_eq!(ended, [VOLUME], "the node waits for its requests");
        assert_eq!(bench.status_of(&read), Status::NOT_GRANTED);
        assert_eq!(bench.status_of(&open), Status::NOT_GRANTED);
        bench.end();
    }
}

#[test]
fn the_key_of_an_operators_seal_lets_nobody_in_but_its_bearer_does() {
    let config = SessionConfig::with_nonce([1; 16]);
    let mut bench = Bench::with(config, with_operator(true));
    let refused = super::bearers::enter_as(&mut bench, b"~12", &Secret::new([8; 32]));
    assert_eq!(refused, Err(PeerError::Unauthenticated));
    let mut bench = Bench::with(config, with_operator(true));
    let bearer = operator().bearer(u64::MAX);
    let id = bearer.id();
    let entered = super::bearers::enter_as(&mut bench, id.as_bytes(), bearer.secret());
    assert_eq!(entered, Ok(()));
    assert_eq!(bench.status_of(&open_by(&operator(), of_operator())), Status::OK);
    bench.end();
}
