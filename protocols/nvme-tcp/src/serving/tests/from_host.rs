//! Data from the host: in capsules or requested.

use nearflash_nvme::{NamespaceEntry, NamespaceTable};
use nearflash_units::ByteLen;

use super::*;

#[test]
fn a_write_in_its_capsule_becomes_a_request_with_its_payload() {
    let mut bench = bench(Stage::Io);
    bench.send(in_capsule(write(1)).with_force_unit_access(), &[7; 512]);
    let [Demand::Request(request)] = &bench.demands[..] else { panic!("{:?}", bench.demands) };
    let Operation::Write { payload, force_unit_access: true } = request.operation else {
        panic!("{request:?}")
    };
    assert_eq!(bench.end.memory.bytes(payload), [7; 512]);
    bench.answer_all();
    let success = Status::SUCCESS;
    assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd=2 {success}")]);
}

#[test]
fn data_of_a_refused_command_is_passed_over() {
    for (sgl, status) in [
        (SglDescriptor::in_capsule(4, 512), Status::SGL_OFFSET_INVALID),
        (SglDescriptor::in_capsule(0, 508), Status::SGL_LENGTH_INVALID),
        (SglDescriptor::transport(512), Status::SGL_TYPE_INVALID),
        (
            SglDescriptor { identifier: 0x40, ..SglDescriptor::transport(512) },
            Status::SGL_TYPE_INVALID,
        ),
    ] {
        let mut bench = bench(Stage::Io);
        bench.send(Command { sgl, ..write(1) }, &[7; 512]);
        bench.send(read(2), &[]);
        bench.answer_all();
        let sent = bench.sent();
        assert_eq!(sent[0], format!("CapsuleResp cid=1 sqhd=2 {}", status.dnr()));
        assert_eq!(sent[1], "C2HData cid=2 ttag=0 offset=0 len=512 pdo=24 last");
    }
}

#[test]
fn a_capsule_with_more_data_than_blocks_is_refused() {
    let mut bench = bench(Stage::Io);
    bench.send(write(1).with_capsule_data(1024), &[7; 1024]);
    let error = Status::SGL_LENGTH_INVALID.dnr();
    assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd=2 {error}")]);
}

#[test]
fn a_command_without_sgl_is_an_invalid_field() {
    for stage in [Stage::Io, Stage::Admin] {
        let mut bench = bench(stage);
        bench.send(Command { flags: 0, ..read(1) }, &[]);
        let error = Status::INVALID_FIELD.dnr();
        assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd=2 {error}")]);
    }
}

#[test]
fn a_write_without_data_is_asked_for_it_once_there_is_a_buffer() {
    let mut bench = bench(Stage::Io);
    bench.send(with_cid(Command::write(NSID, Lba(0), 1, 1024), 1), &[]);
    assert_eq!(bench.sent(), [] as [String; 0]);
    bench.provide_buffers();
    assert_eq!(bench.sent(), ["R2T cid=1 ttag=0 offset=0 len=1024"]);
    bench.send_data(1, 0, PduFlags::default(), &[1; 512]);
    assert_eq!(bench.demands.len(), 0);
    let mut stream = Vec::new();
    let ids = DataIds { command_id: 1, transfer_tag: 0 };
    data_pdu(&mut stream, ids, PduFlags::LAST, &[2; 512], Digests::NONE);
    stream[13] = 2; // DATAO 512
    bench.feed(&stream);
    let [Demand::Request(request)] = &bench.demands[..] else { panic!("{:?}", bench.demands) };
    let Operation::Write { payload, .. } = request.operation else { panic!("{request:?}") };
    assert_eq!(bench.end.memory.bytes(payload), [[1; 512], [2; 512]].concat());
}

