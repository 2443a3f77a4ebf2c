//! Requests on the faces of mirrors.

use nearflash_request::SentIn;

use super::*;
use crate::Face;
use crate::serving::PEER_HANDLES_MAX;

/// The exports of a node whose only volume is a face.
fn faces(face: Face, peers_key: &str) -> Arc<Exports> {
    let credential = CredentialExport {
        secret: secret(),
        expired: false,
        access: [(VOLUME, Arc::new(Access::new([(0..VOLUME_LEN, Rights::READ_WRITE)])))].into(),
    };
    let export = Export { face: Some(face), is_public: false, ..export() };
    let exports = Exports::new([(NAME.into(), export)], [(KEY.into(), credential.clone())]);
    Arc::new(exports.with_peers(peers_key, credential, 1))
}

/// Another node of the cluster, which has the face open.
fn bench(face: Face) -> Bench {
    let mut bench = Bench::with(config(Stand { is_in: false, ..KEYED }), faces(face, KEY));
    bench.let_in(KEYED);
    bench.answers();
    bench
}

fn sent(opcode: Opcode, tag: u32, (term, session): (u32, u32), payload: &[u8]) -> Vec<u8> {
    let header =
        RequestHeader { epoch: U32::new(term), place: U32::new(session), ..header(tag, 4096, 512) };
    message(opcode, header, payload, Digests::NONE)
}

/// The session takes a message, and hands out its requests.
fn hand_out(bench: &mut Bench, message: &[u8]) {
    bench.feed(message);
    bench.take_demands();
}

#[test]
fn a_request_on_a_face_carries_its_term_and_session_to_the_engine() {
    for (face, session) in [(Face::Replica, 9), (Face::Primary, 0)] {
        let mut bench = bench(face);
        for (tag, opcode) in [(0, Opcode::READ), (1, Opcode::FLUSH), (2, Opcode::ZERO)] {
            hand_out(&mut bench, &sent(opcode, tag, (1000, 9), &[]));
        }
        hand_out(&mut bench, &sent(Opcode::WRITE, 3, (1000, 9), &[7; 512]));
        let sent_in: Vec<_> = bench.requests.iter().map(|request| request.sent_in).collect();
        assert_eq!(sent_in, [Some(SentIn { term: 1000, session }); 4], "whatever the epoch is");
    }
}

#[test]
fn an_accepted_write_of_a_replica_is_told_once_before_its_answer() {
    let mut bench = bench(Face::Replica);
    hand_out(&mut bench, &sent(Opcode::WRITE, 3, (5, 9), &[7; 512]));
    let tag = bench.requests[0].tag;
    bench.target.handle_accepted(tag);
    let (news, _) = bench.answer();
    assert_eq!((news.flags, news.tag.get()), (AnswerHeader::RECEIVED, 3));
    assert_eq!((news.opcode, news.status()), (Opcode::WRITE.answer().0, Status::OK));
    bench.target.handle_accepted(tag);
    assert!(bench.answers().is_empty(), "once");
    bench.settle();
    let (answer, _) = bench.answer();
    assert_eq!((answer.flags, answer.tag.get(), answer.status()), (0, 3, Status::OK));
}

#[test]
fn a_write_of_several_segments_is_accepted_when_all_are() {
    let mut bench = bench(Face::Replica);
    let header = RequestHeader {
        epoch: U32::new(5),
        place: U32::new(9),
        ..header(3, u64::from(SEGMENT_LEN_MAX) - 512, 0)
    };
    hand_out(&mut bench, &message(Opcode::WRITE, header, &[7; 1024], Digests::NONE));
    assert_eq!(bench.requests.len(), 2);
    let (first, second) = (bench.requests[0].tag, bench.requests[1].tag);
    bench.target.handle_accepted(second);
    assert!(bench.answers().is_empty());
    bench.target.handle_accepted(first);
    assert_eq!(bench.answer().0.flags, AnswerHeader::RECEIVED);
}

