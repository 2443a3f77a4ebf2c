//! Clients that enter with a bearer: who is let in, and to what.

use nearflash_units::Nanos;

use super::*;
use crate::check::NOW;
use crate::check::target::{SALT, UUID};
use crate::serving::revoked::Void;
use crate::wire::{
    BEARER_GOOD_MAX, Bearer, HelloRequest, IDENTITY_LEN, RevokeRequest, Run, SealKey, SealTerms,
};

const SECOND: u64 = NOW.0 / 1_000_000_000;

fn key_of(minter: Option<(&str, &Secret)>, volume: [u8; 16]) -> SealKey {
    SealKey::derive(minter, 1, volume, SALT)
}

fn key() -> SealKey {
    key_of(Some((KEY, &secret())), UUID)
}

/// A node with the credential of the minter, and a listener that admits no anonymous client.
fn node() -> Bench {
    node_with(false, exports(true, 3))
}

fn node_with(anonymous: bool, exports: Exports) -> Bench {
    let config = SessionConfig { anonymous, ..SessionConfig::with_nonce([1; 16]) };
    Bench::with(config, Arc::new(exports))
}

/// The first messages of a client with a bearer.
fn enter(bench: &mut Bench, bearer: &Bearer) -> Result<(), PeerError> {
    enter_as(bench, bearer.id().as_bytes(), bearer.secret())
}

pub(super) fn enter_as(bench: &mut Bench, id: &[u8], secret: &Secret) -> Result<(), PeerError> {
    let hello = HelloRequest {
        magic: HelloRequest::MAGIC,
        version_min: U16::new(VERSION),
        version_max: U16::new(VERSION),
        features: Features(U32::new(0)),
        nonce: [2; 16],
    };
    let payload = [hello.as_bytes(), id].concat();
    let hello = message(Opcode::HELLO, RequestHeader::default(), &payload, Digests::NONE);
    bench.feed(&hello);
    bench.settle();
    let transcript = [hello, std::mem::take(&mut bench.sent)].concat();
    let proof = client_proof(secret, &transcript);
    bench.feed(&message(Opcode::PROVE, RequestHeader::default(), &proof, Digests::NONE));
    bench.settle();
    bench.sent.clear();
    match bench.end.error {
        Some(error) => Err(error),
        None => {
            assert!(bench.end.session.is_ready());
            Ok(())
        }
    }
}

fn sealed(key: &SealKey) -> Vec<u8> {
    let runs = [Run { start: 4096, len: 8192 }].into();
    let (uuid, rights) = ([4; 16], Rights::READ);
    let terms = SealTerms { object: 1, uuid, version: 1, rights, good_until: SECOND, runs };
    let header = RequestHeader { volume: U16::new(NEW_HANDLE), ..RequestHeader::default() };
    message(Opcode::OPEN_SEALED, header, &key.mint(terms).unwrap().encode(), Digests::NONE)
}

fn read_object() -> Vec<u8> {
    let header = RequestHeader { epoch: U32::new(1), ..header(0, 0, 512) };
    message(Opcode::READ, header, &[], Digests::NONE)
}

#[test]
fn a_client_with_a_bearer_opens_the_seals_of_its_key_and_nothing_else() {
    let mut bench = node();
    enter(&mut bench, &key().bearer(SECOND)).unwrap();
    assert_eq!(bench.end.session.key(), Some(KEY), "it is charged to the minter");
    let claim = message(Opcode::CLAIM, header(0, 0, 0), &[1; IDENTITY_LEN], Digests::NONE);
    assert_eq!(bench.status_of(&claim), Status::OK);
    assert!(bench.demanded.iter().any(|it| it.contains("\"~check\"")), "{:?}", bench.demanded);
    assert_eq!(bench.status_of(&sealed(&key())), Status::OK);
    assert_eq!(bench.status_of(&read_object()), Status::OK);
    let any = RequestHeader { volume: U16::new(NEW_HANDLE), ..RequestHeader::default() };
    let revoke = RevokeRequest { object: U64::new(1), version: U32::new(2), what: U32::new(0) };
    for (opcode, header, payload) in [
        (Opcode::OPEN, any, NAME.as_bytes()),
        (Opcode::OPEN, any, b"no such volume"),
        (Opcode::OPEN, header(0, 0, 0), NAME.as_bytes()),
        (Opcode::SEAL_KEY, header(0, 0, 0), b""),
        (Opcode::REVOKE, header(0, 0, 0), revoke.as_bytes()),
    ] {
        let asked = message(opcode, header, payload, Digests::NONE);
        assert_eq!(bench.status_of(&asked), Status::NOT_GRANTED, "{opcode:?}");
    }
    let secret = secret();
    for (other, what) in [
        (key_of(None, UUID), "another minter"),
        (key_of(Some((KEY, &secret)), [8; 16]), "another volume"),
    ] {
        assert_eq!(bench.status_of(&sealed(&other)), Status::NOT_GRANTED, "{what}");
    }
    assert_eq!(bench.status_of(&read_object()), Status::OK, "the handle is as before");
    bench.end();
}