#[test]
fn data_that_no_r2t_asked_for_ends_the_connection() {
    let whole = &[1; 512][..];
    let last = PduFlags::LAST;
    for (cid, tag, flags, data, expected) in [
        (1, 1, last, whole, "C2HTermReq FES=1 FEI=0xa header=24"), // no such tag
        (1, 0xFFFF, last, whole, "C2HTermReq FES=1 FEI=0xa header=24"),
        (2, 0, last, whole, "C2HTermReq FES=1 FEI=0x8 header=24"), // of another command
        (1, 0, last, &[1; 513], "C2HTermReq FES=4 FEI=0x0 header=24"),
        (1, 0, PduFlags::default(), whole, "C2HTermReq FES=1 FEI=0x1 header=24"),
        (1, 0, last, &[1; 508], "C2HTermReq FES=1 FEI=0x1 header=24"), // last, and not all
        (1, 0, last, &[1; 4097], "C2HTermReq FES=5 FEI=0x0 header=8"), // over MAXH2CDATA
    ] {
        let mut bench = bench(Stage::Io);
        bench.send(write(1), &[]);
        bench.provide_buffers();
        bench.drain_output();
        bench.send_data(cid, tag, flags, data);
        assert_eq!(bench.sent(), [expected]);
        bench.end();
    }
}

#[test]
fn data_that_does_not_continue_is_out_of_range() {
    let mut bench = bench(Stage::Io);
    bench.send(write(1), &[]);
    bench.provide_buffers();
    bench.drain_output();
    let mut stream = Vec::new();
    let ids = DataIds { command_id: 1, transfer_tag: 0 };
    data_pdu(&mut stream, ids, PduFlags::LAST, &[2; 256], Digests::NONE);
    stream[13] = 1; // DATAO 256, while nothing was received
    bench.feed(&stream);
    assert_eq!(
        bench.end.error,
        Some(PeerError::DataOutOfRange { offset: 256, len: 256, expected: 0 })
    );
}

#[test]
fn a_data_len_other_than_the_pdus_is_an_invalid_field() {
    let mut bench = bench(Stage::Io);
    bench.send(write(1), &[]);
    bench.provide_buffers();
    bench.drain_output();
    let mut stream = Vec::new();
    let ids = DataIds { command_id: 1, transfer_tag: 0 };
    data_pdu(&mut stream, ids, PduFlags::LAST, &[2; 512], Digests::NONE);
    stream[16] = 4;
    bench.feed(&stream);
    assert_eq!(bench.sent(), ["C2HTermReq FES=1 FEI=0x10 header=24"]);
}

#[test]
fn a_broken_data_digest_fails_the_command_and_not_the_connection() {
    let mut bench = Bench::new(Stage::Io, Digests::BOTH, true);
    let mut stream = Vec::new();
    capsule(&mut stream, in_capsule(write(1)), &[7; 512], Digests::BOTH);
    *stream.last_mut().unwrap() ^= 1;
    capsule(&mut stream, read(2), &[], Digests::BOTH);
    bench.feed(&stream);
    let sent = describe(&bench.drain_output(), Digests::BOTH);
    let error = Status::TRANSIENT_TRANSPORT_ERROR;
    assert_eq!(sent, [format!("CapsuleResp cid=1 sqhd=2 {error}")]);
    assert_eq!(bench.demands.len(), 1);
    bench.end();
}

#[test]
fn ranges_to_deallocate_come_in_the_capsule_or_when_asked_for() {
    let data: Vec<u8> =
        (0..2u8).flat_map(|n| [0, 0, 0, 0, 8, 0, 0, 0, n, 0, 0, 0, 0, 0, 0, 0]).collect();
    for in_capsule in [true, false] {
        let mut bench = bench(Stage::Io);
        let command = with_cid(Command::deallocate(NSID, 1), 1);
        if in_capsule {
            bench.send(command.with_capsule_data(32), &data);
        } else {
            bench.send(command, &[]);
            assert_eq!(bench.sent(), ["R2T cid=1 ttag=0 offset=0 len=32"]);
            bench.send_data(1, 0, PduFlags::LAST, &data);
        }
        let [Demand::Request(request)] = &bench.demands[..] else { panic!("{:?}", bench.demands) };
        let Operation::Deallocate { ranges, zeroes: false } = &request.operation else {
            panic!("{request:?}")
        };
        assert_eq!(ranges.iter().map(|range| range.start.0).collect::<Vec<_>>(), [0, 1]);
    }
}

