//! Invalid headers, and termination requests.

use super::*;

#[test]
fn a_header_field_that_cannot_be_is_named_by_its_offset() {
    let mut sound = Vec::new();
    capsule(&mut sound, in_capsule(write(1)), &[0; 512], Digests::NONE);
    for (byte, value, offset) in [
        (0, 0x07, 0), // only controllers send C2HData
        (0, 0x42, 0),
        (1, PduFlags::HEADER_DIGEST.0, 1), // not agreed
        (1, PduFlags::DATA_DIGEST.0, 1),
        (2, 71, 2),
        (3, 71, 3), // data within the header
        (3, 73, 3), // not aligned
        (3, 255, 3),
        (6, 1, 4), // more than a capsule may have
    ] {
        let mut bench = bench(Stage::Io);
        let mut broken = sound.clone();
        broken[byte] = value;
        bench.feed(&broken);
        let expected = format!("C2HTermReq FES=1 FEI={offset:#x} header=8");
        assert_eq!(bench.sent(), [expected], "byte {byte} is {value}");
    }
    // PLEN shorter than the header, or than header and padding.
    for pdu_len in [0u32, 71, 73, 75] {
        let mut bench = bench(Stage::Io);
        let mut broken = sound.clone();
        broken[3] = 76;
        broken[4..8].copy_from_slice(&pdu_len.to_le_bytes());
        bench.feed(&broken);
        assert_eq!(bench.sent(), ["C2HTermReq FES=1 FEI=0x4 header=8"], "PLEN is {pdu_len}");
    }
}

#[test]
fn a_broken_header_digest_ends_the_connection_and_is_quoted() {
    let mut bench = Bench::new(Stage::Io, Digests::BOTH, true);
    let mut stream = Vec::new();
    capsule(&mut stream, read(1), &[], Digests::BOTH);
    stream[20] ^= 1;
    let received = u32::from_le_bytes(stream[72..76].try_into().unwrap());
    bench.feed(&stream);
    let expected = format!("C2HTermReq FES=3 FEI={received:#x} header=72");
    assert_eq!(bench.sent(), [expected]);
}

#[test]
fn a_termination_request_quotes_the_header_at_fault() {
    let mut bench = bench(Stage::Io);
    let mut broken = Vec::new();
    data_pdu(
        &mut broken,
        DataIds { command_id: 1, transfer_tag: 3 },
        PduFlags::LAST,
        &[0; 16],
        Digests::NONE,
    );
    bench.feed(&broken);
    let stream = bench.drain_output();
    let (request, header) = TermReq::ref_from_prefix(&stream).unwrap();
    assert_eq!(request.status, FatalStatus::INVALID_HEADER_FIELD);
    assert_eq!(header, &broken[..24]);
}

#[test]
fn a_host_that_gives_up_is_answered_with_nothing() {
    let mut bench = bench(Stage::Io);
    let request = TermReq::new(PduType::H2C_TERM_REQ, FatalStatus::LIMIT_EXCEEDED, 9, 0);
    bench.feed(request.as_bytes());
    assert_eq!(bench.end.error, Some(PeerError::Terminated { status: 5, information: 9 }));
    assert_eq!(bench.sent(), [] as [String; 0]);
    assert!(bench.end.session.is_closing());
}
