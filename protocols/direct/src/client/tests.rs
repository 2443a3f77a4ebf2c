//! A session against a node that is written here byte by byte.

use nearflash_request::BufferId;
use nearflash_session::{Chunk, Receiving};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use super::*;
use crate::Digests;
use crate::digest::digest;
use crate::proof::node_proof;
use crate::wire::{
    AnswerHeader, Features, HEADER_LEN, HelloAnswer, LEN_MAX, OpenAnswer, Rights, SEGMENT_LEN_MAX,
    VERSION,
};

const VOLUME: VolumeHandle = VolumeHandle(0);
const BUFFER: BufferId = BufferId(5);
const CREDITS: u32 = 4;

fn secret() -> Secret {
    Secret::new([7; 32])
}

fn config(with_key: bool) -> ClientConfig {
    ClientConfig {
        key: with_key.then(|| ("app".into(), secret())),
        digests: Digests::NONE,
        rings: true,
        nonce: [2; 16],
    }
}

fn hello_answer() -> HelloAnswer {
    HelloAnswer {
        version: U16::new(VERSION),
        proof_wanted: 0,
        reserved0: 0,
        features: Features(U32::new(Features::RINGS)),
        len_max: U32::new(LEN_MAX),
        segment_len_max: U32::new(SEGMENT_LEN_MAX),
        credits_max: U32::new(CREDITS),
        handles_max: U32::new(4),
        boot: U64::new(0),
        nonce: [1; 16],
    }
}

fn open_answer(epoch: u32, uuid: u8) -> OpenAnswer {
    OpenAnswer {
        bytes: U64::new(1 << 30),
        block_size: U32::new(512),
        epoch: U32::new(epoch),
        uuid: [uuid; 16],
        rights: Rights::READ_WRITE,
        reserved: [0; 7],
    }
}

/// An answer that is good, with as many credits as there are.
fn answer(opcode: Opcode, tag: u32, payload: &[u8]) -> Vec<u8> {
    with(AnswerHeader::default(), opcode, tag, payload)
}

fn with(header: AnswerHeader, opcode: Opcode, tag: u32, payload: &[u8]) -> Vec<u8> {
    let header = AnswerHeader {
        opcode: opcode.answer().0,
        tag: U32::new(tag),
        len: U32::new(u32::try_from(payload.len()).unwrap()),
        credits: if header.credits.get() == 0 { U32::new(CREDITS) } else { header.credits },
        ..header
    };
    [header.as_bytes(), payload].concat()
}

fn failed(opcode: Opcode, tag: u32, status: Status, value: u64) -> Vec<u8> {
    let (status, value) = (U16::new(status.0), U64::new(value));
    with(AnswerHeader { status, value, ..AnswerHeader::default() }, opcode, tag, &[])
}

/// A part of a read's answer.
fn part(tag: u32, value: u64, flags: u8, payload: &[u8]) -> Vec<u8> {
    let header = AnswerHeader { value: U64::new(value), flags, ..AnswerHeader::default() };
    with(header, Opcode::READ, tag, payload)
}

fn ready() -> ClientSession {
    let mut client = ClientSession::new(config(false));
    send(&mut client);
    feed(&mut client, &answer(Opcode::HELLO, 0, hello_answer().as_bytes())).unwrap();
    assert_eq!(client.poll_event(), Some(ClientEvent::Ready));
    let number = client.open("data").unwrap();
    feed(&mut client, &answer(Opcode::OPEN, number, open_answer(3, 9).as_bytes())).unwrap();
    assert!(matches!(client.poll_event(), Some(ClientEvent::Opened { result: Ok(_), .. })));
    send(&mut client);
    client
}

/// All of the bytes, payload too.
fn feed(client: &mut ClientSession, bytes: &[u8]) -> Result<(), PeerError> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let taken = match client.receiving() {
            Receiving::Bytes => client.handle_input(rest)?,
            Receiving::Payload { len, .. } => {
                let len = len.min(rest.len());
                client.handle_payload(&rest[..len]);
                len
            }
            Receiving::Paused => return Ok(()),
        };
        rest = &rest[taken..];
    }
    Ok(())
}