/// Linux does this: it always sends a list of the maximum length.
#[test]
fn a_list_of_ranges_may_be_longer_than_the_ranges_in_it() {
    let mut data = vec![0xA5; 4096];
    data[..16].copy_from_slice(&[0, 0, 0, 0, 8, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
    let mut bench = bench(Stage::Io);
    let command = with_cid(Command::deallocate(NSID, 0), 1);
    bench.send(command.with_capsule_data(4096), &data);
    let [Demand::Request(request)] = &bench.demands[..] else { panic!("{:?}", bench.demands) };
    let Operation::Deallocate { ranges, zeroes: false } = &request.operation else {
        panic!("{request:?}")
    };
    assert_eq!(ranges.iter().map(|range| range.start.0).collect::<Vec<_>>(), [7]);
}

#[test]
fn a_list_of_ranges_shorter_than_its_count_or_longer_than_any_is_refused() {
    for len in [16u16, 4112] {
        let mut bench = bench(Stage::Io);
        let command = with_cid(Command::deallocate(NSID, 1), 1);
        let data = vec![0; usize::from(len)];
        bench.send(command.with_capsule_data(len.into()), &data);
        let refused = Status::SGL_LENGTH_INVALID.dnr();
        assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd=2 {refused}")], "{len}");
    }
}

#[test]
fn a_dataset_hint_is_answered_without_a_request() {
    let mut bench = bench(Stage::Io);
    let hint = Command { cdw11: 0.into(), ..Command::deallocate(NSID, 0) };
    bench.send(with_cid(hint, 1).with_capsule_data(16), &[0; 16]);
    let success = Status::SUCCESS;
    assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd=2 {success}")]);
    assert_eq!(bench.demands.len(), 0);
}

/// The namespaces of the bench without the first one, or with it write protected.
fn reduced(bench: &Bench, write_protected: Option<bool>) -> std::sync::Arc<NamespaceTable> {
    let entry = *bench.end.session.namespaces().get(NSID).unwrap();
    let entry = write_protected.map(|write_protected| NamespaceEntry { write_protected, ..entry });
    let entries = entry.map(|entry| (NSID, entry));
    std::sync::Arc::new(NamespaceTable::new(entries, ByteLen(1 << 20)))
}

#[test]
fn a_host_that_holds_data_back_does_not_keep_a_right_that_it_has_lost() {
    let refused = Status::INVALID_NAMESPACE.dnr();
    let protected = Status::NAMESPACE_WRITE_PROTECTED.dnr();
    for (command, table, status) in [
        (write(1), None, Some(refused)),
        (compare(1), None, Some(refused)),
        (write(1), Some(true), Some(protected)),
        (compare(1), Some(true), None),
        (write(1), Some(false), None),
    ] {
        let mut bench = bench(Stage::Io);
        bench.send(command, &[]);
        bench.provide_buffers();
        assert_eq!(bench.sent(), ["R2T cid=1 ttag=0 offset=0 len=512"]);
        let table = reduced(&bench, table);
        bench.end.session.set_namespaces(table);
        bench.send_data(1, 0, PduFlags::LAST, &[1; 512]);
        let sent = bench.sent();
        match status {
            Some(status) => {
                assert_eq!(sent, [format!("CapsuleResp cid=1 sqhd=2 {status}")]);
                assert_eq!(bench.demands.len(), 0);
            }
            None => assert_eq!((sent.len(), bench.demands.len()), (0, 1)),
        }
    }
}

#[test]
fn a_deallocation_whose_ranges_come_after_the_loss_of_the_right_is_refused() {
    for (table, status) in
        [(None, Status::INVALID_NAMESPACE), (Some(true), Status::NAMESPACE_WRITE_PROTECTED)]
    {
        let mut bench = bench(Stage::Io);
        bench.send(with_cid(Command::deallocate(NSID, 0), 1), &[]);
        assert_eq!(bench.sent(), ["R2T cid=1 ttag=0 offset=0 len=16"]);
        let table = reduced(&bench, table);
        bench.end.session.set_namespaces(table);
        bench.send_data(1, 0, PduFlags::LAST, &[0; 16]);
        assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd=2 {}", status.dnr())]);
        assert_eq!(bench.demands.len(), 0);
    }
}

#[test]
fn a_write_whose_data_has_come_ends_after_the_loss_of_the_right() {
    let mut bench = bench(Stage::Io);
    bench.send(in_capsule(write(1)), &[7; 512]);
    let table = reduced(&bench, None);
    bench.end.session.set_namespaces(table);
    bench.answer_all();
    let success = Status::SUCCESS;
    assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd=2 {success}")]);
}
