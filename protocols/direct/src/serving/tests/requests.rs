//! Requests, one by one.

use super::*;

fn refused(message: &[u8]) -> (Status, u64) {
    let mut bench = Bench::new(OPEN);
    let (answer, payload) = bench.ask(message);
    assert!(payload.is_empty() && bench.demanded.is_empty(), "nothing was done");
    assert_eq!(answer.flags, 0);
    // Whatever followed it was passed over.
    assert_eq!(bench.status_of(&read(5, 0, 512)), Status::OK);
    bench.end();
    (answer.status(), answer.value.get())
}

#[test]
fn a_length_of_zero_is_refused() {
    assert_eq!(refused(&read(5, 0, 0)), (Status::INVALID_FIELD, 16));
    assert_eq!(refused(&write(5, 0, &[])), (Status::INVALID_FIELD, 16));
}

#[test]
fn a_length_beyond_the_limit_is_refused() {
    assert_eq!(refused(&read(5, 0, LEN_MAX + 1)), (Status::INVALID_FIELD, 16));
    assert_eq!(refused(&read(5, 0, u32::MAX)), (Status::INVALID_FIELD, 16));
    let payload = vec![1; crate::length(LEN_MAX) + 1];
    assert_eq!(refused(&write(5, 0, &payload)), (Status::INVALID_FIELD, 16));
}

#[test]
fn a_range_past_the_end_is_refused() {
    assert_eq!(refused(&read(5, VOLUME_LEN - 511, 512)), (Status::OUT_OF_RANGE, 0));
    assert_eq!(refused(&write(5, VOLUME_LEN, &[1])), (Status::OUT_OF_RANGE, 0));
}

#[test]
fn an_offset_that_overflows_is_refused() {
    assert_eq!(refused(&read(5, u64::MAX, 512)), (Status::OUT_OF_RANGE, 0));
    assert_eq!(refused(&write(5, u64::MAX - 3, &[1; 9])), (Status::OUT_OF_RANGE, 0));
}

#[test]
fn an_unknown_opcode_is_answered_and_its_payload_passed_over() {
    let bare = message(Opcode(0x0F), header(5, 0, 900), &[], Digests::NONE);
    assert_eq!(refused(&bare), (Status::INVALID_OPCODE, 0));
    let loaded = message(Opcode(0x4F), header(5, 0, 0), &[7; 900], Digests::NONE);
    assert_eq!(refused(&loaded), (Status::INVALID_OPCODE, 0));
}

#[test]
fn zeroes_are_whole_blocks() {
    let zero = |offset, len| message(Opcode::ZERO, header(5, offset, len), &[], Digests::NONE);
    assert_eq!(refused(&zero(512, 0)), (Status::INVALID_FIELD, 16));
    assert_eq!(refused(&zero(100, 512)), (Status::INVALID_FIELD, 8));
    assert_eq!(refused(&zero(512, 100)), (Status::INVALID_FIELD, 16));
    assert_eq!(refused(&zero(VOLUME_LEN, 512)), (Status::OUT_OF_RANGE, 0));
    let stale = RequestHeader { epoch: U32::new(EPOCH - 1), ..header(5, 100, 512) };
    let stale = message(Opcode::ZERO, stale, &[], Digests::NONE);
    assert_eq!(refused(&stale), (Status::STALE_EPOCH, EPOCH.into()));
    for flags in [4, 128] {
        let header = RequestHeader { flags, ..header(5, 0, 512) };
        let message = message(Opcode::ZERO, header, &[], Digests::NONE);
        assert_eq!(refused(&message), (Status::INVALID_FIELD, 1));
    }
}

#[test]
fn unknown_flags_are_refused() {
    let header = RequestHeader { flags: 2, ..header(5, 0, 512) };
    let message = message(Opcode::READ, header, &[], Digests::NONE);
    assert_eq!(refused(&message), (Status::INVALID_FIELD, 1));
}

#[test]
fn a_word_that_is_not_aligned_or_not_whole_is_refused() {
    let odd = message(Opcode::FETCH_ADD, header(5, 12, 0), &[0; 8], Digests::NONE);
    assert_eq!(refused(&odd), (Status::INVALID_FIELD, 8));
    for (opcode, operands) in
        [(Opcode::FETCH_ADD, 16), (Opcode::COMPARE_AND_SWAP, 8), (Opcode::FETCH_ADD, 0)]
    {
        let payload = vec![0; operands];
        let message = message(opcode, header(5, 8, 0), &payload, Digests::NONE);
        assert_eq!(refused(&message), (Status::INVALID_FIELD, 16), "{opcode:?}");
    }
}