/// Sends all; the header bytes.
fn send(client: &mut ClientSession) -> Vec<u8> {
    let mut sent = Vec::new();
    for chunk in client.output() {
        if let Chunk::Bytes(bytes) = chunk {
            sent.extend_from_slice(bytes);
        }
    }
    client.advance_output(client.output_len());
    sent
}

fn read(offset: u64, len: u32) -> ClientOperation {
    ClientOperation::Read { buffer: BUFFER, offset, len }
}

fn write(len: u32) -> ClientOperation {
    ClientOperation::Write { buffer: BUFFER, offset: 0, len, durable: false }
}

#[test]
fn nothing_is_submitted_before_the_handshake_is_over() {
    let mut client = ClientSession::new(config(false));
    assert_eq!(client.submit(VOLUME, &read(0, 512), &[]), Err(SubmitError::NotConnected));
    assert_eq!(client.open("data"), Err(SubmitError::NotConnected));
    assert_eq!(client.agreed(), None);
}

#[test]
fn zeroes_are_asked_only_of_a_node_that_knows_how() {
    let zero = ClientOperation::Zero { offset: 0, len: 512, deallocate: true, durable: true };
    let mut client = ready();
    assert_eq!(client.agreed().map(|agreed| agreed.zero), Some(false));
    assert_eq!(client.submit(VOLUME, &zero, &[]), Err(SubmitError::NotAgreed));
    let mut client = ClientSession::new(config(false));
    let hello = HelloAnswer { features: Features(U32::new(Features::ZERO)), ..hello_answer() };
    feed(&mut client, &answer(Opcode::HELLO, 0, hello.as_bytes())).unwrap();
    let number = client.open("data").unwrap();
    feed(&mut client, &answer(Opcode::OPEN, number, open_answer(3, 9).as_bytes())).unwrap();
    send(&mut client);
    client.submit(VOLUME, &zero, &[]).unwrap();
    let sent = send(&mut client);
    assert_eq!((sent.len(), &sent[..2]), (HEADER_LEN, &[0x07, 3][..]));
    feed(&mut client, &answer(Opcode::ZERO, 0, &[])).unwrap();
    assert_eq!(client.poll_completion().map(|done| done.status), Some(Status::OK));
}

#[test]
fn a_node_that_wants_no_proof_is_not_the_one_that_knows_the_key() {
    let mut client = ClientSession::new(config(true));
    let answer = answer(Opcode::HELLO, 0, hello_answer().as_bytes());
    assert_eq!(feed(&mut client, &answer), Err(PeerError::Impostor));
    assert!(client.is_closing());
}

#[test]
fn a_node_that_does_not_know_the_secret_is_found_out() {
    for (node_secret, result) in
        [(secret(), Ok(())), (Secret::new([8; 32]), Err(PeerError::Impostor))]
    {
        let mut client = ClientSession::new(config(true));
        let hello = send(&mut client);
        let wanted = HelloAnswer { proof_wanted: 1, ..hello_answer() };
        let hello_answer = answer(Opcode::HELLO, 0, wanted.as_bytes());
        feed(&mut client, &hello_answer).unwrap();
        send(&mut client);
        let proof = node_proof(&node_secret, &[hello, hello_answer].concat());
        assert_eq!(feed(&mut client, &answer(Opcode::PROVE, 0, &proof)), result);
        assert_eq!(client.is_ready(), result.is_ok());
    }
}

#[test]
fn limits_that_no_node_has_are_not_believed() {
    let sound = hello_answer();
    for hello in [
        HelloAnswer { credits_max: U32::new(0), ..sound },
        HelloAnswer { credits_max: U32::new(u32::MAX), ..sound },
        HelloAnswer { len_max: U32::new(0), ..sound },
        HelloAnswer { segment_len_max: U32::new(512), ..sound },
        HelloAnswer { features: Features(U32::new(1 << 9)), ..sound },
        HelloAnswer { version: U16::new(2), ..sound },
    ] {
        let mut client = ClientSession::new(config(false));
        let fed = feed(&mut client, &answer(Opcode::HELLO, 0, hello.as_bytes()));
        assert!(fed.is_err() && client.is_closing(), "{hello:?}");
    }
}

