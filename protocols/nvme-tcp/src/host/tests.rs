//! The rules of the host's end, tested with handmade PDUs.

use nearflash_nvme::{
    Command, CommandId, CompletionEntry, ControllerId, NamespaceId, Nqn, QueueId, Status,
};
use nearflash_request::BufferId;
use nearflash_units::Lba;
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

use super::{CommandData, HostCompletion, HostConfig, HostSession, RequestingEnd, SubmitError};
use crate::check::describe::describe;
use crate::digest::{Digests, digest};
use crate::error::PeerError;
use crate::pdu::{
    CapsuleResp, CommonHeader, DataAlignment, DataIds, DataPdu, FatalStatus, InitPdu, PduFlags,
    PduType, TermReq,
};
use nearflash_session::Chunk;
use nearflash_session::Receiving;

const NSID: NamespaceId = NamespaceId(1);
/// Four entries: three commands.
const ENTRIES: u16 = 4;
const H2C_DATA_LEN_MAX: u32 = 4096;

fn config(digests: Digests) -> HostConfig {
    let name = Nqn::new("nqn.2026-11.io.nearflash:data").unwrap();
    HostConfig {
        digests,
        alignment: DataAlignment(0),
        queue: QueueId(1),
        sq_entries: ENTRIES,
        flow_control: false,
        in_capsule_len_max: 1024,
        controller: ControllerId(1),
        keep_alive_ms: 0,
        host_id: uuid::Uuid::nil(),
        host: name.clone(),
        subsystem: name,
    }
}

fn ic_resp(digests: Digests) -> InitPdu {
    InitPdu::response(DataAlignment(0), digests.into(), H2C_DATA_LEN_MAX)
}

/// A connected session whose output was sent.
fn connected(digests: Digests) -> HostSession {
    let mut host = HostSession::new(config(digests));
    sent(&mut host);
    feed(&mut host, ic_resp(digests).as_bytes());
    sent(&mut host);
    feed(
        &mut host,
        &response(CompletionEntry::with_result(CommandId(0), Status::SUCCESS, 5), digests),
    );
    assert!(host.is_ready());
    host
}

/// All of the session's output. A buffer's bytes are its number, repeated.
fn sent_bytes(host: &mut HostSession) -> Vec<u8> {
    let mut stream = Vec::new();
    for chunk in host.output() {
        match chunk {
            Chunk::Bytes(bytes) => stream.extend_from_slice(bytes),
            Chunk::Buffer { buffer, len, .. } => {
                stream.extend(std::iter::repeat_n(u8::try_from(buffer.0).unwrap(), len));
            }
            Chunk::Zeroes(_) => panic!("hosts send buffers"),
        }
    }
    host.advance_output(stream.len());
    stream
}

fn sent(host: &mut HostSession) -> Vec<String> {
    let digests = host.digests();
    describe(&sent_bytes(host), digests)
}

fn feed(host: &mut HostSession, mut bytes: &[u8]) {
    try_feed(host, &mut bytes).unwrap();
    assert_eq!(bytes, []);
}

fn try_feed(host: &mut HostSession, bytes: &mut &[u8]) -> Result<(), PeerError> {
    while !bytes.is_empty() {
        let taken = match host.receiving() {
            Receiving::Bytes => host.handle_input(bytes)?,
            Receiving::Payload { len, .. } => {
                let part = &bytes[..len.min(bytes.len())];
                host.handle_payload(part);
                part.len()
            }
            Receiving::Paused => return Ok(()),
        };
        *bytes = &bytes[taken..];
    }
    Ok(())
}

/// The session's output for a PDU that it must refuse.
fn refused(host: &mut HostSession, mut bytes: &[u8]) -> Vec<String> {
    assert!(try_feed(host, &mut bytes).is_err());
    assert!(host.is_closing());
    sent(host)
}

fn with_digest(header: &[u8], digests: Digests) -> Vec<u8> {
    let mut head = header.to_vec();
    if digests.header {
        head.extend(digest(header).to_le_bytes());
    }
    head
}

