//! Who is let in, and who is told why not.

use super::*;
use crate::TlsIdentity;

#[test]
fn an_anonymous_client_is_let_in_while_no_credential_exists() {
    let mut bench = Bench::new(OUTSIDE);
    let (header, payload) = bench.ask(&hello(OUTSIDE));
    let (answer, _) = HelloAnswer::ref_from_prefix(&payload).unwrap();
    assert_eq!(header.status(), Status::OK);
    assert_eq!((answer.version.get(), answer.proof_wanted), (VERSION, 0));
    assert_eq!((answer.len_max.get(), answer.credits_max.get()), (LEN_MAX, CREDITS));
    assert!(bench.end.session.is_ready() && bench.end.session.key().is_none());
    assert_eq!(bench.end.session.handle_timeout(Nanos(u64::MAX)), Ok(()), "the handshake is over");
}

#[test]
fn an_anonymous_client_is_refused_where_a_credential_exists() {
    let config = SessionConfig { anonymous: true, ..config(OUTSIDE) };
    let mut bench = Bench::with(config, Arc::new(exports(true, EPOCH)));
    bench.feed(&hello(OUTSIDE));
    assert_eq!(bench.end.error, Some(PeerError::Unauthenticated));
    assert_eq!(bench.goodbye().0, Status::AUTHENTICATION_FAILED);
}

#[test]
fn an_anonymous_client_is_refused_at_a_door_for_credentials_alone() {
    let config = SessionConfig { anonymous: false, ..config(OUTSIDE) };
    let mut bench = Bench::with(config, Arc::new(exports(false, EPOCH)));
    bench.feed(&hello(OUTSIDE));
    assert_eq!(bench.end.error, Some(PeerError::Unauthenticated));
}

#[test]
fn a_node_that_is_closed_admits_no_anonymous_client_although_it_has_no_credential() {
    let without_credential = || Exports::new([(NAME.into(), export())], []);
    let mut open = Bench::with(config(OUTSIDE), Arc::new(without_credential()));
    open.ask(&hello(OUTSIDE));
    assert!(open.end.session.is_ready());
    // A client that is in loses its rights.
    open.end.session.set_exports(Arc::new(without_credential().closed()));
    let header = RequestHeader { volume: NEW_HANDLE.into(), ..RequestHeader::default() };
    let open_volume = message(Opcode::OPEN, header, NAME.as_bytes(), Digests::NONE);
    assert_eq!(open.status_of(&open_volume), Status::NOT_GRANTED);
    let mut closed = Bench::with(config(OUTSIDE), Arc::new(without_credential().closed()));
    closed.feed(&hello(OUTSIDE));
    assert_eq!(closed.end.error, Some(PeerError::Unauthenticated));
}

#[test]
fn a_client_that_proves_itself_gets_the_nodes_proof_too() {
    let mut bench = Bench::new(Stand { is_in: false, ..KEYED });
    let transcript = prove(&mut bench, KEYED, &secret());
    let (header, proof) = bench.answer();
    assert_eq!(header.status(), Status::OK);
    assert_eq!(proof, node_proof(&secret(), &transcript));
    assert_eq!(bench.end.session.key(), Some(KEY));
}

#[test]
fn a_client_has_memory_for_its_requests_once_it_is_let_in() {
    let mut bench = Bench::new(Stand { is_in: false, ..KEYED });
    assert_eq!(bench.end.session.slots.count(), 0);
    prove(&mut bench, KEYED, &secret());
    assert_eq!(bench.end.session.slots.count(), crate::length(CREDITS));
}

#[test]
fn a_client_whose_key_has_its_share_of_connections_is_told_to_try_again_later() {
    let mut bench = Bench::new(KEYED);
    assert_eq!(bench.end.session.terminate(PeerError::ShareTaken), PeerError::ShareTaken);
    assert_eq!(bench.goodbye(), (Status::BUSY, NO_TAG, 0));
}

#[test]
fn a_wrong_secret_and_an_unknown_key_are_refused_alike() {
    let mut wrong = Bench::new(Stand { is_in: false, ..KEYED });
    prove(&mut wrong, KEYED, &Secret::new([1; 32]));
    let unknown_key = Arc::new(Exports::new([(NAME.into(), export())], []));
    let mut unknown = Bench::with(config(KEYED), unknown_key);
    prove(&mut unknown, KEYED, &secret());
    assert_eq!(wrong.end.error, Some(PeerError::Unauthenticated));
    assert_eq!(unknown.end.error, wrong.end.error);
    assert_eq!(wrong.goodbye(), (Status::AUTHENTICATION_FAILED, NO_TAG, 0));
    assert_eq!(unknown.goodbye(), (Status::AUTHENTICATION_FAILED, NO_TAG, 0));
}