#[test]
fn why_a_node_ends_the_connection_is_told() {
    let mut client = ClientSession::new(config(false));
    let goodbye = failed(Opcode::GOODBYE, 0, Status::AUTHENTICATION_FAILED, 0);
    let error = PeerError::Goodbye(Status::AUTHENTICATION_FAILED);
    assert_eq!(feed(&mut client, &goodbye), Err(error));
}

#[test]
fn no_more_is_submitted_than_there_are_credits() {
    let mut client = ready();
    let tags: Vec<u32> =
        (0..CREDITS).map(|_| client.submit(VOLUME, &read(0, 512), &[]).unwrap().0).collect();
    assert_eq!(client.submit(VOLUME, &read(0, 512), &[]), Err(SubmitError::NoCredit));
    // The node wants fewer from now on.
    let fewer = AnswerHeader { credits: U32::new(2), ..AnswerHeader::default() };
    for tag in &tags[..2] {
        feed(&mut client, &with(fewer, Opcode::READ, *tag, &[0; 512])).unwrap();
        assert_eq!(client.poll_completion().unwrap().tag, RequestTag(*tag));
    }
    assert_eq!((client.credits_left(), client.requests_in_flight()), (0, 2));
    assert_eq!(client.submit(VOLUME, &read(0, 512), &[]), Err(SubmitError::NoCredit));
    feed(&mut client, &with(fewer, Opcode::READ, tags[2], &[0; 512])).unwrap();
    client.poll_completion().unwrap();
    assert_eq!(client.credits_left(), 1);
}

#[test]
fn lengths_that_the_node_refuses_are_not_sent() {
    let mut client = ready();
    let refused = Err(SubmitError::Length(LEN_MAX));
    assert_eq!(client.submit(VOLUME, &read(0, 0), &[]), refused);
    assert_eq!(client.submit(VOLUME, &read(0, LEN_MAX + 1), &[]), refused);
    assert_eq!(client.submit(VolumeHandle(1), &read(0, 512), &[]), Err(SubmitError::NotOpen));
    assert_eq!((client.output_len(), client.requests_in_flight()), (0, 0));
}

#[test]
fn payload_of_a_read_belongs_into_its_buffer_part_by_part() {
    let mut client = ready();
    let offset = u64::from(SEGMENT_LEN_MAX) - 100;
    let tag = client.submit(VOLUME, &read(offset, 300), &[]).unwrap().0;
    let second = part(tag, 100, AnswerHeader::MORE, &[7; 200]);
    assert_eq!(client.handle_input(&second[..HEADER_LEN]), Ok(HEADER_LEN));
    let place = Receiving::Payload { buffer: BUFFER, offset: 100, len: 200 };
    assert_eq!(client.receiving(), place);
    client.handle_payload(&[7; 150]);
    let place = Receiving::Payload { buffer: BUFFER, offset: 250, len: 50 };
    assert_eq!(client.receiving(), place);
    client.handle_payload(&[7; 50]);
    assert_eq!(client.poll_completion(), None, "a part is missing");
    feed(&mut client, &part(tag, 0, 0, &[7; 100])).unwrap();
    let done = ClientCompletion { tag: RequestTag(tag), status: Status::OK, value: 0 };
    assert_eq!(client.poll_completion(), Some(done));
}

#[test]
fn an_answer_that_does_not_fit_what_was_asked_ends_the_connection() {
    let offset = u64::from(SEGMENT_LEN_MAX) - 100;
    for (bytes, what) in [
        (part(0, 0, 0, &[0; 100]), "the last part, and one is missing"),
        (part(0, 0, AnswerHeader::MORE, &[0; 99]), "not a segment"),
        (part(0, 50, AnswerHeader::MORE, &[0; 50]), "not a segment's place"),
        (part(0, u64::MAX, AnswerHeader::MORE, &[0; 50]), "a place far away"),
        (part(0, 0, 0, &[]), "no data"),
        (part(1, 0, 0, &[0; 100]), "no such tag"),
        (part(9, 0, 0, &[0; 100]), "no such tag at all"),
        (answer(Opcode::WRITE, 0, &[]), "not a write"),
        (answer(Opcode::OPEN, 77, &[]), "nothing was opened"),
        (answer(Opcode(0x0F), 0, &[]), "no such opcode"),
        (part(0, 0, AnswerHeader::MORE, &[0; 100]).repeat(2), "the same part twice"),
    ] {
        let mut client = ready();
        client.submit(VOLUME, &read(offset, 300), &[]).unwrap();
        let fed = feed(&mut client, &bytes);
        assert!(matches!(fed, Err(PeerError::Unasked(_))), "{what}: {fed:?}");
        assert_eq!(client.in_flight().count(), 1, "{what}");
        let goodbye = send(&mut client);
        assert_eq!(goodbye[goodbye.len() - HEADER_LEN], Opcode::GOODBYE.0);
    }
}