fn response(entry: CompletionEntry, digests: Digests) -> Vec<u8> {
    let mut common = CommonHeader::bare(PduType::CAPSULE_RESP, 24);
    if digests.header {
        common.flags = PduFlags::HEADER_DIGEST;
        common.pdu_len = U32::new(28);
    }
    with_digest(CapsuleResp { common, entry }.as_bytes(), digests)
}

/// A C2HData of `data` at `offset`.
fn data(cid: u16, offset: u32, data: &[u8], flags: PduFlags, digests: Digests) -> Vec<u8> {
    let mut common = CommonHeader::bare(PduType::C2H_DATA, 24);
    common.flags = flags;
    common.data_offset = 24 + u8::try_from(digests.header_len()).unwrap();
    if digests.header {
        common.flags = common.flags.with(PduFlags::HEADER_DIGEST);
    }
    if digests.data {
        common.flags = common.flags.with(PduFlags::DATA_DIGEST);
    }
    let len = u32::try_from(data.len()).unwrap();
    let digest_len = u32::try_from(digests.data_len()).unwrap();
    common.pdu_len = U32::new(u32::from(common.data_offset) + len + digest_len);
    let ids = DataIds { command_id: cid, transfer_tag: 0 };
    let mut pdu = with_digest(DataPdu::new(common, ids, offset, len).as_bytes(), digests);
    pdu.extend_from_slice(data);
    if digests.data {
        pdu.extend(digest(data).to_le_bytes());
    }
    pdu
}

fn r2t(cid: u16, tag: u16, offset: u32, len: u32) -> Vec<u8> {
    let ids = DataIds { command_id: cid, transfer_tag: tag };
    DataPdu::r2t(ids, offset, len).as_bytes().to_vec()
}

fn submit_read(host: &mut HostSession, len: u32) -> u16 {
    let data = CommandData::Incoming { buffer: BufferId(7), len };
    host.submit(&Command::read(NSID, Lba(0), 0, len), data, &[]).unwrap().0
}

fn submit_write(host: &mut HostSession, len: u32, payload: &[u8]) -> u16 {
    let data = CommandData::Outgoing { buffer: BufferId(9), len };
    host.submit(&Command::write(NSID, Lba(0), 0, len), data, payload).unwrap().0
}

fn success(cid: u16) -> CompletionEntry {
    CompletionEntry::new(CommandId(cid), Status::SUCCESS)
}

fn status(completion: Option<HostCompletion>) -> Option<Status> {
    completion.map(|completion| completion.entry.status())
}

const LAST: PduFlags = PduFlags::LAST;
const LAST_AND_SUCCESS: PduFlags = PduFlags::LAST.with(PduFlags::SUCCESS);

// The handshake.

#[test]
fn a_session_begins_with_ic_req_and_connects_once_that_is_answered() {
    let mut host = HostSession::new(config(Digests::NONE));
    assert_eq!(sent(&mut host), ["ICReq"]);
    assert_eq!(
        host.submit(&Command::flush(NSID), CommandData::None, &[]),
        Err(SubmitError::NotConnected)
    );
    feed(&mut host, ic_resp(Digests::NONE).as_bytes());
    assert_eq!(
        sent(&mut host),
        ["CapsuleCmd cid=0 opcode=0x7f InCapsule { offset: 0, length: 1024 } len=1096"]
    );
    let entry = CompletionEntry::with_result(CommandId(0), Status::SUCCESS, 0x0001_0005);
    feed(&mut host, &response(entry, Digests::NONE));
    assert_eq!((host.is_ready(), host.controller()), (true, Some(ControllerId(5))));
    assert_eq!(host.commands_in_flight(), 0);
}

#[test]
fn a_refused_connect_closes_and_says_why() {
    let mut host = HostSession::new(config(Digests::NONE));
    feed(&mut host, ic_resp(Digests::NONE).as_bytes());
    let entry = CompletionEntry::new(CommandId(0), Status::CONNECT_INVALID_HOST);
    feed(&mut host, &response(entry, Digests::NONE));
    assert_eq!(host.connect_response(), Some(entry));
    assert_eq!((host.is_closing(), host.controller()), (true, None));
}

