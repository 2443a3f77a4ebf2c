//! Flush, admin commands, and the end of the connection.

use super::*;

#[test]
fn a_flush_of_all_namespaces_is_a_request_for_each_and_one_answer() {
    let mut bench = bench(Stage::Io);
    let namespace = *bench.end.session.namespaces().get(NSID).unwrap();
    let both = [(NSID, namespace), (NamespaceId(3), namespace)];
    let table = nearflash_nvme::NamespaceTable::new(both, nearflash_units::ByteLen(1 << 20));
    bench.end.session.set_namespaces(std::sync::Arc::new(table));
    bench.send(with_cid(Command::flush(NamespaceId::ALL), 1), &[]);
    let tags: Vec<_> = bench
        .demands
        .drain(..)
        .map(|demand| match demand {
            Demand::Request(request) => request.tag,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(tags.len(), 2);
    assert_ne!(tags[0], tags[1]);
    for (tag, outcome) in [(tags[0], Outcome::WriteFault), (tags[1], Outcome::Success)] {
        assert_eq!(bench.sent(), [] as [String; 0]);
        bench
            .end
            .session
            .handle_completion(Completion { tag, outcome, payload: Payload::None }, &[]);
    }
    let error = Status::WRITE_FAULT;
    assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd=2 {error}")]);
}

#[test]
fn a_flush_of_no_namespaces_succeeds() {
    let mut bench = bench(Stage::Io);
    let table = nearflash_nvme::NamespaceTable::new([], nearflash_units::ByteLen(1 << 20));
    bench.end.session.set_namespaces(std::sync::Arc::new(table));
    bench.send(with_cid(Command::flush(NamespaceId::ALL), 1), &[]);
    let success = Status::SUCCESS;
    assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd=2 {success}")]);
}

#[test]
fn an_admin_command_goes_out_with_its_data_and_comes_back_with_the_answers() {
    let mut bench = bench(Stage::Admin);
    let set_features = Command::new(0x09, NamespaceId(0)).with_capsule_data(16);
    bench.send(with_cid(set_features, 4), &[3; 16]);
    let Some(Demand::Admin(demand)) = bench.demands.pop() else { panic!("an admin command") };
    assert_eq!((demand.command.opcode, &demand.data[..]), (0x09, &[3; 16][..]));
    let entry = CompletionEntry::with_result(CommandId(4), Status::SUCCESS, 77);
    bench.end.session.handle_admin_response(entry, &[]);
    let success = Status::SUCCESS;
    assert_eq!(bench.sent(), [format!("CapsuleResp cid=4 sqhd=2 {success}")]);

    // At most the length of the host's buffer.
    let identify = Command::new(0x06, NamespaceId(1)).with_transport_data(1000);
    bench.send(with_cid(identify, 5), &[]);
    bench.demands.clear();
    let entry = CompletionEntry::new(CommandId(5), Status::SUCCESS);
    bench.end.session.handle_admin_response(entry, &[0; 4096]);
    let data = "C2HData cid=5 ttag=0 offset=0 len=1000 pdo=24 last".to_owned();
    assert_eq!(bench.sent(), [data, format!("CapsuleResp cid=5 sqhd=3 {success}")]);
}

#[test]
fn admin_data_that_no_admin_command_has_is_refused() {
    let mut bench = bench(Stage::Admin);
    let download = Command::new(0x11, NamespaceId(0)).with_transport_data(1 << 20);
    bench.send(with_cid(download, 4), &[]);
    let error = Status::SGL_LENGTH_INVALID.dnr();
    assert_eq!(bench.sent(), [format!("CapsuleResp cid=4 sqhd=2 {error}")]);
}

#[test]
fn room_for_an_answer_reserves_no_memory_for_it() {
    let mut bench = bench(Stage::Admin);
    let identify = Command::new(0x06, NamespaceId(1)).with_transport_data(u32::MAX);
    bench.send(with_cid(identify, 4), &[]);
    let Some(Demand::Admin(demand)) = bench.demands.pop() else { panic!("an admin command") };
    assert_eq!(demand.data.capacity(), 0);
}

#[test]
fn answers_after_the_end_give_their_buffers_back() {
    let mut bench = bench(Stage::Io);
    bench.send(in_capsule(write(1)), &[1; 512]);
    bench.answer_all();
    bench.send(read(2), &[]);
    bench.feed(TermReq::new(PduType::H2C_TERM_REQ, FatalStatus::SEQUENCE, 0, 0).as_bytes());
    bench.answer_all();
    assert!(bench.end.memory.taken() > 0, "the read's buffer came");
    bench.end();
}
