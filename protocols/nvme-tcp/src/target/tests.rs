//! The rules of the controller's end, each with bytes made by hand.

use nearflash_nvme::{
    Command, CommandId, CompletionEntry, Fused, IoOpcode, NamespaceId, SglDescriptor, Status,
};
use nearflash_request::{
    ChangeKind, ChangeResult, Completion, Expected, Nexus, Operation, Outcome, Payload, Refusal,
};
use nearflash_units::{Lba, Nanos};
use zerocopy::{FromBytes, IntoBytes};

use super::{Asker, CHANGES_IN_FLIGHT_MAX, Demand, QueueKind, SessionConfig, TargetSession};
use crate::check::Stage;
use crate::check::describe::describe;
use crate::check::target::{Bench, ENTRIES, asker, capsule, connect_pdu, data_pdu};
use crate::digest::{Digests, digest};
use crate::error::PeerError;
use crate::pdu::{
    CommonHeader, DataAlignment, DataIds, FatalStatus, IcReq, PduFlags, PduType, TermReq,
};
use nearflash_session::Receiving;

const NSID: NamespaceId = NamespaceId(1);

fn bench(stage: Stage) -> Bench {
    Bench::new(stage, Digests::NONE, true)
}

impl Bench {
    fn send(&mut self, command: Command, data: &[u8]) {
        let mut stream = Vec::new();
        capsule(&mut stream, command, data, Digests::NONE);
        self.feed(&stream);
    }

    fn sent(&mut self) -> Vec<String> {
        let stream = self.drain_output();
        describe(&stream, Digests::NONE)
    }

    /// Data of a command whose R2T was sent.
    fn send_data(&mut self, cid: u16, tag: u16, flags: PduFlags, data: &[u8]) {
        let mut stream = Vec::new();
        let ids = DataIds { command_id: cid, transfer_tag: tag };
        data_pdu(&mut stream, ids, flags, data, Digests::NONE);
        self.feed(&stream);
    }

    /// Provides every buffer that is wanted.
    fn provide_buffers(&mut self) {
        while let Some(len) = self.target.wants_buffer() {
            let buffer = self.memory.take(len.to_usize());
            self.target.provide_buffer(buffer);
        }
    }
}

fn with_cid(command: Command, cid: u16) -> Command {
    command.with_command_id(CommandId(cid))
}

fn read(cid: u16) -> Command {
    with_cid(Command::read(NSID, Lba(0), 0, 512), cid)
}

fn write(cid: u16) -> Command {
    with_cid(Command::write(NSID, Lba(0), 0, 512), cid)
}

fn compare(cid: u16) -> Command {
    with_cid(Command::compare(NSID, Lba(0), 0, 512), cid)
}

fn in_capsule(command: Command) -> Command {
    command.with_capsule_data(512)
}

// The handshake.

#[test]
fn an_ic_req_is_answered_with_the_digests_that_both_ends_want() {
    for (wanted, allowed) in [(Digests::BOTH, Digests::BOTH), (Digests::BOTH, Digests::NONE)] {
        let config = SessionConfig { digests: allowed, ..SessionConfig::default() };
        let mut target = TargetSession::new(config, Nanos(0));
        let request = IcReq::new(DataAlignment(0), wanted.to_bits(), 0);
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
    let mut request = IcReq::new(DataAlignment(0), Digests::NONE.to_bits(), 0);
    request.format_version = 1.into();
    bench.feed(request.as_bytes());
    assert_eq!(bench.sent(), ["C2HTermReq FES=6 FEI=0x8 header=128"]);
}

#[test]
fn an_alignment_beyond_128_bytes_is_an_invalid_field() {
    let mut bench = bench(Stage::AwaitingIcReq);
    bench.feed(IcReq::new(DataAlignment(32), Digests::NONE.to_bits(), 0).as_bytes());
    assert_eq!(bench.sent(), ["C2HTermReq FES=1 FEI=0xa header=128"]);
}

#[test]
fn a_second_ic_req_is_out_of_sequence() {
    let mut bench = bench(Stage::Io);
    bench.feed(IcReq::new(DataAlignment(0), Digests::NONE.to_bits(), 0).as_bytes());
    assert_eq!(bench.error, Some(PeerError::Sequence { pdu: PduType::IC_REQ }));
    assert_eq!(bench.sent(), ["C2HTermReq FES=2 FEI=0x0 header=128"]);
}

#[test]
fn a_command_before_the_ic_req_is_out_of_sequence() {
    let mut bench = bench(Stage::AwaitingIcReq);
    bench.send(read(1), &[]);
    assert_eq!(bench.sent(), ["C2HTermReq FES=2 FEI=0x0 header=72"]);
    assert!(bench.target.is_closing());
}

#[test]
fn a_command_before_connect_is_a_sequence_error_and_no_more() {
    for stage in [Stage::AwaitingConnect, Stage::Connecting] {
        let mut bench = bench(stage);
        bench.send(in_capsule(write(1)), &[1; 512]);
        let error = Status::COMMAND_SEQUENCE_ERROR.dnr();
        assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd=0 {error}")]);
        assert_eq!(bench.target.receiving(), Receiving::Bytes);
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
        assert_eq!(bench.target.poll_timeout(), None);
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
    let until = bench.target.poll_timeout().unwrap();
    assert_eq!(bench.target.handle_timeout(Nanos(until.0 - 1)), Ok(()));
    assert_eq!(bench.target.handle_timeout(until), Err(PeerError::Silent));
    assert!(bench.target.is_closing());
    assert_eq!(bench.sent(), [] as [String; 0]);
}

// Headers.

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
    // Shorter than its header, and than header and padding.
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
    assert_eq!(bench.error, Some(PeerError::Terminated { status: 5, information: 9 }));
    assert_eq!(bench.sent(), [] as [String; 0]);
    assert!(bench.target.is_closing());
}

// Queues.

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
    assert_eq!(bench.error, Some(PeerError::QueueOverrun { entries: ENTRIES }));
    assert_eq!(bench.sent(), ["C2HTermReq FES=2 FEI=0x0 header=72"]);
}

