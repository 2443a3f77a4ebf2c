//! Data from the initiator: immediate, unsolicited, solicited; and errors in it.

use super::*;
use crate::check::Stage;
use crate::error::PeerError;
use crate::pdu::{NO_TAG, RejectReason};

fn bench(setup: Setup) -> Bench {
    Bench::new(Stage::FullFeature, setup)
}

fn with(bytes: &[u8], count: usize) -> Vec<u8> {
    bytes.iter().copied().cycle().take(count).collect()
}

/// Asserts that the only PDU sent is an R2T, and returns its tag.
fn r2t(bench: &mut Bench, number: u32, offset: u32, len: u32) -> u32 {
    let pdu = said_once(bench);
    assert_eq!(pdu.opcode(), Opcode::R2T, "{pdu:?}");
    let r2t: &R2t = pdu.of();
    let told = (r2t.r2t_sn.get(), r2t.offset.get(), r2t.desired_len.get());
    assert_eq!(told, (number, offset, len));
    r2t.ttt.get()
}

#[test]
fn immediate_data_is_all_that_a_short_write_needs() {
    for setup in [PLAIN, UNSOLICITED, Setup { header_digest: true, data_digest: true, ..PLAIN }] {
        let mut bench = bench(setup);
        bench.send(write(0, 4, 1).as_bytes(), &with(b"abc", 512));
        bench.answer_all();
        let pdu = said_once(&mut bench);
        assert_eq!((status(&pdu), pdu.number(44)), (0, 0));
        assert_eq!(bench.volume.bytes()[4 * 512..5 * 512], with(b"abc", 512));
        bench.end();
    }
}

#[test]
fn data_is_asked_for_sequence_by_sequence() {
    let mut bench = bench(Setup { keys: "MaxBurstLength=16384&", ..PLAIN });
    bench.send(write(0, 0, 40).as_bytes(), &[]);
    let tag = r2t(&mut bench, 0, 0, 16384);
    for part in 0..4 {
        let flags = if part == 3 { FINAL } else { 0 };
        bench.send(data_out(0, tag, part, part * 4096, flags).as_bytes(), &[7; 4096]);
    }
    let tag = r2t(&mut bench, 1, 16384, 4096);
    assert!(bench.demands.is_empty());
    bench.send(data_out(0, tag, 0, 16384, FINAL).as_bytes(), &[8; 4096]);
    bench.answer_all();
    let pdu = said_once(&mut bench);
    assert_eq!((status(&pdu), pdu.of::<ScsiResponse>().exp_data_sn.get()), (0, 2));
    assert_eq!(bench.volume.bytes()[..16384], [7; 16384]);
    assert_eq!(bench.volume.bytes()[16384..20480], [8; 4096]);
    assert_eq!(bench.volume.bytes()[20480], 0);
    bench.end();
}

#[test]
fn unsolicited_data_comes_behind_immediate_data_and_the_rest_is_asked_for() {
    let mut bench = bench(UNSOLICITED);
    let mut command = write(0, 0, 4);
    command.flags &= !FINAL;
    bench.send(command.as_bytes(), &[1; 512]);
    bench.send(data_out(0, NO_TAG, 0, 512, 0).as_bytes(), &[2; 256]);
    assert!(said(&mut bench).is_empty(), "nothing is asked for meanwhile");
    bench.send(data_out(0, NO_TAG, 1, 768, FINAL).as_bytes(), &[3; 256]);
    let tag = r2t(&mut bench, 0, 1024, 1024);
    bench.send(data_out(0, tag, 0, 1024, FINAL).as_bytes(), &[4; 1024]);
    bench.answer_all();
    assert_eq!(status(&said_once(&mut bench)), 0);
    let expected = [&[1; 512][..], &[2; 256], &[3; 256], &[4; 1024]].concat();
    assert_eq!(bench.volume.bytes()[..2048], expected);
    bench.end();
}