#[test]
fn an_ic_resp_that_was_not_agreed_to_is_refused() {
    let broken = |break_it: fn(&mut InitPdu)| {
        let mut response = ic_resp(Digests::NONE);
        break_it(&mut response);
        response
    };
    for (broken, expected) in [
        (broken(|r| r.format_version = 1.into()), "H2CTermReq FES=6 FEI=0x8 header=128"),
        (broken(|r| r.alignment = DataAlignment(32)), "H2CTermReq FES=1 FEI=0xa header=128"),
        (ic_resp(Digests::BOTH), "H2CTermReq FES=1 FEI=0xb header=128"),
        (broken(|r| r.limit = 4095.into()), "H2CTermReq FES=1 FEI=0xc header=128"),
    ] {
        let mut host = HostSession::new(config(Digests::NONE));
        sent(&mut host);
        assert_eq!(refused(&mut host, broken.as_bytes()), [expected]);
    }
}

// Data to the host.

#[test]
fn data_that_says_success_completes_its_command() {
    let mut host = connected(Digests::NONE);
    let cid = submit_read(&mut host, 512);
    feed(&mut host, &data(cid, 0, &[1; 512], LAST_AND_SUCCESS, Digests::NONE));
    assert_eq!(
        host.poll_completion(),
        Some(HostCompletion { cid: CommandId(cid), entry: success(cid), data: Vec::new() })
    );
    assert_eq!(host.poll_completion(), None);
}

#[test]
fn data_in_several_pdus_goes_behind_one_another_and_waits_for_the_response() {
    let mut host = connected(Digests::NONE);
    let cid = submit_read(&mut host, 1024);
    let first = data(cid, 0, &[1; 512], PduFlags::default(), Digests::NONE);
    assert_eq!(host.handle_input(&first), Ok(24));
    let (buffer, len) = (BufferId(7), 512);
    assert_eq!(host.receiving(), Receiving::Payload { buffer, offset: 0, len });
    host.handle_payload(&first[24..124]);
    assert_eq!(host.receiving(), Receiving::Payload { buffer, offset: 100, len: 412 });
    host.handle_payload(&first[124..]);
    let second = data(cid, 512, &[2; 512], LAST, Digests::NONE);
    assert_eq!(host.handle_input(&second), Ok(24));
    assert_eq!(host.receiving(), Receiving::Payload { buffer, offset: 512, len });
    host.handle_payload(&second[24..]);
    assert_eq!(host.poll_completion(), None);
    feed(&mut host, &response(success(cid), Digests::NONE));
    assert_eq!(status(host.poll_completion()), Some(Status::SUCCESS));
}

#[test]
fn completions_come_in_the_controllers_order() {
    let mut host = connected(Digests::NONE);
    let (first, second) = (submit_read(&mut host, 512), submit_read(&mut host, 512));
    feed(&mut host, &data(second, 0, &[2; 512], LAST_AND_SUCCESS, Digests::NONE));
    feed(&mut host, &data(first, 0, &[1; 512], LAST_AND_SUCCESS, Digests::NONE));
    let order = [host.poll_completion(), host.poll_completion()].map(|done| done.unwrap().cid.0);
    assert_eq!(order, [second, first]);
}

#[test]
fn a_read_that_succeeds_without_its_data_is_a_transport_error() {
    for flags in [None, Some(LAST_AND_SUCCESS)] {
        let mut host = connected(Digests::NONE);
        let cid = submit_read(&mut host, 512);
        match flags {
            None => feed(&mut host, &response(success(cid), Digests::NONE)),
            Some(flags) => feed(&mut host, &data(cid, 0, &[1; 256], flags, Digests::NONE)),
        }
        assert_eq!(status(host.poll_completion()), Some(Status::TRANSIENT_TRANSPORT_ERROR));
    }
}

