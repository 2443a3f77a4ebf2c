//! The commands in flight of a queue.

use super::*;

#[test]
fn a_command_identifier_in_flight_is_a_conflict() {
    let mut bench = bench(Stage::Io);
    bench.send(read(5), &[]);
    bench.send(read(5), &[]);
    let conflict = Status::COMMAND_ID_CONFLICT.dnr();
    assert_eq!(bench.sent(), [format!("CapsuleResp cid=5 sqhd=2 {conflict}")]);
    assert_eq!(bench.demands.len(), 1);
}

#[test]
fn more_commands_than_entries_end_the_connection() {
    let mut bench = bench(Stage::Io);
    for cid in 0..=ENTRIES {
        bench.send(read(cid), &[]);
    }
    assert_eq!(bench.end.error, Some(PeerError::QueueOverrun(ENTRIES)));
    assert_eq!(bench.sent(), ["C2HTermReq FES=2 FEI=0x0 header=72"]);
}

#[test]
fn the_sq_head_counts_answers_modulo_the_entries() {
    let mut bench = bench(Stage::Io);
    // The Connect used the first of the eight entries.
    for expected in (2..8).chain(0..3) {
        bench.send(with_cid(Command::flush(NSID), 9), &[]);
        bench.answer_all();
        let success = Status::SUCCESS;
        assert_eq!(bench.sent(), [format!("CapsuleResp cid=9 sqhd={expected} {success}")]);
    }
}

#[test]
fn a_host_that_does_not_read_is_not_listened_to() {
    let mut bench = Bench::new(Stage::Io, Digests::NONE, false);
    let mut stream = Vec::new();
    capsule(&mut stream, read(1), &[], Digests::NONE);
    let mut answered = 0;
    while bench.end.session.receiving() == Receiving::Bytes {
        bench.feed(&stream);
        bench.answer_all();
        answered += 1;
        assert!(answered < 1000, "it is paused in time");
    }
    bench.drain_output();
    assert_eq!(bench.end.session.receiving(), Receiving::Bytes);
}

#[test]
fn a_disconnect_is_answered_and_ends_the_connection() {
    let mut bench = bench(Stage::Io);
    bench.send(with_cid(Command::disconnect(), 3), &[]);
    let success = Status::SUCCESS;
    assert_eq!(bench.sent(), [format!("CapsuleResp cid=3 sqhd=2 {success}")]);
    assert!(bench.end.session.is_closing());
}
