//! Payload, in pieces and in pool buffers.

use super::*;

#[test]
fn whole_blocks_are_written_as_such_and_others_by_their_bytes() {
    let mut bench = Bench::new(OPEN);
    bench.feed(&write(0, 512, &[1; 1024]));
    bench.feed(&write(1, 1000, &[2; 100]));
    bench.take_demands();
    assert!(
        matches!(bench.requests[0].operation, Operation::Write { .. })
            && bench.requests[0].range.start.0 == 1
            && bench.requests[0].range.count.0 == 2
    );
    let Operation::WriteBytes { skip, len, .. } = bench.requests[1].operation else {
        panic!("{:?}", bench.requests[1])
    };
    assert_eq!((skip, len), (488, 100));
    assert_eq!(bench.requests[1].range.count.0, 2, "both blocks that it is in");
    bench.settle();
    bench.answers();
    let (_, payload) = bench.ask(&read(0, 990, 120));
    assert_eq!(payload, [&[1; 10][..], &[2; 100], &[1; 10]].concat());
    bench.end();
}

#[test]
fn a_request_across_a_mebibyte_is_two_and_answered_in_two_parts() {
    let mut bench = Bench::new(OPEN);
    let edge = 1 << 20;
    assert_eq!(bench.status_of(&write(0, edge - 100, &[7; 300])), Status::OK);
    assert_eq!(bench.demanded.len(), 2);
    bench.feed(&read(1, edge - 100, 300));
    bench.take_demands();
    bench.requests.swap(0, 1);
    bench.settle();
    let answers = bench.answers();
    let parts: Vec<_> = answers
        .iter()
        .map(|(header, payload)| (header.flags, header.value.get(), payload.len()))
        .collect();
    assert_eq!(parts, [(AnswerHeader::MORE, 100, 200), (0, 0, 100)]);
    assert!(answers.iter().all(|(_, payload)| payload.iter().all(|byte| *byte == 7)));
}

#[test]
fn a_read_of_which_a_part_fails_has_failed() {
    for last_fails in [false, true] {
        let mut bench = Bench::new(OPEN);
        bench.feed(&write(0, (1 << 20) - 100, &[7; 300]));
        bench.settle();
        bench.answers();
        bench.feed(&read(1, (1 << 20) - 100, 300));
        bench.take_demands();
        if last_fails {
            bench.answer_one();
        }
        bench.fail_one(Outcome::UnrecoveredRead);
        bench.settle();
        let answers = bench.answers();
        let (last, payload) = answers.last().unwrap();
        assert_eq!((last.status(), last.flags), (Status::UNRECOVERED_READ, 0));
        assert!(payload.is_empty());
        assert_eq!(answers.len(), if last_fails { 2 } else { 1 });
        bench.end();
    }
}

#[test]
fn a_write_of_which_a_part_was_damaged_has_failed_and_that_part_is_not_written() {
    let stand = Stand { digests: Digests { header: false, data: true }, ..OPEN };
    let mut bench = Bench::new(stand);
    let mut bytes =
        message(Opcode::WRITE, header(0, (1 << 20) - 512, 0), &[7; 1024], stand.digests);
    *bytes.last_mut().unwrap() ^= 1;
    bench.feed(&bytes);
    bench.settle();
    assert_eq!(bench.demanded.len(), 1, "the part that was sound");
    let (answer, _) = bench.answer();
    assert_eq!(answer.status(), Status::DATA_DIGEST);
    bench.end();
}

#[test]
fn damaged_operands_are_not_used() {
    let stand = Stand { digests: Digests { header: false, data: true }, ..OPEN };
    let mut bench = Bench::new(stand);
    let mut bytes = message(Opcode::FETCH_ADD, header(0, 0, 0), &[7; 8], stand.digests);
    bytes[HEADER_LEN] ^= 1;
    assert_eq!(bench.status_of(&bytes), Status::DATA_DIGEST);
    assert!(bench.demanded.is_empty());
}

