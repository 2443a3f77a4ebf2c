//! The handshake, and Connect.

use super::*;

#[test]
fn an_ic_req_is_answered_with_the_digests_that_both_ends_want() {
    for (wanted, allowed) in [(Digests::BOTH, Digests::BOTH), (Digests::BOTH, Digests::NONE)] {
        let config = SessionConfig { digests: allowed, ..SessionConfig::default() };
        let mut target = TargetSession::new(config, Nanos(0));
        let request = InitPdu::request(DataAlignment(0), wanted.into(), 0);
        assert_eq!(target.handle_input(request.as_bytes()), Ok(128));
        let mut stream = Vec::new();
        target.output().for_each(|chunk| match chunk {
            crate::Chunk::Bytes(bytes) => stream.extend_from_slice(bytes),
            _ => panic!("only bytes"),
        });
        let expected = format!("ICResp {allowed:?} max_h2c_data=1048576");
        assert_eq!(describe(&stream, Digests::NONE), [expected]);
    }
}

#[test]
fn another_format_version_is_an_unsupported_parameter() {
    let mut bench = bench(Stage::AwaitingIcReq);
    let mut request = InitPdu::request(DataAlignment(0), Digests::NONE.into(), 0);
    request.format_version = 1.into();
    bench.feed(request.as_bytes());
    assert_eq!(bench.sent(), ["C2HTermReq FES=6 FEI=0x8 header=128"]);
}

#[test]
fn an_alignment_beyond_128_bytes_is_an_invalid_field() {
    let mut bench = bench(Stage::AwaitingIcReq);
    bench.feed(InitPdu::request(DataAlignment(32), Digests::NONE.into(), 0).as_bytes());
    assert_eq!(bench.sent(), ["C2HTermReq FES=1 FEI=0xa header=128"]);
}

#[test]
fn a_second_ic_req_is_out_of_sequence() {
    let mut bench = bench(Stage::Io);
    bench.feed(InitPdu::request(DataAlignment(0), Digests::NONE.into(), 0).as_bytes());
    assert_eq!(bench.end.error, Some(PeerError::Sequence(PduType::IC_REQ)));
    assert_eq!(bench.sent(), ["C2HTermReq FES=2 FEI=0x0 header=128"]);
}

#[test]
fn a_command_before_the_ic_req_is_out_of_sequence() {
    let mut bench = bench(Stage::AwaitingIcReq);
    bench.send(read(1), &[]);
    assert_eq!(bench.sent(), ["C2HTermReq FES=2 FEI=0x0 header=72"]);
    assert!(bench.end.session.is_closing());
}

#[test]
fn a_command_before_connect_is_a_sequence_error_and_no_more() {
    for stage in [Stage::AwaitingConnect, Stage::Connecting] {
        let mut bench = bench(stage);
        bench.send(in_capsule(write(1)), &[1; 512]);
        let error = Status::COMMAND_SEQUENCE_ERROR.dnr();
        assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd=0 {error}")]);
        assert_eq!(bench.end.session.receiving(), Receiving::Bytes);
    }
}

#[test]
fn a_connect_without_flow_control_is_answered_with_sqhd_ffff() {
    for (flow_control, head) in [(true, 1), (false, 0xFFFF)] {
        let mut bench = bench(Stage::AwaitingConnect);
        bench.feed(&connect_pdu(QueueKind::Io, Digests::NONE, flow_control));
        bench.grant(QueueKind::Io);
        let success = Status::SUCCESS;
        assert_eq!(bench.sent(), [format!("CapsuleResp cid=0 sqhd={head} {success}")]);
        assert_eq!(bench.end.session.handle_timeout(Nanos(u64::MAX)), Ok(()));
    }
}

#[test]
fn a_host_that_was_refused_may_connect_again() {
    let mut bench = bench(Stage::Connecting);
    bench.answer_all();
    bench.drain_output();
    bench.feed(&connect_pdu(QueueKind::Io, Digests::NONE, true));
    assert!(matches!(bench.demands[..], [Demand::Connect(_)]));
}

#[test]
fn connect_data_of_another_length_is_refused() {
    let mut bench = bench(Stage::AwaitingConnect);
    let connect = Command { sgl: SglDescriptor::in_capsule(0, 512), ..connect_command() };
    bench.send(connect, &[0; 512]);
    let error = Status::SGL_LENGTH_INVALID.dnr();
    assert_eq!(bench.sent(), [format!("CapsuleResp cid=0 sqhd=0 {error}")]);
}

fn connect_command() -> Command {
    let stream = connect_pdu(QueueKind::Io, Digests::NONE, true);
    Command::read_from_bytes(&stream[8..72]).unwrap()
}

#[test]
fn a_host_that_says_nothing_is_given_up_without_a_word() {
    let mut bench = bench(Stage::Connecting);
    let until = SessionConfig::default().handshake_timeout;
    assert_eq!(bench.end.session.handle_timeout(Nanos(until.0 - 1)), Ok(()));
    assert_eq!(bench.end.session.handle_timeout(until), Err(PeerError::Silent));
    assert!(bench.end.session.is_closing());
    assert_eq!(bench.sent(), [] as [String; 0]);
}