#[test]
fn a_broken_data_digest_fails_the_command_and_not_the_connection() {
    let mut host = connected(Digests::BOTH);
    let cid = submit_read(&mut host, 512);
    let mut broken = data(cid, 0, &[1; 512], LAST_AND_SUCCESS, Digests::BOTH);
    broken[100] ^= 1;
    feed(&mut host, &broken);
    assert_eq!(status(host.poll_completion()), Some(Status::TRANSIENT_TRANSPORT_ERROR));
    assert!(host.is_ready());
}

#[test]
fn a_broken_header_digest_ends_the_connection() {
    let mut host = connected(Digests::BOTH);
    let cid = submit_read(&mut host, 512);
    sent(&mut host);
    let mut broken = data(cid, 0, &[1; 512], LAST_AND_SUCCESS, Digests::BOTH);
    broken[24] ^= 1;
    let received = u32::from_le_bytes(broken[24..28].try_into().unwrap());
    let expected = format!("H2CTermReq FES=3 FEI={received:#x} header=24");
    assert_eq!(refused(&mut host, &broken), [expected]);
}

#[test]
fn data_that_no_command_awaits_ends_the_connection() {
    for (cid, offset, len, flags, expected) in [
        (2, 0, 512, LAST, "H2CTermReq FES=1 FEI=0x8 header=24"), // not in flight
        (0xFFFF, 0, 512, LAST, "H2CTermReq FES=1 FEI=0x8 header=24"),
        (1, 0, 512, LAST, "H2CTermReq FES=1 FEI=0x8 header=24"), // a write
        (0, 4, 508, LAST, "H2CTermReq FES=4 FEI=0x0 header=24"), // not the next
        (0, 0, 516, LAST, "H2CTermReq FES=4 FEI=0x0 header=24"), // too much
        (0, 0, 512, PduFlags::SUCCESS, "H2CTermReq FES=1 FEI=0x1 header=24"), // success, not last
    ] {
        let mut host = connected(Digests::NONE);
        assert_eq!(submit_read(&mut host, 512), 0);
        assert_eq!(submit_write(&mut host, 512, &[]), 1);
        sent(&mut host);
        let pdu = data(cid, offset, &vec![0; len], flags, Digests::NONE);
        assert_eq!(refused(&mut host, &pdu), [expected]);
        assert_eq!(host.in_flight().count(), 2);
    }
}

#[test]
fn a_response_to_no_command_ends_the_connection() {
    let mut host = connected(Digests::NONE);
    let pdu = response(success(0), Digests::NONE);
    assert_eq!(refused(&mut host, &pdu), ["H2CTermReq FES=1 FEI=0x14 header=24"]);
}

#[test]
fn small_data_comes_back_with_its_completion() {
    let mut host = connected(Digests::NONE);
    let identify = Command::new(0x06, NamespaceId(0));
    let cid = host.submit(&identify, CommandData::SmallIncoming(4096), &[]).unwrap().0;
    // Less data than the buffer holds.
    feed(&mut host, &data(cid, 0, &[5; 100], LAST, Digests::NONE));
    feed(&mut host, &response(success(cid), Digests::NONE));
    let completion = host.poll_completion().unwrap();
    assert_eq!((completion.entry, completion.data), (success(cid), vec![5; 100]));
}

// Data from the host.

#[test]
fn a_write_that_fits_goes_in_its_capsule() {
    for (digests, len) in [(Digests::NONE, 72 + 512), (Digests::BOTH, 76 + 512 + 4)] {
        let mut host = connected(digests);
        submit_write(&mut host, 512, &[9; 512]);
        let sgl = "InCapsule { offset: 0, length: 512 }";
        assert_eq!(sent(&mut host), [format!("CapsuleCmd cid=0 opcode=0x01 {sgl} len={len}")]);
        feed(&mut host, &response(success(0), digests));
        assert_eq!(status(host.poll_completion()), Some(Status::SUCCESS));
    }
}

