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
        assert_eq!(
            sent_in,
            [Some(SentIn { term: 1000, session, is_digest: false }); 4],
            "whatever the epoch is"
        );
    }
}

#[test]
fn an_accepted_write_of_a_replica_is_told_once_before_its_answer() {
    let mut bench = bench(Face::Replica);
    hand_out(&mut bench, &sent(Opcode::WRITE, 3, (5, 9), &[7; 512]));
    let tag = bench.requests[0].tag;
    bench.end.session.handle_accepted(tag);
    let (news, _) = bench.answer();
    assert_eq!((news.flags, news.tag.get()), (AnswerHeader::RECEIVED, 3));
    assert_eq!((news.opcode, news.status()), (Opcode::WRITE.answer().0, Status::OK));
    bench.end.session.handle_accepted(tag);
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
    bench.end.session.handle_accepted(second);
    assert!(bench.answers().is_empty());
    bench.end.session.handle_accepted(first);
    assert_eq!(bench.answer().0.flags, AnswerHeader::RECEIVED);
}

#[test]
fn nothing_is_told_of_other_requests() {
    for (face, opcode) in [(Face::Primary, Opcode::ZERO), (Face::Replica, Opcode::FLUSH)] {
        let mut bench = bench(face);
        hand_out(&mut bench, &sent(opcode, 0, (5, 9), &[]));
        let tag = bench.requests[0].tag;
        bench.end.session.handle_accepted(tag);
        assert!(bench.answers().is_empty(), "{opcode:?}");
    }
}

#[test]
fn a_refused_request_is_answered_with_the_term_of_the_node() {
    let mut bench = bench(Face::Primary);
    hand_out(&mut bench, &sent(Opcode::ZERO, 4, (5, 9), &[]));
    let tag = bench.requests[0].tag;
    bench.end.session.handle_refused(tag, Status::NOT_PRIMARY, 6);
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
    bench.end.session.handle_refused(tag, Status::STALE_TERM, 6);
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
    assert_eq!(open("@cluster"), Status::NOT_GRANTED);
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
    assert_eq!(bench.end.session.face(), Some(Face::Replica));
    let header = RequestHeader { volume: NEW_HANDLE.into(), ..RequestHeader::default() };
    let open = |name: &[u8]| message(Opcode::OPEN, header, name, Digests::NONE);
    assert_eq!(bench.status_of(&open(b"primary")), Status::SEQUENCE);
    assert_eq!(bench.status_of(&open(NAME.as_bytes())), Status::OK);
}

/// A DIGEST with this offset and length of the range, on the replica face.
fn digest_of(tag: u32, offset: u64, range_len: u32, digests: Digests) -> Vec<u8> {
    let header = RequestHeader { epoch: U32::new(5), place: U32::new(9), ..header(tag, offset, 0) };
    let range_len = U32::new(range_len);
    let request = DigestRequest { key: [3; 16], range_len, ..DigestRequest::default() };
    message(Opcode::DIGEST, header, request.as_bytes(), digests)
}

#[test]
fn a_digest_of_a_replica_is_answered_with_the_digests_of_its_blocks() {
    let mut bench = bench(Face::Replica);
    bench.ask(&sent(Opcode::WRITE, 3, (5, 9), &[7; 4096]));
    // Across the edge of a segment, and the rest of the volume.
    for (start, len) in [(0, 12288), (SEGMENT_LEN_MAX - 4096, 8192), (65536, DIGEST_LEN_MAX)] {
        hand_out(&mut bench, &digest_of(4, start.into(), len, Digests::NONE));
        let sent_in = bench.requests[0].sent_in;
        assert_eq!(sent_in, Some(SentIn { term: 5, session: 9, is_digest: true }));
        assert_eq!(bench.requests.len(), 1);
        bench.settle();
        let (answer, payload) = bench.answer();
        assert_eq!((answer.opcode, answer.status()), (Opcode::DIGEST.answer().0, Status::OK));
        assert_eq!((answer.flags, answer.tag.get(), answer.value.get()), (0, 4, 0));
        let blocks = (0..len / 4096).map(|block| start + block * 4096);
        let byte = |at: u32| if at == 4096 { 7 } else { 0 };
        let wanted: Vec<u8> =
            blocks.flat_map(|at| crate::block_digest(&[3; 16], &[byte(at); 4096])).collect();
        assert_eq!(payload, wanted);
    }
}