#[test]
fn words_are_swapped_and_added_to_and_the_word_before_is_the_answer() {
    let mut bench = Bench::new(OPEN);
    let add = message(Opcode::FETCH_ADD, header(0, 8, 0), &5u64.to_le_bytes(), Digests::NONE);
    assert_eq!(bench.ask(&add).0.value.get(), 0);
    let operands = [5u64.to_le_bytes(), 9u64.to_le_bytes()].concat();
    let swap = message(Opcode::COMPARE_AND_SWAP, header(0, 8, 0), &operands, Digests::NONE);
    let (answer, _) = bench.ask(&swap);
    assert_eq!((answer.status(), answer.value.get()), (Status::OK, 5));
    let (answer, _) = bench.ask(&swap);
    assert_eq!((answer.status(), answer.value.get()), (Status::OK, 9), "it differed");
}

#[test]
fn only_whole_blocks_are_discarded() {
    let mut bench = Bench::new(OPEN);
    let discard =
        |offset, len| message(Opcode::DISCARD, header(0, offset, len), &[], Digests::NONE);
    assert_eq!(bench.status_of(&discard(100, 1500)), Status::OK);
    assert!(bench.demanded[0].contains("start: Lba(1), count: Blocks(2)"), "{:?}", bench.demanded);
    bench.demanded.clear();
    assert_eq!(bench.status_of(&discard(100, 900)), Status::OK);
    assert!(bench.demanded.is_empty(), "no whole block");
}

#[test]
fn zeroes_are_one_request_with_what_the_client_allows() {
    for (flags, [deallocate, durable]) in
        [(0, [false, false]), (1, [false, true]), (2, [true, false]), (3, [true, true])]
    {
        let mut bench = Bench::new(OPEN);
        bench.feed(&write(0, (1 << 20) - 1024, &[7; 2048]));
        bench.settle();
        bench.answers();
        let header = RequestHeader { flags, ..header(0, (1 << 20) - 512, 1024) };
        bench.feed(&message(Opcode::ZERO, header, &[], Digests::NONE));
        bench.take_demands();
        assert_eq!(bench.requests.len(), 1, "zeroes are not cut");
        let asked = Operation::WriteZeroes { deallocate, force_unit_access: durable };
        assert_eq!(bench.requests[0].operation, asked);
        bench.settle();
        let (answer, payload) = bench.answer();
        assert!(answer.status().is_ok() && payload.is_empty());
        let (_, payload) = bench.ask(&read(0, (1 << 20) - 1024, 1024));
        assert_eq!(payload, [[7; 512], [0; 512]].concat());
        bench.end();
    }
}

#[test]
fn durable_writes_are_handed_out_as_such() {
    let mut bench = Bench::new(OPEN);
    let header = RequestHeader { flags: RequestHeader::DURABLE, ..header(0, 0, 0) };
    bench.feed(&message(Opcode::WRITE, header, &[1; 512], Digests::NONE));
    bench.settle();
    assert!(bench.demanded[0].contains("force_unit_access: true"), "{:?}", bench.demanded);
}

#[test]
fn every_outcome_has_its_status() {
    for (outcome, status) in [
        (Outcome::OutOfRange, Status::OUT_OF_RANGE),
        (Outcome::VolumeGone, Status::NO_SUCH_VOLUME),
        (Outcome::CapacityExceeded, Status::CAPACITY_EXCEEDED),
        (Outcome::WriteFault, Status::WRITE_FAULT),
        (Outcome::DeviceUnavailable, Status::DEVICE_UNAVAILABLE),
        (Outcome::PathLost, Status::PATH_LOST),
        (Outcome::Unsupported, Status::UNSUPPORTED),
        (Outcome::Aborted, Status::ABORTED),
        (Outcome::ReservationConflict, Status::RESERVED),
        (Outcome::WriteProtected, Status::WRITE_PROTECTED),
    ] {
        let mut bench = Bench::new(OPEN);
        bench.feed(&write(0, 0, &[1; 512]));
        bench.take_demands();
        bench.fail_one(outcome);
        assert_eq!(bench.answer().0.status(), status);
        bench.end();
    }
}