#[test]
fn the_sq_head_counts_answers_modulo_the_entries() {
    let mut bench = bench(Stage::Io);
    // The Connect was the first of eight.
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
    while bench.target.receiving() == Receiving::Bytes {
        bench.feed(&stream);
        bench.answer_all();
        answered += 1;
        assert!(answered < 1000, "it is paused in time");
    }
    bench.drain_output();
    assert_eq!(bench.target.receiving(), Receiving::Bytes);
}

#[test]
fn a_disconnect_is_answered_and_ends_the_connection() {
    let mut bench = bench(Stage::Io);
    bench.send(with_cid(Command::disconnect(), 3), &[]);
    let success = Status::SUCCESS;
    assert_eq!(bench.sent(), [format!("CapsuleResp cid=3 sqhd=2 {success}")]);
    assert!(bench.target.is_closing());
}

// Data to the host.

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
        let request = IcReq::new(DataAlignment(alignment), Digests::BOTH.to_bits(), 0);
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

// Data from the host.

#[test]
fn a_write_in_its_capsule_becomes_a_request_with_its_payload() {
    let mut bench = bench(Stage::Io);
    bench.send(in_capsule(write(1)).with_force_unit_access(), &[7; 512]);
    let [Demand::Request(request)] = &bench.demands[..] else { panic!("{:?}", bench.demands) };
    let Operation::Write { payload, force_unit_access: true } = request.operation else {
        panic!("{request:?}")
    };
    assert_eq!(bench.memory.bytes(payload), [7; 512]);
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
    assert_eq!(bench.memory.bytes(payload), [[1; 512], [2; 512]].concat());
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
    assert_eq!(bench.error, Some(PeerError::DataOutOfRange { offset: 256, len: 256, expected: 0 }));
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

/// As the Linux host does: it always sends a list of the longest length.
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
        let Asker { nexus, identity } = asker();
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
        bench.target.handle_change(tag, &result);
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
    bench.target.changes_in_flight = CHANGES_IN_FLIGHT_MAX - 1;
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
    bench.grant_to(QueueKind::Io, Asker { nexus: Nexus::NONE, ..asker() });
    bench.drain_output();
    bench.send(reservation(IoOpcode::RESERVATION_REGISTER, 0, 16), &[1; 16]);
    let status = Status::HOST_IDENTIFIER_INCONSISTENT.dnr();
    assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd=2 {status}")]);
    assert_eq!(bench.target.receiving(), Receiving::Bytes);
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

// Fused operations.

#[test]
fn a_compare_and_write_is_one_request_and_two_answers() {
    let mut bench = bench(Stage::Io);
    bench.send(in_capsule(compare(1)).with_fused(Fused::First), &[0; 512]);
    bench.send(in_capsule(write(2)).with_fused(Fused::Second), &[5; 512]);
    assert!(matches!(
        &bench.demands[..],
        [Demand::Request(request)] if matches!(request.operation, Operation::CompareAndWrite { .. })
    ));
    bench.answer_all();
    let success = Status::SUCCESS;
    let expected =
        [(1, 2), (2, 3)].map(|(cid, head)| format!("CapsuleResp cid={cid} sqhd={head} {success}"));
    assert_eq!(bench.sent(), expected);
    bench.end();
}

#[test]
fn a_miscompare_fails_the_write_too() {
    let mut bench = bench(Stage::Io);
    bench.send(in_capsule(compare(1)).with_fused(Fused::First), &[9; 512]);
    bench.send(in_capsule(write(2)).with_fused(Fused::Second), &[5; 512]);
    bench.answer_all();
    let (first, second) = (Status::COMPARE_FAILURE.dnr(), Status::ABORTED_FUSED_FAILED);
    let expected =
        [format!("CapsuleResp cid=1 sqhd=2 {first}"), format!("CapsuleResp cid=2 sqhd=3 {second}")];
    assert_eq!(bench.sent(), expected);
}

#[test]
fn a_write_that_may_not_be_fails_its_compare() {
    for outcome in [Outcome::ReservationConflict, Outcome::WriteProtected, Outcome::WriteFault] {
        let mut bench = bench(Stage::Io);
        bench.send(in_capsule(compare(1)).with_fused(Fused::First), &[0; 512]);
        bench.send(in_capsule(write(2)).with_fused(Fused::Second), &[5; 512]);
        let Some(Demand::Request(request)) = bench.demands.pop() else { panic!("a request") };
        let done = Completion { tag: request.tag, outcome, payload: Payload::None };
        bench.target.handle_completion(done, &[]);
        let (first, second) = (Status::ABORTED_FUSED_FAILED, Status::from(outcome));
        let expected = [
            format!("CapsuleResp cid=1 sqhd=2 {first}"),
            format!("CapsuleResp cid=2 sqhd=3 {second}"),
        ];
        assert_eq!(bench.sent(), expected);
    }
}

#[test]
fn a_fused_command_without_its_other_is_aborted() {
    let missing = Status::ABORTED_FUSED_MISSING.dnr();
    let mut lonely = bench(Stage::Io);
    lonely.send(in_capsule(write(2)).with_fused(Fused::Second), &[5; 512]);
    assert_eq!(lonely.sent(), [format!("CapsuleResp cid=2 sqhd=2 {missing}")]);

    // With its data in the capsule, not asked for, and on its way.
    for (first, has_buffer) in
        [(in_capsule(compare(1)), false), (compare(1), false), (compare(1), true)]
    {
        let mut bench = bench(Stage::Io);
        let data: &[u8] =
            if first.sgl.identifier == SglDescriptor::IN_CAPSULE { &[0; 512] } else { &[] };
        bench.send(first.with_fused(Fused::First), data);
        if has_buffer {
            bench.provide_buffers();
            bench.drain_output();
        }
        bench.send(read(3), &[]);
        if has_buffer {
            bench.send_data(1, 0, PduFlags::LAST, &[0; 512]);
        }
        assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd=2 {missing}")]);
        assert_eq!(bench.target.wants_buffer(), None);
        assert_eq!(bench.target.commands_in_flight(), 1);
        bench.end();
    }
}

#[test]
fn a_refused_half_fails_the_other() {
    let failed = Status::ABORTED_FUSED_FAILED;
    let invalid = Status::INVALID_FIELD.dnr();
    let mut first_refused = bench(Stage::Io);
    first_refused.send(read(1).with_fused(Fused::First), &[]);
    first_refused.send(in_capsule(write(2)).with_fused(Fused::Second), &[5; 512]);
    let expected = [
        format!("CapsuleResp cid=1 sqhd=2 {invalid}"),
        format!("CapsuleResp cid=2 sqhd=3 {failed}"),
    ];
    assert_eq!(first_refused.sent(), expected);

    let mut other_blocks = bench(Stage::Io);
    other_blocks.send(in_capsule(compare(1)).with_fused(Fused::First), &[0; 512]);
    let second = with_cid(Command::write(NSID, Lba(1), 0, 512), 2);
    other_blocks.send(in_capsule(second).with_fused(Fused::Second), &[5; 512]);
    let expected = [
        format!("CapsuleResp cid=1 sqhd=2 {failed}"),
        format!("CapsuleResp cid=2 sqhd=3 {invalid}"),
    ];
    assert_eq!(other_blocks.sent(), expected);
    other_blocks.end();
}

#[test]
fn the_data_of_fused_commands_may_come_in_either_order() {
    let mut bench = bench(Stage::Io);
    bench.send(compare(1).with_fused(Fused::First), &[]);
    bench.send(write(2).with_fused(Fused::Second), &[]);
    bench.provide_buffers();
    bench.drain_output();
    bench.send_data(2, 1, PduFlags::LAST, &[5; 512]);
    assert_eq!(bench.demands.len(), 0);
    bench.send_data(1, 0, PduFlags::LAST, &[0; 512]);
    assert_eq!(bench.demands.len(), 1);
    bench.answer_all();
    assert_eq!(bench.sent().len(), 2);
    bench.end();
}

// Flush, admin commands, the end.

#[test]
fn a_flush_of_all_namespaces_is_a_request_for_each_and_one_answer() {
    let mut bench = bench(Stage::Io);
    let namespace = *bench.target.namespaces().get(NSID).unwrap();
    let both = [(NSID, namespace), (NamespaceId(3), namespace)];
    let table = nearflash_nvme::NamespaceTable::new(both, nearflash_units::ByteLen(1 << 20));
    bench.target.set_namespaces(std::sync::Arc::new(table));
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
        bench.target.handle_completion(Completion { tag, outcome, payload: Payload::None }, &[]);
    }
    let error = Status::WRITE_FAULT;
    assert_eq!(bench.sent(), [format!("CapsuleResp cid=1 sqhd=2 {error}")]);
}