#[test]
fn a_client_that_proves_one_key_by_tls_and_names_another_is_refused() {
    let of_tls = |key: &str| {
        let mut bench = Bench::with(config(KEYED), Arc::new(exports(true, EPOCH)));
        assert!(bench.end.session.awaits_hello() && !bench.end.session.is_secured());
        bench.end.session.set_tls_identity(&TlsIdentity::of(key).unwrap());
        bench
    };
    let mut same = of_tls(KEY);
    prove(&mut same, KEYED, &secret());
    assert!(
        same.end.session.is_ready()
            && same.end.session.is_secured()
            && !same.end.session.awaits_hello()
    );
    for (other, hello) in [("other", hello(KEYED)), (KEY, hello(OUTSIDE))] {
        let mut bench = of_tls(other);
        bench.feed(&hello);
        assert_eq!(bench.end.error, Some(PeerError::OtherTlsKey), "{other}");
        assert_eq!(bench.goodbye(), (Status::AUTHENTICATION_FAILED, NO_TAG, 0));
    }
}

#[test]
fn nobody_is_let_in_with_the_secret_that_unknown_keys_are_checked_against() {
    let mut bench = Bench::with(config(KEYED), Arc::new(Exports::new([], [])));
    prove(&mut bench, KEYED, &Secret::new([0; 32]));
    assert_eq!(bench.end.error, Some(PeerError::Unauthenticated));
}

#[test]
fn a_proof_of_another_connection_is_no_proof() {
    let mut first = Bench::new(Stand { is_in: false, ..KEYED });
    let transcript = prove(&mut first, KEYED, &secret());
    assert!(first.end.session.is_ready());
    let replayed = SessionConfig { nonce: [3; 16], ..config(KEYED) };
    let mut second = Bench::with(replayed, Arc::new(exports(true, EPOCH)));
    second.feed(&hello(KEYED));
    let proof = client_proof(&secret(), &transcript);
    second.feed(&message(Opcode::PROVE, RequestHeader::default(), &proof, Digests::NONE));
    assert_eq!(second.end.error, Some(PeerError::Unauthenticated));
}

#[test]
fn that_a_credential_has_expired_is_told_only_to_who_has_it() {
    for (secret, error, status) in [
        (secret(), PeerError::CredentialExpired, Status::CREDENTIAL_EXPIRED),
        (Secret::new([1; 32]), PeerError::Unauthenticated, Status::AUTHENTICATION_FAILED),
    ] {
        let mut bench = Bench::with(config(KEYED), granted(&[], true));
        prove(&mut bench, KEYED, &secret);
        assert_eq!(bench.end.error, Some(error));
        assert_eq!(bench.goodbye().0, status);
    }
}

#[test]
fn a_client_without_a_version_in_common_is_told_the_nodes() {
    let mut bench = Bench::new(OUTSIDE);
    let mut bytes = hello(OUTSIDE);
    bytes[HEADER_LEN + 8..HEADER_LEN + 12].copy_from_slice(&[7, 0, 9, 0]);
    bench.feed(&bytes);
    assert_eq!(bench.end.error, Some(PeerError::Version { min: 7, max: 9 }));
    assert_eq!(bench.goodbye(), (Status::VERSION, NO_TAG, VERSION.into()));
}

#[test]
fn who_speaks_another_protocol_is_told_nothing() {
    for bytes in [&b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], &[0; 128]] {
        let mut bench = Bench::new(OUTSIDE);
        bench.feed(bytes);
        assert_eq!(bench.end.error, Some(PeerError::NotDirect));
        assert!(bench.end.session.is_closing() && bench.answers().is_empty());
    }
}

#[test]
fn a_request_before_the_proof_is_out_of_sequence() {
    let mut bench = Bench::new(Stand { is_in: false, ..KEYED });
    bench.feed(&hello(KEYED));
    bench.answer();
    bench.feed(&read(0, 0, 512));
    assert_eq!(bench.end.error, Some(PeerError::Sequence(Opcode::READ)));
    assert_eq!(bench.goodbye().0, Status::SEQUENCE);
}

#[test]
fn a_second_hello_is_out_of_sequence() {
    let mut bench = Bench::new(OPEN);
    bench.feed(&hello(OPEN));
    assert_eq!(bench.end.error, Some(PeerError::Sequence(Opcode::HELLO)));
}

#[test]
fn a_client_that_is_not_in_in_time_is_told_so() {
    let mut bench = Bench::new(OUTSIDE);
    let until = SessionConfig::with_nonce([0; 16]).handshake_timeout;
    assert_eq!(bench.end.session.handle_timeout(Nanos(until.0 - 1)), Ok(()));
    assert_eq!(bench.end.session.handle_timeout(until), Err(PeerError::Silent));
    assert_eq!(bench.goodbye().0, Status::TIMEOUT);
}

#[test]
fn only_what_both_want_is_agreed() {
    let none = SessionConfig { digests: Digests::NONE, ..config(OUTSIDE) };
    let mut bench = Bench::with(none, Arc::new(exports(false, EPOCH)));
    let wants = Stand { digests: Digests::BOTH, by_rings: true, ..OUTSIDE };
    let (_, payload) = bench.ask(&hello(wants));
    let (answer, _) = HelloAnswer::ref_from_prefix(&payload).unwrap();
    assert_eq!(answer.features, Features::default());
}