#[test]
fn nothing_is_told_of_other_requests() {
    for (face, opcode) in [(Face::Primary, Opcode::ZERO), (Face::Replica, Opcode::FLUSH)] {
        let mut bench = bench(face);
        hand_out(&mut bench, &sent(opcode, 0, (5, 9), &[]));
        let tag = bench.requests[0].tag;
        bench.target.handle_accepted(tag);
        assert!(bench.answers().is_empty(), "{opcode:?}");
    }
}

#[test]
fn a_refused_request_is_answered_with_the_term_of_the_node() {
    let mut bench = bench(Face::Primary);
    hand_out(&mut bench, &sent(Opcode::ZERO, 4, (5, 9), &[]));
    let tag = bench.requests[0].tag;
    bench.target.handle_refused(tag, Status::NOT_PRIMARY, 6);
    bench.fail_one(Outcome::Aborted);
    let (answer, _) = bench.answer();
    assert_eq!((answer.status(), answer.value.get()), (Status::NOT_PRIMARY, 6));
}

#[test]
fn a_write_that_is_refused_in_part_may_have_been_done() {
    let mut bench = bench(Face::Primary);
    let header =
        RequestHeader { epoch: U32::new(5), ..header(3, u64::from(SEGMENT_LEN_MAX) - 512, 0) };
    hand_out(&mut bench, &message(Opcode::WRITE, header, &[7; 1024], Digests::NONE));
    let tag = bench.requests[0].tag;
    bench.target.handle_refused(tag, Status::STALE_TERM, 6);
    bench.fail_one(Outcome::Aborted);
    bench.settle();
    assert_eq!(bench.answer().0.status(), Status::PATH_LOST);
}

#[test]
fn only_the_nodes_of_the_cluster_see_faces() {
    let open = |peers_key: &str| {
        let exports = faces(Face::Replica, peers_key);
        let mut bench = Bench::with(config(Stand { is_in: false, ..KEYED }), exports);
        bench.let_in(KEYED);
        let header = RequestHeader { volume: NEW_HANDLE.into(), ..RequestHeader::default() };
        bench.answers();
        bench.status_of(&message(Opcode::OPEN, header, NAME.as_bytes(), Digests::NONE))
    };
    assert_eq!(open(KEY), Status::OK);
    assert_eq!(open("@cluster"), Status::NO_SUCH_VOLUME);
}

#[test]
fn the_nodes_of_the_cluster_may_open_many_volumes() {
    let mut bench = Bench::with(config(OUTSIDE), faces(Face::Replica, KEY));
    bench.feed(&hello(KEYED));
    let (_, payload) = bench.answer();
    let (answer, _) = HelloAnswer::read_from_prefix(&payload).unwrap();
    assert_eq!(answer.handles_max.get(), u32::from(PEER_HANDLES_MAX));
}

#[test]
fn the_faces_of_a_connection_are_of_one_kind() {
    let credential = CredentialExport {
        secret: secret(),
        expired: false,
        access: [(VOLUME, Arc::new(Access::new([(0..VOLUME_LEN, Rights::READ_WRITE)])))].into(),
    };
    let face = |face| Export { face: Some(face), is_public: false, ..export() };
    let volumes = [(NAME.into(), face(Face::Replica)), ("primary".into(), face(Face::Primary))];
    let exports = Exports::new(volumes, [(KEY.into(), credential.clone())]);
    let exports = Arc::new(exports.with_peers(KEY, credential, 1));
    let mut bench = Bench::with(config(Stand { is_in: false, ..KEYED }), exports);
    bench.let_in(KEYED);
    bench.answers();
    assert_eq!(bench.target.face(), Some(Face::Replica));
    let header = RequestHeader { volume: NEW_HANDLE.into(), ..RequestHeader::default() };
    let open = |name: &[u8]| message(Opcode::OPEN, header, name, Digests::NONE);
    assert_eq!(bench.status_of(&open(b"primary")), Status::SEQUENCE);
    assert_eq!(bench.status_of(&open(NAME.as_bytes())), Status::OK);
}