#[test]
fn a_read_whose_payload_was_damaged_has_failed() {
    let mut client = ClientSession::new(ClientConfig { digests: Digests::BOTH, ..config(false) });
    send(&mut client);
    let features = Features(U32::new(Features::DATA_DIGEST));
    let hello = HelloAnswer { features, ..hello_answer() };
    feed(&mut client, &answer(Opcode::HELLO, 0, hello.as_bytes())).unwrap();
    let number = client.open("data").unwrap();
    let mut opened = answer(Opcode::OPEN, number, open_answer(3, 9).as_bytes());
    opened.extend(digest(open_answer(3, 9).as_bytes()).to_le_bytes());
    feed(&mut client, &opened).unwrap();
    for (damage, status) in [(0, Status::OK), (1, Status::DATA_DIGEST)] {
        let tag = client.submit(VOLUME, &read(0, 512), &[]).unwrap().0;
        let mut bytes = part(tag, 0, 0, &[7; 512]);
        bytes.extend((digest(&[7; 512]) ^ damage).to_le_bytes());
        feed(&mut client, &bytes).unwrap();
        assert_eq!(client.poll_completion().unwrap().status, status);
    }
}

#[test]
fn a_write_answered_early_is_over_when_its_buffer_is_sent() {
    let mut client = ready();
    let tag = client.submit(VOLUME, &write(4096), &[]).unwrap();
    client.advance_output(HEADER_LEN + 1000);
    feed(&mut client, &failed(Opcode::WRITE, tag.0, Status::NOT_GRANTED, 0)).unwrap();
    assert_eq!(client.poll_completion(), None, "the buffer is in use");
    client.advance_output(3095);
    assert_eq!(client.poll_completion(), None);
    client.advance_output(1);
    assert_eq!(client.poll_completion().unwrap().status, Status::NOT_GRANTED);
}

#[test]
fn a_stale_request_is_not_sent_again_and_the_next_carries_the_new_epoch() {
    let mut client = ready();
    let tag = client.submit(VOLUME, &write(512), &[]).unwrap();
    send(&mut client);
    feed(&mut client, &failed(Opcode::WRITE, tag.0, Status::STALE_EPOCH, 4)).unwrap();
    let done = ClientCompletion { tag, status: Status::STALE_EPOCH, value: 4 };
    assert_eq!(client.poll_completion(), Some(done));
    assert_eq!(client.output_len(), 0, "nothing is sent twice");
    let number = client.refresh(VOLUME).unwrap();
    let asked = send(&mut client);
    assert_eq!((asked[0], &asked[2..4]), (Opcode::OPEN.0, &[0, 0][..]));
    feed(&mut client, &answer(Opcode::OPEN, number, open_answer(4, 9).as_bytes())).unwrap();
    assert_eq!(client.volume(VOLUME).unwrap().epoch, 4);
    client.submit(VOLUME, &write(512), &[]).unwrap();
    assert_eq!(send(&mut client)[20], 4);
}

#[test]
fn a_volume_that_is_another_by_now_is_closed() {
    let mut client = ready();
    let number = client.refresh(VOLUME).unwrap();
    send(&mut client);
    feed(&mut client, &answer(Opcode::OPEN, number, open_answer(1, 8).as_bytes())).unwrap();
    let result = Err(Status::NO_SUCH_VOLUME);
    assert_eq!(client.poll_event(), Some(ClientEvent::Opened { number, result }));
    assert_eq!(client.submit(VOLUME, &read(0, 512), &[]), Err(SubmitError::NotOpen));
    assert_eq!(send(&mut client)[0], Opcode::CLOSE.0);
}