#[test]
fn what_the_key_has_not_made_lets_nobody_in() {
    let refused = Err(PeerError::Unauthenticated);
    let secret = secret();
    for (bearer, what) in [
        (key_of(Some((KEY, &Secret::new([1; 32]))), UUID).bearer(SECOND), "another secret"),
        (key_of(Some(("nobody", &secret)), UUID).bearer(SECOND), "no such credential"),
        (SealKey::derive(Some((KEY, &secret)), 1, UUID, [1; 16]).bearer(SECOND), "another salt"),
        (SealKey::derive(Some((KEY, &secret)), 2, UUID, SALT).bearer(SECOND), "a later key"),
        (key().bearer(SECOND + BEARER_GOOD_MAX + 1), "good for too long"),
        (key_of(None, UUID).bearer(SECOND), "of an anonymous minter"),
    ] {
        let mut bench = node();
        assert_eq!(enter(&mut bench, &bearer), refused, "{what}");
        assert!(!bench.end.session.is_ready() && bench.end.session.is_closing());
        bench.end();
    }
    let (bearer, later) = (key().bearer(SECOND), key().bearer(SECOND + 1));
    assert_eq!(enter_as(&mut node(), later.id().as_bytes(), bearer.secret()), refused);
    let id = bearer.id();
    for len in 1..id.len() {
        let entered = enter_as(&mut node(), &id.as_bytes()[..len], bearer.secret());
        assert_eq!(entered, refused, "cut to {len} bytes");
    }
    enter(&mut node(), &key().bearer(SECOND + BEARER_GOOD_MAX)).unwrap();
}

#[test]
fn a_bearer_lets_in_until_its_end_and_the_client_stays() {
    let expired = Err(PeerError::CredentialExpired);
    assert_eq!(enter(&mut node(), &key().bearer(SECOND - 1)), expired);
    let mut bench = node();
    enter(&mut bench, &key().bearer(SECOND)).unwrap();
    let later = Nanos::from_secs(SECOND + 1);
    assert_eq!(bench.end.session.handle_timeout(later), Ok(()));
    assert_eq!(bench.status_of(&sealed(&key())), Status::OK);
    bench.end();
}

#[test]
fn a_bearer_ends_with_the_generation_of_its_key() {
    let mut bench = node();
    enter(&mut bench, &key().bearer(SECOND)).unwrap();
    assert_eq!(bench.status_of(&sealed(&key())), Status::OK);
    let name = KeyName { minter: KEY.into(), volume: UUID };
    let void = Void::Keys { generation: 2 };
    let revocation = Revocation { key: name, volume: VOLUME, void };
    bench.revoked.revoke(&revocation, NOW);
    bench.end.session.revoke(&revocation);
    assert_eq!(bench.status_of(&read_object()), Status::STALE_EPOCH);
    assert_eq!(bench.status_of(&sealed(&key())), Status::STALE_EPOCH);
    let newer = SealKey::derive(Some((KEY, &secret())), 2, UUID, SALT);
    assert_eq!(bench.status_of(&sealed(&newer)), Status::OK, "of the minter's next key");
    let mut late = node();
    late.revoked.revoke(&revocation, NOW);
    let expired = Err(PeerError::CredentialExpired);
    assert_eq!(enter(&mut late, &key().bearer(SECOND)), expired);
    bench.end();
}

#[test]
fn a_bearer_is_worth_nothing_without_the_credential_of_its_minter() {
    let mut bench = node();
    enter(&mut bench, &key().bearer(SECOND)).unwrap();
    assert_eq!(bench.status_of(&sealed(&key())), Status::OK);
    let other = Exports::new([], []);
    bench.end.session.set_exports(Arc::new(other));
    assert_eq!(bench.status_of(&read_object()), Status::NO_SUCH_VOLUME);
    assert_eq!(bench.status_of(&sealed(&key())), Status::NOT_GRANTED);
    bench.end();
}

#[test]
fn an_anonymous_minters_bearer_lets_in_where_anonymous_clients_may_enter() {
    let bearer = key_of(None, UUID).bearer(SECOND);
    let refused = Err(PeerError::Unauthenticated);
    assert_eq!(enter(&mut node_with(false, exports(false, 3)), &bearer), refused);
    assert_eq!(enter(&mut node_with(true, exports(true, 3)), &bearer), refused);
    let mut bench = node_with(true, exports(false, 3));
    enter(&mut bench, &bearer).unwrap();
    assert_eq!(bench.status_of(&sealed(&key_of(None, UUID))), Status::OK);
    assert_eq!(bench.status_of(&read_object()), Status::OK);
    bench.end();
}