#[test]
fn a_write_that_does_not_fit_waits_for_its_r2t_and_keeps_to_maxh2cdata() {
    let mut host = connected(Digests::NONE);
    let cid = submit_write(&mut host, 10_000, &[]);
    let capsule = "CapsuleCmd cid=0 opcode=0x01 Transport { length: 10000 } len=72";
    assert_eq!(sent(&mut host), [capsule]);
    feed(&mut host, &r2t(cid, 3, 0, 5000));
    feed(&mut host, &r2t(cid, 4, 5000, 5000));
    assert_eq!(
        sent(&mut host),
        [
            "H2CData cid=0 ttag=3 offset=0 len=4096 pdo=24",
            "H2CData cid=0 ttag=3 offset=4096 len=904 pdo=24 last",
            "H2CData cid=0 ttag=4 offset=5000 len=4096 pdo=24",
            "H2CData cid=0 ttag=4 offset=9096 len=904 pdo=24 last",
        ]
    );
}

#[test]
fn data_that_is_asked_for_is_digested_first() {
    let digests = Digests { header: false, data: true };
    let mut host = connected(digests);
    let cid = submit_write(&mut host, 6000, &[9; 6000]);
    sent(&mut host);
    feed(&mut host, &r2t(cid, 0, 0, 6000));
    assert_eq!(host.output_len(), 0);
    for (offset, len) in [(0, 4096), (4096, 1904)] {
        let part = host.wants_payload().unwrap();
        assert_eq!((part.buffer, part.offset, part.len), (BufferId(9), offset, len));
        host.provide_payload(&vec![9; len]);
    }
    assert_eq!(host.wants_payload(), None);
    assert_eq!(
        sent(&mut host),
        [
            "H2CData cid=0 ttag=0 offset=0 len=4096 pdo=24",
            "H2CData cid=0 ttag=0 offset=4096 len=1904 pdo=24 last",
        ]
    );
}

#[test]
fn small_data_that_does_not_fit_is_sent_when_asked_for() {
    let mut host = connected(Digests::NONE);
    let bytes = CommandData::SmallOutgoing(vec![3; 2048]);
    let cid = host.submit(&Command::deallocate(NSID, 127), bytes, &[]).unwrap().0;
    let capsule = "CapsuleCmd cid=0 opcode=0x09 Transport { length: 2048 } len=72";
    assert_eq!(sent(&mut host), [capsule]);
    feed(&mut host, &r2t(cid, 0, 0, 2048));
    let stream = sent_bytes(&mut host);
    assert_eq!(stream[24..], [3; 2048]);
}

#[test]
fn an_r2t_for_what_was_not_offered_ends_the_connection() {
    for (cid, offset, len, expected) in [
        (2, 0, 512, "H2CTermReq FES=1 FEI=0x8 header=24"), // not in flight
        (0, 0, 512, "H2CTermReq FES=1 FEI=0x8 header=24"), // a read
        (1, 0, 0, "H2CTermReq FES=1 FEI=0x10 header=24"),
        (1, 4, 512, "H2CTermReq FES=4 FEI=0x0 header=24"), // not the next
        (1, 0, 2049, "H2CTermReq FES=4 FEI=0x0 header=24"), // too much
        (1, 0, u32::MAX, "H2CTermReq FES=4 FEI=0x0 header=24"),
    ] {
        let mut host = connected(Digests::NONE);
        submit_read(&mut host, 512);
        submit_write(&mut host, 2048, &[]);
        sent(&mut host);
        assert_eq!(refused(&mut host, &r2t(cid, 0, offset, len)), [expected]);
    }
}

#[test]
fn an_answer_before_all_was_sent_waits_until_it_is() {
    let mut host = connected(Digests::NONE);
    let cid = submit_write(&mut host, 512, &[]);
    host.advance_output(100);
    let error = CompletionEntry::new(CommandId(cid), Status::INTERNAL_ERROR);
    feed(&mut host, &response(error, Digests::NONE));
    assert_eq!(host.poll_completion(), None);
    assert_eq!(host.in_flight().count(), 1);
    host.advance_output(host.output_len() - 1);
    assert_eq!(host.poll_completion(), None);
    host.advance_output(1);
    assert_eq!(status(host.poll_completion()), Some(Status::INTERNAL_ERROR));
    assert_eq!(host.commands_in_flight(), 0);
}