#[test]
fn a_digest_of_parts_of_blocks_or_of_too_many_is_refused() {
    let mut bench = bench(Face::Replica);
    let refused = [(512, 4096), (0, 512), (0, 0), (0, DIGEST_LEN_MAX + 4096), (0, u32::MAX)];
    for (offset, len) in refused {
        let asked = digest_of(4, offset, len, Digests::NONE);
        assert_eq!(bench.status_of(&asked), Status::INVALID_FIELD, "{offset} {len}");
    }
    let past = digest_of(4, VOLUME_LEN, 4096, Digests::NONE);
    assert_eq!(bench.status_of(&past), Status::OUT_OF_RANGE);
    for len in [0, 16, 23, 25] {
        let asked = sent(Opcode::DIGEST, 4, (5, 9), &vec![0; len]);
        assert_eq!(bench.status_of(&asked), Status::INVALID_FIELD, "{len} bytes of payload");
    }
    assert_eq!(bench.end.session.requests_in_flight(), 0);
}

#[test]
fn only_a_replica_has_digests() {
    let asked = digest_of(4, 0, 4096, Digests::NONE);
    assert_eq!(bench(Face::Primary).status_of(&asked), Status::UNSUPPORTED);
    let header = header(4, 0, 0);
    let request = DigestRequest { range_len: U32::new(4096), ..DigestRequest::default() };
    let asked = message(Opcode::DIGEST, header, request.as_bytes(), Digests::NONE);
    assert_eq!(Bench::new(OPEN).status_of(&asked), Status::UNSUPPORTED);
}

#[test]
fn a_digest_that_the_mirror_refuses_or_the_device_fails_has_no_payload() {
    let mut bench = bench(Face::Replica);
    hand_out(&mut bench, &digest_of(4, 0, 8192, Digests::NONE));
    let tag = bench.requests[0].tag;
    bench.end.session.handle_refused(tag, Status::STALE_TERM, 6);
    bench.fail_one(Outcome::Aborted);
    let (answer, payload) = bench.answer();
    assert_eq!((answer.status(), answer.value.get()), (Status::STALE_TERM, 6));
    assert!(payload.is_empty());
    hand_out(&mut bench, &digest_of(4, 0, 8192, Digests::NONE));
    bench.fail_one(Outcome::UnrecoveredRead);
    let (answer, payload) = bench.answer();
    assert_eq!((answer.status(), payload.len()), (Status::UNRECOVERED_READ, 0));
}

#[test]
fn a_digest_over_attached_rings_is_refused() {
    let mut bench = Bench::new(RINGS);
    bench.feed_entry(digest_of(4, 0, 4096, Digests::NONE)[..HEADER_LEN].try_into().unwrap());
    bench.settle();
    let answer = AnswerHeader::read_from_bytes(&bench.entries[0]).unwrap();
    assert_eq!(answer.status(), Status::INVALID_OPCODE);
}

#[test]
fn a_digest_whose_key_came_damaged_is_refused() {
    let stand = Stand { digests: Digests { header: false, data: true }, ..KEYED };
    let mut bench = Bench::with(config(Stand { is_in: false, ..stand }), faces(Face::Replica, KEY));
    bench.let_in(stand);
    bench.send();
    bench.sent.clear();
    let mut asked = digest_of(4, 0, 4096, stand.digests);
    asked[HEADER_LEN] ^= 1;
    assert_eq!(bench.status_of(&asked), Status::DATA_DIGEST);
    assert_eq!(bench.end.session.requests_in_flight(), 0);
    bench.feed(&digest_of(4, 0, 4096, stand.digests));
    bench.settle();
    let (payload, sum) = bench.sent[HEADER_LEN..].split_at(16);
    assert_eq!(payload, crate::block_digest(&[3; 16], &[0; 4096]));
    assert_eq!(sum, crate::digest::digest(payload).to_le_bytes());
}