#[test]
fn what_was_not_answered_on_a_lost_connection_is_named() {
    let mut client = ready();
    let tags: Vec<RequestTag> =
        (0..3).map(|_| client.submit(VOLUME, &write(512), &[]).unwrap()).collect();
    send(&mut client);
    feed(&mut client, &answer(Opcode::WRITE, tags[1].0, &[])).unwrap();
    let mut left: Vec<u32> = client.in_flight().map(|tag| tag.0).collect();
    left.sort_unstable();
    let mut unanswered = [tags[0].0, tags[2].0];
    unanswered.sort_unstable();
    assert_eq!(left, unanswered);
    assert_eq!(client.poll_completion().unwrap().tag, tags[1]);
}

#[test]
fn after_goodbye_nothing_is_said_or_heard() {
    let mut client = ready();
    client.goodbye();
    assert_eq!(client.submit(VOLUME, &read(0, 512), &[]), Err(SubmitError::NotConnected));
    assert_eq!(send(&mut client)[0], Opcode::GOODBYE.0);
    assert_eq!((client.receiving(), client.is_closing()), (Receiving::Paused, true));
}

#[test]
fn requests_go_by_one_transport_at_a_time() {
    let mut client = ready();
    assert_eq!(client.submit_entry(VOLUME, &read(0, 512), 0), Err(SubmitError::WrongTransport));
    client.attach(2, 4096).unwrap();
    assert_eq!(client.submit(VOLUME, &read(0, 512), &[]), Err(SubmitError::WrongTransport));
    feed(&mut client, &answer(Opcode::ATTACH, 1, &[])).unwrap();
    assert_eq!(client.poll_event(), Some(ClientEvent::Attached(Ok(()))));
    assert_eq!(client.submit(VOLUME, &read(0, 512), &[]), Err(SubmitError::WrongTransport));
    let (tag, entry) = client.submit_entry(VOLUME, &read(512, 1024), 4096).unwrap();
    assert_eq!((entry[0], &entry[24..28]), (Opcode::READ.0, &[0, 16, 0, 0][..]));
    assert_eq!(client.credits_left(), 1, "as many as the ring has entries");
    let done: [u8; HEADER_LEN] = answer(Opcode::READ, tag.0, &[]).try_into().unwrap();
    client.handle_entry(&done).unwrap();
    assert_eq!(client.poll_completion().unwrap().status, Status::OK);
    let error = PeerError::Unasked(Opcode::READ.answer());
    assert_eq!(client.handle_entry(&done), Err(error), "it was answered");
}

#[test]
fn a_node_without_rings_goes_on_by_the_stream() {
    let mut client = ready();
    client.attach(2, 4096).unwrap();
    feed(&mut client, &failed(Opcode::ATTACH, 1, Status::BUSY, 0)).unwrap();
    assert_eq!(client.poll_event(), Some(ClientEvent::Attached(Err(Status::BUSY))));
    assert!(client.submit(VOLUME, &read(0, 512), &[]).is_ok());
}

#[test]
fn a_write_on_the_replica_face_is_received_once_before_it_completes() {
    use nearflash_request::SentIn;
    use zerocopy::FromBytes;

    use crate::Face;

    let received = |opcode, tag| {
        let header = AnswerHeader { flags: AnswerHeader::RECEIVED, ..AnswerHeader::default() };
        with(header, opcode, tag, &[])
    };
    let write = write(512);
    let sent_in = SentIn { term: 77, session: 5, is_digest: false };
    let mut client = ready();
    let tag = client.submit_on_face(VOLUME, &write, (0, &[]), (Face::Replica, sent_in)).unwrap();
    let head = send(&mut client);
    let (header, _) = RequestHeader::read_from_prefix(&head).unwrap();
    assert_eq!((header.epoch.get(), header.place.get()), (77, 5));
    feed(&mut client, &received(Opcode::WRITE, tag.0)).unwrap();
    assert_eq!(client.poll_event(), Some(ClientEvent::Received(tag)));
    assert!(client.poll_completion().is_none());
    feed(&mut client, &answer(Opcode::WRITE, tag.0, &[])).unwrap();
    assert_eq!(client.poll_completion().map(|done| done.status), Some(Status::OK));

    for face in [Face::Replica, Face::Primary] {
        let mut client = ready();
        let tag = client.submit_on_face(VOLUME, &write, (0, &[]), (face, sent_in)).unwrap();
        send(&mut client);
        if face == Face::Replica {
            feed(&mut client, &received(Opcode::WRITE, tag.0)).unwrap();
        }
        assert!(feed(&mut client, &received(Opcode::WRITE, tag.0)).is_err(), "{face:?}");
    }
    let mut client = ready();
    let tag = client.submit(VOLUME, &write, &[]).unwrap();
    send(&mut client);
    assert!(feed(&mut client, &received(Opcode::WRITE, tag.0)).is_err(), "nobody asked");
}