// The queue, and the end of the connection.

#[test]
fn a_queue_holds_one_command_fewer_than_entries() {
    let mut host = connected(Digests::NONE);
    for _ in 1..ENTRIES {
        submit_read(&mut host, 512);
    }
    let command = Command::flush(NSID);
    assert_eq!(host.submit(&command, CommandData::None, &[]), Err(SubmitError::QueueFull));
    feed(&mut host, &data(1, 0, &[0; 512], LAST_AND_SUCCESS, Digests::NONE));
    assert!(host.poll_completion().is_some());
    assert_eq!(host.submit(&command, CommandData::None, &[]), Ok(CommandId(1)));
}

#[test]
fn a_controller_that_gives_up_is_answered_with_nothing() {
    let mut host = connected(Digests::NONE);
    let cid = submit_read(&mut host, 512);
    sent(&mut host);
    let request = TermReq::new(PduType::C2H_TERM_REQ, FatalStatus::HEADER_DIGEST, 7, 0);
    let ended = PeerError::Terminated { status: 3, information: 7 };
    assert_eq!(host.handle_input(request.as_bytes()), Err(ended));
    assert_eq!((host.is_closing(), host.output_len()), (true, 0));
    assert_eq!(host.in_flight().collect::<Vec<_>>(), [CommandId(cid)]);
}

// Every state against every PDU.

#[test]
fn every_state_has_an_answer_to_every_pdu() {
    let mut table = String::new();
    for state in ["AwaitingIcResp", "Connecting", "Ready", "Closing"] {
        for pdu_type in PduType::all() {
            let mut host = session_in(state);
            let error = try_feed(&mut host, &mut &sample(pdu_type)[..]).err();
            let mut outcome: Vec<String> =
                error.map(|error| error.to_string()).into_iter().collect();
            outcome.extend(status(host.poll_completion()).map(|status| status.to_string()));
            outcome.extend(sent(&mut host));
            table += &format!("{state} {}: {}\n", pdu_type.name(), outcome.join("; "));
        }
    }
    insta::assert_snapshot!(table);
}

/// A session in this state. If it is ready, command 0 is a read and command 1 a write.
fn session_in(state: &str) -> HostSession {
    let mut host = HostSession::new(config(Digests::NONE));
    if state != "AwaitingIcResp" {
        feed(&mut host, ic_resp(Digests::NONE).as_bytes());
    }
    if state == "Ready" || state == "Closing" {
        feed(&mut host, &response(success(0), Digests::NONE));
        submit_read(&mut host, 512);
        submit_write(&mut host, 2048, &[]);
    }
    if state == "Closing" {
        host.terminate(PeerError::Silent);
    }
    sent(&mut host);
    host
}

/// A valid PDU of this type.
fn sample(pdu_type: PduType) -> Vec<u8> {
    match pdu_type {
        PduType::IC_RESP => ic_resp(Digests::NONE).as_bytes().to_vec(),
        PduType::CAPSULE_RESP => {
            let entry = CompletionEntry::new(CommandId(0), Status::INTERNAL_ERROR);
            response(entry, Digests::NONE)
        }
        PduType::C2H_DATA => data(0, 0, &[0; 512], LAST_AND_SUCCESS, Digests::NONE),
        PduType::R2T => r2t(1, 0, 0, 2048),
        PduType::C2H_TERM_REQ => {
            TermReq::new(pdu_type, FatalStatus::SEQUENCE, 0, 0).as_bytes().to_vec()
        }
        _ => {
            let header_len = pdu_type.header_len().unwrap();
            let common = CommonHeader::bare(pdu_type, header_len.try_into().unwrap());
            let mut stream = common.as_bytes().to_vec();
            stream.resize(header_len, 0);
            stream
        }
    }
}
