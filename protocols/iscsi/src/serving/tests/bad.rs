//! PDUs that are not allowed, or not in this state.

use super::*;
use crate::check::Stage;
use crate::check::target::{WINDOW, login_pdu};
use crate::error::PeerError;
use crate::pdu::{NO_TAG, NopOut, RejectReason, SnackRequest};
use zerocopy::FromZeros;

fn bench() -> Bench {
    Bench::new(Stage::FullFeature, PLAIN)
}

#[test]
fn unknown_pdus_are_rejected_and_passed_over() {
    for opcode in [0x10, 0x1C, 0x3F, 0x20] {
        let mut bench = bench();
        let mut header = SnackRequest::new_zeroed();
        header.opcode = OpcodeByte(opcode);
        bench.send(header.as_bytes(), &[1; 100]);
        let pdu = said_once(&mut bench);
        assert_eq!((pdu.opcode(), pdu.header[2]), (Opcode::REJECT, RejectReason::NOT_SUPPORTED.0));
        assert_eq!(pdu.itt(), NO_TAG);
        bench.send(test_unit_ready(0).as_bytes(), &[]);
        bench.answer_all();
        assert_eq!(status(&said_once(&mut bench)), 0);
        bench.end();
    }
}

#[test]
fn what_comes_before_the_login_or_is_none_of_discovery_ends_the_connection() {
    let (read, data) = (read(0, 0, 1), data_out(0, 0, 0, 0, FINAL));
    let ping = NopOut::new(LunField::new(0), 1, NO_TAG);
    for (stage, header) in [
        (Stage::Login, read.as_bytes()),
        (Stage::Login, data.as_bytes()),
        (Stage::Login, ping.as_bytes()),
        (Stage::Discovery, read.as_bytes()),
        (Stage::Discovery, data.as_bytes()),
    ] {
        let mut bench = Bench::new(stage, PLAIN);
        bench.send(header, &[]);
        assert!(matches!(bench.end.error, Some(PeerError::Sequence(_))), "{stage:?}");
        bench.end();
    }
}

#[test]
fn a_second_login_ends_the_connection() {
    let mut bench = bench();
    bench.feed(&login_pdu(PLAIN, 0, 1, false));
    let opcode = Opcode::LOGIN_REQUEST;
    assert_eq!(bench.end.error, Some(PeerError::Sequence(opcode)));
    bench.end();
}

#[test]
fn immediate_commands_are_beside_the_window_and_bounded() {
    let mut bench = bench();
    for index in 0..WINDOW {
        bench.send(read(index, 0, 1).as_bytes(), &[]);
    }
    for index in 0..20 {
        let mut command = read(100 + index, 0, 1);
        command.opcode = OpcodeByte::immediate(Opcode::SCSI_COMMAND);
        bench.send(command.as_bytes(), &[]);
    }
    let rejected = said(&mut bench);
    assert_eq!(rejected.len(), 4);
    assert!(rejected.iter().all(|pdu| pdu.header[2] == RejectReason::TOO_MANY_IMMEDIATE.0));
    bench.answer_all();
    let pdus = said(&mut bench);
    assert_eq!(pdus.len(), 24);
    let last = pdus.last().unwrap();
    assert_eq!(last.number(28), number(WINDOW).get(), "immediate ones have no number");
    assert_eq!(last.number(32), number(2 * WINDOW - 1).get());
    bench.end();
}

#[test]
fn additional_headers_are_passed_over() {
    let mut bench = bench();
    let mut stream = read(0, 0, 1).as_bytes().to_vec();
    stream[4] = 2;
    stream.extend([0, 5, 1, 0, 0, 0, 0, 0]);
    bench.feed(&stream);
    bench.answer_all();
    assert_eq!(said_once(&mut bench).opcode(), Opcode::DATA_IN);
    bench.end();
}

#[test]
fn damaged_text_ends_the_connection() {
    let mut bench = Bench::new(Stage::FullFeature, Setup { data_digest: true, ..PLAIN });
    let ping = NopOut::new(LunField::new(0), 1, NO_TAG);
    let mut stream = crate::check::target::pdu_of(ping.as_bytes(), b"abcd", bench.digests);
    stream[49] ^= 1;
    bench.feed(&stream);
    assert!(matches!(bench.end.error, Some(PeerError::DataDigest { .. })));
    let pdu = said_once(&mut bench);
    assert_eq!((pdu.opcode(), pdu.header[2]), (Opcode::REJECT, RejectReason::DATA_DIGEST.0));
    bench.end();
}
