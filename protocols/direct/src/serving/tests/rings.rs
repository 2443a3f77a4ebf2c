//! Requests and answers by rings.

use super::*;

fn attach(entries: u32, data_len: u64) -> Vec<u8> {
    let request = AttachRequest {
        entries: U32::new(entries),
        reserved: U32::new(0),
        data_len: U64::new(data_len),
    };
    message(Opcode::ATTACH, header(9, 0, 0), request.as_bytes(), Digests::NONE)
}

fn entry(opcode: Opcode, header: RequestHeader) -> [u8; HEADER_LEN] {
    zerocopy::transmute!(RequestHeader { opcode: opcode.0, ..header })
}

fn placed(tag: u32, offset: u64, len: u32, place: u32) -> RequestHeader {
    RequestHeader { place: U32::new(place), ..header(tag, offset, len) }
}

impl Bench {
    fn ring_answer(&mut self, entry: &[u8; HEADER_LEN]) -> AnswerHeader {
        self.feed_entry(entry);
        self.settle();
        assert_eq!(self.entries.len(), 1, "one answer");
        AnswerHeader::read_from_bytes(&self.entries.pop().unwrap()).unwrap()
    }
}

#[test]
fn rings_are_for_clients_of_this_machine() {
    let mut bench = Bench::new(OPEN);
    assert_eq!(bench.status_of(&attach(8, 4096)), Status::UNSUPPORTED);
}

#[test]
fn rings_that_cannot_be_are_refused() {
    for (entries, data_len) in
        [(0, 4096), (3, 4096), (16, 4096), (8, 0), (8, 4095), (8, u64::MAX), (8, 1 << 33)]
    {
        let mut bench = Bench::new(Stand { local: true, ..OPEN });
        let status = bench.status_of(&attach(entries, data_len));
        assert_eq!(status, Status::INVALID_FIELD, "{entries} {data_len}");
        assert_eq!(bench.status_of(&read(0, 0, 512)), Status::OK, "the stream goes on");
    }
}

#[test]
fn rings_are_attached_once_and_when_nothing_is_in_flight() {
    let mut bench = Bench::new(Stand { local: true, ..OPEN });
    bench.feed(&[read(0, 0, 512), attach(8, 4096)].concat());
    assert_eq!(bench.answer().0.status(), Status::BUSY);
    bench.settle();
    bench.answer();
    assert_eq!(bench.status_of(&attach(8, 4096)), Status::OK);
    assert_eq!(bench.status_of(&attach(8, 4096)), Status::BUSY);
}

#[test]
fn nothing_is_taken_while_rings_are_made() {
    let mut bench = Bench::new(Stand { local: true, ..OPEN });
    let taken = bench.end.session.handle_input(&[attach(8, 4096), read(0, 0, 512)].concat());
    assert_eq!(taken, Ok(attach(8, 4096).len()));
    assert_eq!(bench.end.session.receiving(), crate::Receiving::Paused);
    bench.settle();
    assert_eq!(bench.answer().0.status(), Status::OK);
    assert_eq!(bench.end.session.receiving(), crate::Receiving::Bytes);
}

#[test]
fn with_rings_a_request_by_the_stream_ends_the_connection() {
    let mut bench = Bench::new(RINGS);
    bench.feed(&read(0, 0, 512));
    assert_eq!(bench.end.error, Some(PeerError::Sequence(Opcode::READ)));
}

#[test]
fn the_sessions_messages_still_go_by_the_stream_and_by_it_alone() {
    let mut bench = Bench::new(RINGS);
    let ping = message(Opcode::PING, header(0, 0, 0), &[], Digests::NONE);
    assert_eq!(bench.status_of(&ping), Status::OK);
    let answer = bench.ring_answer(&entry(Opcode::PING, header(0, 0, 0)));
    assert_eq!(answer.status(), Status::INVALID_OPCODE);
}

#[test]
fn whole_blocks_at_aligned_places_go_straight_and_others_by_a_copy() {
    let mut bench = Bench::new(RINGS);
    bench.end.memory.area[..2048].fill(7);
    for (tag, offset, len, place) in [(0, 512, 1024, 512), (1, 4096, 512, 513), (2, 5000, 10, 0)] {
        let header = placed(tag, offset, len, place);
        assert!(bench.ring_answer(&entry(Opcode::WRITE, header)).status().is_ok());
    }
    let kinds: Vec<&str> =
        bench.demanded.iter().map(|demand| demand.split('(').next().unwrap()).collect();
    assert_eq!(kinds, ["Lend", "CopyIn", "CopyIn"]);
    bench.demanded.clear();
    for (tag, offset, len, place) in
        [(0, 512, 1024, 8192), (1, 4096, 512, 9999), (2, 5000, 10, 11_000)]
    {
        bench.end.memory.area[crate::length(place)..][..crate::length(len)].fill(0);
        let header = placed(tag, offset, len, place);
        assert!(bench.ring_answer(&entry(Opcode::READ, header)).status().is_ok());
        let found = &bench.end.memory.area[crate::length(place)..][..crate::length(len)];
        assert!(found.iter().all(|byte| *byte == 7), "{tag}");
    }
    let kinds: Vec<&str> =
        bench.demanded.iter().map(|demand| demand.split('(').next().unwrap()).collect();
    assert_eq!(kinds, ["Lend", "Request", "Request"]);
    bench.end();
}

#[test]
fn a_place_past_the_data_area_is_refused() {
    let mut bench = Bench::new(RINGS);
    for (opcode, place, len) in [
        (Opcode::READ, (64 << 10) - 511, 512),
        (Opcode::WRITE, u32::MAX, 512),
        (Opcode::READ, 1 << 16, 1),
        (Opcode::COMPARE_AND_SWAP, (64 << 10) - 15, 16),
        (Opcode::FETCH_ADD, u32::MAX - 3, 8),
    ] {
        let answer = bench.ring_answer(&entry(opcode, placed(1, 0, len, place)));
        assert_eq!((answer.status(), answer.value.get()), (Status::INVALID_FIELD, 24));
    }
    assert!(bench.demanded.is_empty());
}

#[test]
fn grants_are_checked_as_on_the_stream() {
    let mut bench = Bench::new(Stand { with_key: true, ..RINGS });
    let half = VOLUME_LEN / 2;
    let answer = bench.ring_answer(&entry(Opcode::WRITE, placed(1, half - 511, 512, 0)));
    assert_eq!(answer.status(), Status::NOT_GRANTED);
    let answer = bench.ring_answer(&entry(Opcode::READ, placed(1, 0, 512, 0)));
    assert_eq!(answer.status(), Status::OK);
}

#[test]
fn a_tag_in_flight_twice_ends_the_connection() {
    let mut bench = Bench::new(RINGS);
    let twice = entry(Opcode::READ, header(1, 0, 512));
    bench.feed_entry(&twice);
    bench.feed_entry(&twice);
    assert_eq!(bench.end.error, Some(PeerError::DuplicateTag(1)));
    assert_eq!(bench.goodbye().0, Status::DUPLICATE_TAG, "by the stream");
    bench.end();
}

#[test]
fn entries_are_not_taken_while_answers_are_not() {
    let mut bench = Bench::new(RINGS);
    let invalid = entry(Opcode::PING, header(0, 0, 0));
    let mut taken = 0;
    while bench.end.session.takes_entries() {
        bench.end.session.handle_entry(&invalid, &mut |_, _| {}).unwrap();
        taken += 1;
    }
    assert_eq!(taken, 4 * CREDITS);
    bench.send();
    assert!(bench.end.session.takes_entries());
}