fn digest_of(len: u32) -> ClientOperation {
    ClientOperation::Digest { buffer: BUFFER, offset: 4096, len, key: [3; 16] }
}

#[test]
fn digests_come_into_their_buffer() {
    let mut client = ready();
    let tag = client.submit_at(VOLUME, &digest_of(12288), 16, &[]).unwrap();
    let sent = send(&mut client);
    let (header, payload) = sent.split_at(HEADER_LEN);
    assert_eq!((header[0], payload.len()), (Opcode::DIGEST.0, 24));
    assert_eq!((&payload[..16], &payload[16..]), (&[3; 16][..], &[0, 48, 0, 0, 0, 0, 0, 0][..]));
    let answer = answer(Opcode::DIGEST, tag.0, &[7; 48]);
    assert_eq!(client.handle_input(&answer[..HEADER_LEN]), Ok(HEADER_LEN));
    let place = Receiving::Payload { buffer: BUFFER, offset: 16, len: 48 };
    assert_eq!(client.receiving(), place);
    feed(&mut client, &answer[HEADER_LEN..]).unwrap();
    let done = ClientCompletion { tag, status: Status::OK, value: 0 };
    assert_eq!(client.poll_completion(), Some(done));
    let tag = client.submit(VOLUME, &digest_of(4096), &[]).unwrap();
    feed(&mut client, &failed(Opcode::DIGEST, tag.0, Status::STALE_TERM, 6)).unwrap();
    let done = ClientCompletion { tag, status: Status::STALE_TERM, value: 6 };
    assert_eq!(client.poll_completion(), Some(done));
}

#[test]
fn digests_of_another_number_of_blocks_end_the_connection() {
    let more = AnswerHeader { flags: AnswerHeader::MORE, ..AnswerHeader::default() };
    let refused = AnswerHeader { status: U16::new(Status::BUSY.0), ..AnswerHeader::default() };
    for (bytes, case) in [
        (answer(Opcode::DIGEST, 0, &[0; 16]), "too few"),
        (answer(Opcode::DIGEST, 0, &[0; 48]), "too many"),
        (answer(Opcode::DIGEST, 0, &[]), "without any"),
        (answer(Opcode::DIGEST, 1, &[0; 32]), "no such tag"),
        (with(more, Opcode::DIGEST, 0, &[0; 32]), "in parts"),
        (with(refused, Opcode::DIGEST, 0, &[0; 32]), "of a failure"),
        (answer(Opcode::READ, 0, &[0; 8192]), "the blocks themselves"),
    ] {
        let mut client = ready();
        client.submit(VOLUME, &digest_of(8192), &[]).unwrap();
        let fed = feed(&mut client, &bytes);
        assert!(matches!(fed, Err(PeerError::Unasked(_))), "{case}: {fed:?}");
    }
}

#[test]
fn digests_of_parts_of_blocks_are_not_asked() {
    let mut client = ready();
    for len in [0, 512, 4097, crate::wire::DIGEST_LEN_MAX + 4096] {
        let refused = client.submit(VOLUME, &digest_of(len), &[]);
        assert_eq!(refused, Err(SubmitError::Length(crate::wire::DIGEST_LEN_MAX)));
    }
    assert_eq!((client.output_len(), client.requests_in_flight()), (0, 0));
}