#[test]
fn data_of_several_writes_may_come_in_turn() {
    let mut bench = bench(PLAIN);
    bench.send(write(0, 0, 2).as_bytes(), &[]);
    let first = r2t(&mut bench, 0, 0, 1024);
    bench.send(write(1, 2, 2).as_bytes(), &[]);
    let second = r2t(&mut bench, 0, 0, 1024);
    assert_ne!(first, second);
    bench.send(data_out(0, first, 0, 0, 0).as_bytes(), &[1; 512]);
    bench.send(data_out(1, second, 0, 0, FINAL).as_bytes(), &[2; 1024]);
    bench.send(data_out(0, first, 1, 512, FINAL).as_bytes(), &[1; 512]);
    bench.answer_all();
    assert_eq!(said(&mut bench).iter().map(Pdu::itt).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(bench.volume.bytes()[..2048], [[1; 1024], [2; 1024]].concat());
    bench.end();
}

#[test]
fn data_behind_a_command_that_failed_is_passed_over_and_then_it_is_answered() {
    let mut bench = bench(UNSOLICITED);
    let mut command = write(0, 0, 4);
    command.flags &= !FINAL;
    command.cdb[2] = 0xFF; // beyond the end
    bench.send(command.as_bytes(), &[1; 512]);
    assert!(said(&mut bench).is_empty());
    bench.send(data_out(0, NO_TAG, 0, 512, FINAL).as_bytes(), &[2; 512]);
    assert_eq!(sense(&said_once(&mut bench)), [5, 0x21, 0]);
    bench.end();
}

#[test]
fn unsolicited_data_that_was_not_agreed_on_fails_the_command() {
    let setup = Setup { keys: "InitialR2T=Yes&ImmediateData=No&", ..PLAIN };
    for (is_final, immediate) in [(true, 512), (false, 0)] {
        let mut bench = bench(setup);
        let mut command = write(0, 0, 2);
        if !is_final {
            command.flags &= !FINAL;
        }
        bench.send(command.as_bytes(), &vec![1; immediate]);
        if !is_final {
            bench.send(data_out(0, NO_TAG, 0, 0, FINAL).as_bytes(), &[1; 512]);
        }
        assert_eq!(sense(&said_once(&mut bench)), [0xB, 0x0C, 0x0C]);
        assert_eq!(bench.end.error, None);
        bench.end();
    }
}

/// All buffers are in use, some of them by a command whose data comes after another's: the other
/// command is refused, to prevent a deadlock.
#[test]
fn a_write_that_no_buffer_is_there_for_gives_way_to_one_whose_data_is_behind_it() {
    let mut bench = bench(UNSOLICITED);
    let mut first = write(0, 0, 4);
    first.flags &= !FINAL;
    bench.send(first.as_bytes(), &[1; 512]);
    bench.send(data_out(0, NO_TAG, 0, 512, FINAL).as_bytes(), &[1; 512]);
    let tag = r2t(&mut bench, 0, 1024, 1024);
    bench.has_buffers = false;
    let mut second = write(1, 8, 4);
    second.flags &= !FINAL;
    bench.send(second.as_bytes(), &[2; 512]);
    bench.send(data_out(1, NO_TAG, 0, 512, FINAL).as_bytes(), &[2; 512]);
    let pdu = said_once(&mut bench);
    assert_eq!((status(&pdu), pdu.itt()), (0x28, 1), "TASK SET FULL");
    bench.send(data_out(0, tag, 0, 1024, FINAL).as_bytes(), &[1; 1024]);
    bench.answer_all();
    assert_eq!(status(&said_once(&mut bench)), 0);
    assert_eq!(bench.volume.bytes()[..2048], [1; 2048]);
    assert_eq!(bench.volume.bytes()[8 * 512..12 * 512], [0; 2048]);
    assert!(!bench.end.session.give_way(), "nothing stands still");
    bench.end();
}

/// If no command of its own connection holds a buffer, the write waits.
#[test]
fn a_write_alone_waits_for_a_buffer() {
    let mut bench = bench(PLAIN);
    bench.has_buffers = false;
    bench.send(write(0, 4, 1).as_bytes(), &[]);
    assert!(bench.end.session.wants_buffer().is_some() && !bench.end.session.give_way());
    bench.has_buffers = true;
    bench.feed(&[]);
    r2t(&mut bench, 0, 0, 512);
    bench.end();
}

#[test]
fn a_wrong_data_number_ends_its_command_as_damaged_data_does() {
    for received in [1, 27, u32::MAX] {
        let mut bench = bench(PLAIN);
        bench.send(write(0, 0, 2).as_bytes(), &[]);
        let tag = r2t(&mut bench, 0, 0, 1024);
        bench.send(data_out(0, tag, received, 0, 0).as_bytes(), &[1; 512]);
        bench.send(data_out(0, tag, 1, 512, FINAL).as_bytes(), &[1; 512]);
        assert_eq!(sense(&said_once(&mut bench)), [0xB, 0x47, 5]);
        assert!(bench.demands.is_empty(), "nothing is written");
        bench.end();
    }
}

#[test]
fn data_elsewhere_than_next_or_past_the_end_ends_the_connection() {
    for (offset, len, flags) in [
        (512, 512, 0),      // a gap
        (0, 2048, 0),       // longer than was asked for
        (0, 512, FINAL),    // the last, and not all
        (0, 1024, 0),       // all, and not the last
        (u32::MAX, 512, 0), // far out
    ] {
        let mut bench = bench(PLAIN);
        bench.send(write(0, 0, 2).as_bytes(), &[]);
        let tag = r2t(&mut bench, 0, 0, 1024);
        bench.send(data_out(0, tag, 0, offset, flags).as_bytes(), &vec![1; len]);
        assert!(
            matches!(bench.end.error, Some(PeerError::DataOutOfRange { .. })),
            "{offset} {len}"
        );
        assert!(bench.demands.is_empty(), "nothing is written");
        bench.end();
    }
}

#[test]
fn more_immediate_data_than_first_burst_length_or_than_was_announced_ends_the_connection() {
    for (count, len) in [(8, 1536), (1, 1024)] {
        let mut bench = bench(UNSOLICITED);
        bench.send(write(0, 0, count).as_bytes(), &vec![1; len]);
        assert!(matches!(bench.end.error, Some(PeerError::DataOutOfRange { .. })));
        bench.end();
    }
}

#[test]
fn data_for_no_task_is_rejected_and_no_harm_done() {
    let mut bench = bench(PLAIN);
    bench.send(write(0, 0, 1).as_bytes(), &[]);
    let tag = r2t(&mut bench, 0, 0, 512);
    for (itt, ttt) in [(0, tag ^ 0x10000), (7, tag), (7, NO_TAG), (0, NO_TAG)] {
        bench.send(data_out(itt, ttt, 0, 0, FINAL).as_bytes(), &[1; 512]);
        let pdu = said_once(&mut bench);
        assert_eq!(pdu.opcode(), Opcode::REJECT);
        assert_eq!(pdu.header[2], RejectReason::INVALID_FIELD.0);
        assert_eq!(pdu.data[16..20], itt.to_be_bytes(), "the header comes back");
    }
    bench.send(data_out(0, tag, 0, 0, FINAL).as_bytes(), &[2; 512]);
    bench.answer_all();
    assert_eq!(status(&said_once(&mut bench)), 0);
    assert_eq!(bench.volume.bytes()[..512], [2; 512]);
    bench.end();
}

#[test]
fn damaged_data_is_rejected_and_fails_the_command_when_all_has_come() {
    let mut bench = bench(Setup { data_digest: true, ..PLAIN });
    bench.send(write(0, 0, 2).as_bytes(), &[]);
    let tag = r2t(&mut bench, 0, 0, 1024);
    let damaged = {
        let header = data_out(0, tag, 0, 0, 0);
        let mut stream = crate::check::target::pdu_of(header.as_bytes(), &[1; 512], bench.digests);
        stream[60] ^= 1;
        stream
    };
    bench.feed(&damaged);
    let pdu = said_once(&mut bench);
    assert_eq!((pdu.opcode(), pdu.header[2]), (Opcode::REJECT, RejectReason::DATA_DIGEST.0));
    assert_eq!(pdu.data, damaged[..48]);
    bench.send(data_out(0, tag, 1, 512, FINAL).as_bytes(), &[1; 512]);
    assert_eq!(sense(&said_once(&mut bench)), [0xB, 0x47, 5]);
    assert!(bench.demands.is_empty(), "nothing is written");
    assert_eq!(bench.end.error, None);
    bench.end();
}

#[test]
fn a_damaged_header_ends_the_connection() {
    let mut bench = bench(Setup { header_digest: true, ..PLAIN });
    let mut stream = crate::check::target::pdu_of(read(0, 0, 1).as_bytes(), &[], bench.digests);
    stream[20] ^= 1;
    bench.feed(&stream);
    assert!(matches!(bench.end.error, Some(PeerError::HeaderDigest { .. })));
    bench.end();
}

#[test]
fn a_pdu_longer_than_was_declared_ends_the_connection_before_its_data() {
    let mut bench = bench(PLAIN);
    bench.send(write(0, 0, 16).as_bytes(), &[1; 4100]);
    assert!(matches!(bench.end.error, Some(PeerError::TooLong { len: 4100, max: 4096, .. })));
    bench.end();
}

#[test]
fn an_initiator_that_stops_in_the_middle_of_a_burst_is_known_to_owe_data() {
    let mut bench = bench(PLAIN);
    assert!(!bench.end.session.awaits_data());
    bench.send(write(0, 0, 2).as_bytes(), &[]);
    let tag = r2t(&mut bench, 0, 0, 1024);
    bench.send(data_out(0, tag, 0, 0, 0).as_bytes(), &[1; 512]);
    assert!(bench.end.session.awaits_data());
    bench.end();
}