#[test]
fn a_flush_of_no_namespaces_succeeds() {
    let mut bench = bench(Stage::Io);
    let table = nearflash_nvme::NamespaceTable::new([], nearflash_units::ByteLen(1 << 20));
    bench.target.set_namespaces(std::sync::Arc::new(table));
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
    bench.target.handle_admin_response(entry, &[]);
    let success = Status::SUCCESS;
    assert_eq!(bench.sent(), [format!("CapsuleResp cid=4 sqhd=2 {success}")]);

    // Not more than the host has room for.
    let identify = Command::new(0x06, NamespaceId(1)).with_transport_data(1000);
    bench.send(with_cid(identify, 5), &[]);
    bench.demands.clear();
    let entry = CompletionEntry::new(CommandId(5), Status::SUCCESS);
    bench.target.handle_admin_response(entry, &[0; 4096]);
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
    assert!(bench.memory.taken() > 0, "the read's buffer came");
    bench.end();
}

// Every state against every PDU.

#[test]
fn every_state_has_an_answer_to_every_pdu() {
    let mut table = String::new();
    for stage in Stage::ALL {
        for pdu_type in PduType::ALL {
            let mut bench = bench(stage);
            bench.feed(&sample(pdu_type));
            bench.provide_buffers();
            let demands = bench.demands.iter().map(|demand| match demand {
                Demand::Request(_) => "request",
                Demand::Connect(_) => "connect",
                Demand::Admin(_) => "admin",
                Demand::Change(..) => "change",
            });
            let mut outcome: Vec<String> = demands.map(str::to_owned).collect();
            outcome.extend(bench.error.map(|error| error.to_string()));
            outcome.extend(bench.sent());
            table += &format!("{stage:?} {}: {}\n", pdu_type.name(), outcome.join("; "));
        }
    }
    insta::assert_snapshot!(table);
}

/// A sound PDU of that type, by itself.
fn sample(pdu_type: PduType) -> Vec<u8> {
    let mut stream = Vec::new();
    match pdu_type {
        PduType::IC_REQ => {
            let request = IcReq::new(DataAlignment(0), Digests::NONE.to_bits(), 0);
            stream.extend_from_slice(request.as_bytes());
        }
        PduType::CAPSULE_CMD => capsule(&mut stream, read(6), &[], Digests::NONE),
        PduType::H2C_DATA => {
            let ids = DataIds { command_id: 6, transfer_tag: 0 };
            data_pdu(&mut stream, ids, PduFlags::LAST, &[0; 16], Digests::NONE);
        }
        PduType::H2C_TERM_REQ => {
            let request = TermReq::new(pdu_type, FatalStatus::SEQUENCE, 0, 0);
            stream.extend_from_slice(request.as_bytes());
        }
        _ => {
            let header_len = pdu_type.header_len().unwrap();
            let common = CommonHeader::bare(pdu_type, header_len.try_into().unwrap());
            stream.extend_from_slice(common.as_bytes());
            stream.resize(header_len, 0);
        }
    }
    stream
}
