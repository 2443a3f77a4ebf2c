//! Reservation commands: keys from the host become changes.

use super::*;

fn reservation(opcode: IoOpcode, cdw10: u32, len: u32) -> Command {
    with_cid(Command::reservation(opcode, NSID, cdw10, len), 1)
}

#[test]
fn keys_come_in_the_capsule_or_when_asked_for_and_become_a_change() {
    let data: Vec<u8> = (0..16).collect();
    let command = reservation(IoOpcode::RESERVATION_REGISTER, 2, 16);
    for in_capsule in [true, false] {
        let mut bench = bench(Stage::Io);
        if in_capsule {
            bench.send(command, &data);
        } else {
            bench.send(command.with_transport_data(16), &[]);
            assert_eq!(bench.sent(), ["R2T cid=1 ttag=0 offset=0 len=16"]);
            bench.send_data(1, 0, PduFlags::LAST, &data);
        }
        let [Demand::Change(_, change)] = &bench.demands[..] else { panic!("{:?}", bench.demands) };
        let expected = Expected::Key(0x0706_0504_0302_0100);
        let new = 0x0F0E_0D0C_0B0A_0908;
        assert_eq!(change.kind, ChangeKind::Register { expected, new, persist: None });
        let (nexus, identity) = asker();
        assert_eq!((change.volume.0, change.nexus, &change.identity), (7, nexus, &identity));
        bench.answer_all();
        assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd=2 {}", Status::SUCCESS)]);
        bench.end();
    }
}

#[test]
fn a_change_ends_with_the_status_of_what_became_of_it() {
    let refused = |refusal| ChangeResult::Refused(refusal);
    let results = [
        (ChangeResult::Done, Status::SUCCESS),
        (ChangeResult::Conflict, Status::RESERVATION_CONFLICT.dnr()),
        (refused(Refusal::InvalidKey), Status::INVALID_FIELD.dnr()),
        (refused(Refusal::WrongType), Status::INVALID_FIELD.dnr()),
        (refused(Refusal::VolumeGone), Status::INVALID_NAMESPACE.dnr()),
        (refused(Refusal::NotRecorded), Status::INTERNAL_ERROR),
    ];
    for (result, status) in results {
        let mut bench = bench(Stage::Io);
        bench.send(reservation(IoOpcode::RESERVATION_ACQUIRE, 0x101, 16), &[1; 16]);
        let Some(Demand::Change(tag, _)) = bench.demands.pop() else { panic!("a change") };
        bench.end.session.handle_change(tag, &result);
        assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd=2 {status}")]);
    }
}

#[test]
fn keys_that_cannot_be_are_refused_before_anybody_is_asked() {
    let mut bench = bench(Stage::Io);
    bench.send(reservation(IoOpcode::RESERVATION_REGISTER, 0, 16), &[0; 16]);
    let (field, length) = (Status::INVALID_FIELD.dnr(), Status::SGL_LENGTH_INVALID.dnr());
    assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd=2 {field}")]);
    bench.send(reservation(IoOpcode::RESERVATION_REGISTER, 0, 8), &[1; 8]);
    assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd=3 {length}")]);
    assert!(bench.demands.is_empty());
    bench.end();
}

#[test]
fn a_report_fills_all_that_was_asked_for() {
    for digests in [Digests::NONE, Digests::BOTH] {
        let mut bench = Bench::new(Stage::Io, digests, true);
        let mut stream = Vec::new();
        let command = with_cid(Command::reservation_report(NSID, 8192), 1);
        capsule(&mut stream, command, &[], digests);
        bench.feed(&stream);
        bench.answer_all();
        let stream = bench.drain_output();
        let sent = describe(&stream, digests);
        assert_eq!(sent.len(), 2, "{sent:?}");
        assert!(sent[0].starts_with("C2HData cid=1") && sent[0].contains("len=8192"), "{sent:?}");
        assert!(sent[1].starts_with("CapsuleResp cid=1"), "{sent:?}");
        let data = &stream[24 + digests.header_len()..][..8192];
        assert_eq!((data[4], data[5], data[72]), (1, 1, 9), "one registrant, of key 9");
        assert!(data[128..].iter().all(|byte| *byte == 0));
        if digests.data {
            let place = 24 + digests.header_len() + 8192;
            assert_eq!(stream[place..place + 4], digest(data).to_le_bytes());
        }
        bench.end();
    }
}

#[test]
fn more_changes_at_once_than_are_taken_are_to_be_tried_again() {
    let mut bench = bench(Stage::Io);
    bench.end.session.changes_in_flight = CHANGES_IN_FLIGHT_MAX - 1;
    let report = |cid| with_cid(Command::reservation_report(NSID, 64), cid);
    bench.send(report(1), &[]);
    bench.send(report(2), &[]);
    let again = Status::TRANSIENT_TRANSPORT_ERROR;
    assert_eq!(bench.sent(), [format!("CapsuleResp cid=2 sqhd=2 {again}")]);
    bench.answer_all();
    bench.send(report(3), &[]);
    assert_eq!(bench.demands.len(), 1);
}

#[test]
fn who_has_no_identifier_cannot_register() {
    let mut bench = bench(Stage::AwaitingConnect);
    bench.feed(&connect_pdu(QueueKind::Io, Digests::NONE, true));
    bench.grant_to(QueueKind::Io, (Nexus::NONE, asker().1));
    bench.drain_output();
    bench.send(reservation(IoOpcode::RESERVATION_REGISTER, 0, 16), &[1; 16]);
    let status = Status::HOST_IDENTIFIER_INCONSISTENT.dnr();
    assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd=2 {status}")]);
    assert_eq!(bench.end.session.receiving(), Receiving::Bytes);
}