#[test]
fn a_tag_in_flight_names_one_request_alone() {
    let mut bench = Bench::new(OPEN);
    bench.feed(&[read(3, 0, 512), read(3, 512, 512)].concat());
    assert_eq!(bench.end.error, Some(PeerError::DuplicateTag(3)));
    assert_eq!(bench.goodbye(), (Status::DUPLICATE_TAG, 3, 0));
    bench.end();
}

#[test]
fn more_requests_than_credits_end_the_connection() {
    let mut bench = Bench::new(OPEN);
    (0..CREDITS).for_each(|tag| bench.feed(&read(tag, 0, 512)));
    assert_eq!(bench.end.session.requests_in_flight(), 8);
    bench.feed(&read(CREDITS, 0, 512));
    let error = PeerError::CreditsExceeded { tag: CREDITS, credits: CREDITS };
    assert_eq!(bench.end.error, Some(error));
    assert_eq!(bench.goodbye(), (Status::CREDITS_EXCEEDED, CREDITS, CREDITS.into()));
}

#[test]
fn a_tag_is_free_once_it_is_answered() {
    let mut bench = Bench::new(OPEN);
    assert_eq!(bench.status_of(&read(3, 0, 512)), Status::OK);
    assert_eq!(bench.status_of(&read(3, 0, 512)), Status::OK);
}

#[test]
fn small_payload_beyond_its_bound_ends_the_connection() {
    let mut bench = Bench::new(OPEN);
    bench.feed(&message(Opcode::OPEN, header(0, 0, 0), &[b'a'; 1025], Digests::NONE));
    let error = PeerError::HeaderField { opcode: Opcode::OPEN, offset: 16 };
    assert_eq!(bench.end.error, Some(error));
    assert_eq!(bench.goodbye().0, Status::INVALID_FIELD);
}

#[test]
fn a_damaged_header_ends_the_connection() {
    let stand = Stand { digests: Digests { header: true, data: false }, ..OPEN };
    let mut bench = Bench::new(stand);
    let mut bytes = message(Opcode::READ, header(1, 0, 512), &[], stand.digests);
    bytes[9] ^= 4;
    bench.feed(&bytes);
    assert!(matches!(bench.end.error, Some(PeerError::HeaderDigest { .. })));
    assert_eq!(bench.goodbye().0, Status::HEADER_DIGEST);
}

#[test]
fn a_client_that_says_goodbye_is_let_go_with_its_reason() {
    let mut bench = Bench::new(OPEN);
    let header = RequestHeader { volume: U16::new(Status::ABORTED.0), ..header(0, 0, 0) };
    bench.feed(&message(Opcode::GOODBYE, header, &[], Digests::NONE));
    assert_eq!(bench.end.error, Some(PeerError::Goodbye(Status::ABORTED)));
    assert!(bench.end.session.is_closing() && bench.answers().is_empty());
}

#[test]
fn a_client_that_reads_no_answers_is_not_listened_to() {
    let mut bench = Bench::new(OPEN);
    let ping = message(Opcode::PING, header(0, 0, 0), &[], Digests::NONE);
    let pings = ping.repeat(OUTPUT_BYTES_MAX / HEADER_LEN + 100);
    let taken = bench.end.session.handle_input(&pings).unwrap();
    assert!(taken < pings.len() && bench.end.session.receiving() == crate::Receiving::Paused);
    assert!(bench.end.session.output_len() <= OUTPUT_BYTES_MAX + HEADER_LEN);
    bench.send();
    assert_eq!(bench.end.session.receiving(), crate::Receiving::Bytes);
}

#[test]
fn every_answer_says_how_many_requests_may_be_in_flight() {
    let mut bench = Bench::new(OPEN);
    assert_eq!(bench.ask(&read(0, 0, 512)).0.credits.get(), CREDITS);
    assert_eq!(bench.ask(&write(1, 0, &[1; 512])).0.credits.get(), CREDITS);
}
