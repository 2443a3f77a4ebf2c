//! Data to the host.

use super::*;

#[test]
fn a_read_is_one_c2h_data_and_its_response() {
    let mut bench = bench(Stage::Io);
    bench.send(read(0x1234), &[]);
    bench.answer_all();
    let success = Status::SUCCESS;
    let data = "C2HData cid=4660 ttag=0 offset=0 len=512 pdo=24 last".to_owned();
    assert_eq!(bench.sent(), [data, format!("CapsuleResp cid=4660 sqhd=2 {success}")]);
}

#[test]
fn without_flow_control_a_read_is_one_c2h_data_that_says_success() {
    let mut bench = Bench::new(Stage::Io, Digests::NONE, false);
    bench.send(read(7), &[]);
    bench.answer_all();
    assert_eq!(bench.sent(), ["C2HData cid=7 ttag=0 offset=0 len=512 pdo=24 last success"]);
}

#[test]
fn data_is_aligned_and_digested_as_agreed() {
    for (alignment, data_offset) in [(0, 28), (7, 32), (31, 128)] {
        let mut target = Bench::new(Stage::AwaitingIcReq, Digests::NONE, false);
        let request = InitPdu::request(DataAlignment(alignment), Digests::BOTH.into(), 0);
        target.feed(request.as_bytes());
        target.drain_output();
        target.feed(&connect_pdu(QueueKind::Io, Digests::BOTH, false));
        target.grant(QueueKind::Io);
        target.drain_output();
        let mut stream = Vec::new();
        capsule(&mut stream, read(1), &[], Digests::BOTH);
        target.feed(&stream);
        target.answer_all();
        let sent = describe(&target.drain_output(), Digests::BOTH);
        let expected =
            format!("C2HData cid=1 ttag=0 offset=0 len=512 pdo={data_offset} last success");
        assert_eq!(sent, [expected]);
    }
}

#[test]
fn a_read_that_fails_is_answered_with_its_status_alone() {
    let mut bench = bench(Stage::Io);
    bench.send(with_cid(Command::read(NSID, Lba(64), 0, 512), 1), &[]);
    bench.answer_all();
    let error = Status::LBA_OUT_OF_RANGE.dnr();
    assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd=2 {error}")]);
}

#[test]
fn a_read_whose_descriptor_is_wrong_says_so() {
    for (sgl, status) in [
        (SglDescriptor::transport(511), Status::SGL_LENGTH_INVALID),
        (SglDescriptor::in_capsule(0, 512), Status::SGL_TYPE_INVALID),
        (
            SglDescriptor { identifier: 0x40, ..SglDescriptor::transport(512) },
            Status::SGL_TYPE_INVALID,
        ),
    ] {
        let mut bench = bench(Stage::Io);
        bench.send(Command { sgl, ..read(1) }, &[]);
        assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd=2 {}", status.dnr())]);
    }
}
