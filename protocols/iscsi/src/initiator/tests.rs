use std::sync::Arc;

use nearflash_request::BufferId;
use nearflash_session::{Chunk, Output, Receiving};
use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, IntoBytes};

use super::*;
use crate::check::initiator::pdus_of;
use crate::check::login::{challenge, grant, login_config, offer};
use crate::login::{Access, LoginStep, TargetLogin, TargetLoginConfig};
use crate::params::Offer;
use crate::pdu::*;
use crate::small::push_small;
use nearflash_session::check::Memory;

const TAG_BASE: u32 = 1 << 16;

/// An initiator that is logged in to a target played by the test.
struct Peer {
    initiator: InitiatorSession,
    memory: Memory,
    stat_sn: Serial,
    /// The bytes sent since the last look.
    sent: Vec<u8>,
}

impl Peer {
    fn new(target_offer: Offer) -> Self {
        Self::with_window(target_offer, &Arc::new(CommandWindow::new(1)))
    }

    fn with_window(target_offer: Offer, window: &Arc<CommandWindow>) -> Self {
        let login = login_config([false, false]);
        let config = InitiatorConfig { login, window: window.clone(), task_count: 4 };
        let mut peer = Self {
            initiator: InitiatorSession::new(config),
            memory: Memory::default(),
            stat_sn: Serial(0),
            sent: Vec::new(),
        };
        let mut target = TargetLogin::new(TargetLoginConfig {
            offer: target_offer,
            portal_group: 1,
            challenge: challenge(7),
            stat_sn: Serial(0),
        });
        let access = Access { is_open: true, accounts: Vec::new() };
        while !peer.initiator.is_ready() {
            for (header, data) in peer.requests() {
                let request = LoginRequest::read_from_bytes(&header).unwrap();
                let mut output = Output::default();
                let step = target.handle(&access, &request, &data, &mut output);
                if matches!(step, LoginStep::Demanded(_)) {
                    grant(&mut target, &mut output);
                }
                let Some(Chunk::Bytes(bytes)) = output.chunks().next() else { unreachable!() };
                assert_eq!(peer.initiator.handle_input(bytes), Ok(bytes.len()));
            }
        }
        peer.stat_sn = target.stat_sn();
        peer
    }

    /// The PDUs that were sent since the last look.
    fn requests(&mut self) -> Vec<([u8; HEADER_LEN], Vec<u8>)> {
        self.send(usize::MAX);
        let sent = std::mem::take(&mut self.sent);
        pdus_of(&sent)
    }

    fn send(&mut self, len: usize) {
        let mut stream = Vec::new();
        self.initiator.output().for_each(|chunk| self.memory.append(&mut stream, chunk));
        let len = stream.len().min(len);
        self.sent.extend_from_slice(&stream[..len]);
        self.initiator.advance_output(len);
    }

    fn serials(&mut self, uses_up: bool) -> Serials {
        let stat_sn = self.stat_sn;
        self.stat_sn = if uses_up { stat_sn.next() } else { stat_sn };
        Serials { stat_sn, exp_cmd_sn: Serial(1), max_cmd_sn: Serial(64) }
    }

    fn answer(&mut self, header: &[u8], data: &[u8]) -> Result<(), PeerError> {
        let mut output = Output::default();
        push_small(&mut output, Digests::NONE, header, data);
        let Some(Chunk::Bytes(mut bytes)) = output.chunks().next() else { unreachable!() };
        while !bytes.is_empty() {
            let taken = match self.initiator.receiving() {
                Receiving::Bytes => self.initiator.handle_input(bytes)?,
                Receiving::Payload { buffer, offset, len } => {
                    let part = &bytes[..len.min(bytes.len())];
                    self.memory.bytes_mut(buffer)[offset..][..part.len()].copy_from_slice(part);
                    self.initiator.handle_payload(part);
                    part.len()
                }
                Receiving::Paused => unreachable!("nothing is in the way"),
            };
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// Answers the ping that the initiator has sent.
    fn pass_fence(&mut self) {
        let (header, _) = self.requests().pop().unwrap();
        let ping = NopOut::read_from_bytes(&header).unwrap();
        let serials = self.serials(true);
        let answer = NopIn::new(ping.lun, ping.itt.get(), NO_TAG, serials);
        self.answer(answer.as_bytes(), &[]).unwrap();
    }

    fn respond(&mut self, id: TaskId, status: Status) -> Result<(), PeerError> {
        let serials = self.serials(true);
        let header = ScsiResponse::new(TAG_BASE | u32::from(id.0), status.0, serials);
        self.answer(header.as_bytes(), &[])
    }

    /// Sends one Data-In whose bytes depend on their offset.
    fn give(
        &mut self,
        id: TaskId,
        (sn, offset, len): (u32, u32, u32),
        flags: u8,
    ) -> Result<(), PeerError> {
        let serials = self.serials(flags & DataIn::STATUS != 0);
        let mut header = DataIn::new(flags, TAG_BASE | u32::from(id.0), serials);
        header.data_sn = U32::new(sn);
        header.offset = U32::new(offset);
        header.data_len = DataSegmentLen::new(len);
        let data: Vec<u8> =
            (offset..offset + len).map(|at| u8::try_from(at % 251).unwrap()).collect();
        self.answer(header.as_bytes(), &data)
    }

    fn ask(&mut self, id: TaskId, (sn, offset, len): (u32, u32, u32)) -> Result<(), PeerError> {
        let serials = self.serials(false);
        let mut header = R2t::new(LunField::new(2), TAG_BASE | u32::from(id.0), 77, serials);
        header.r2t_sn = U32::new(sn);
        header.offset = U32::new(offset);
        header.desired_len = U32::new(len);
        self.answer(header.as_bytes(), &[])
    }

    fn write(&mut self, len: u32) -> TaskId {
        let buffer = self.memory.take(length(len));
        let blocks = len / 512;
        self.initiator.write(2, (100, blocks), (buffer, len), &[]).unwrap()
    }

    fn read(&mut self, len: u32) -> (TaskId, BufferId) {
        let buffer = self.memory.take(length(len));
        (self.initiator.read(2, (100, len / 512), buffer, len).unwrap(), buffer)
    }
}

use crate::length;

fn peer() -> Peer {
    Peer::new(offer([false, false]))
}

const STATUS: u8 = FINAL | DataIn::STATUS;

#[test]
fn a_read_is_received_in_place_and_ends_with_its_status() {
    let mut peer = peer();
    let (id, buffer) = peer.read(4096);
    let requests = peer.requests();
    let command = ScsiCommand::read_from_bytes(&requests[0].0).unwrap();
    assert_eq!((command.itt.get(), command.cmd_sn.get()), (TAG_BASE, 1));
    assert_eq!(command.flags, FINAL | ScsiCommand::READ | 1);
    assert_eq!((command.lun.number(), command.transfer_len.get()), (Some(2), 4096));
    assert_eq!(command.cdb, cdb::read(100, 8));
    assert_eq!(Serial::of(command.exp_stat_sn), peer.stat_sn);
    peer.give(id, (0, 0, 1000), 0).unwrap();
    assert_eq!(peer.initiator.poll_completion(), None);
    peer.give(id, (1, 1000, 3096), STATUS).unwrap();
    let completion = peer.initiator.poll_completion().unwrap();
    assert!(completion.is_good() && completion.moved == 4096 && completion.id == id);
    let bytes = peer.memory.bytes(buffer);
    assert!((0u32..).zip(bytes).all(|(at, byte)| u32::from(*byte) == at % 251));
    assert_eq!(peer.initiator.tasks_in_flight(), 0);
}

#[test]
fn a_read_without_all_its_data_is_damaged_unless_the_target_says_so() {
    for (residual, ending) in
        [(0, Ending::Damaged), (1024, Ending::Answered(Status::GOOD)), (512, Ending::Damaged)]
    {
        let mut peer = peer();
        let (id, _) = peer.read(2048);
        peer.give(id, (0, 0, 1024), FINAL).unwrap();
        let serials = peer.serials(true);
        let mut header = ScsiResponse::new(TAG_BASE | u32::from(id.0), 0, serials);
        header.flags |= ScsiResponse::UNDERFLOW;
        header.residual = U32::new(residual);
        peer.answer(header.as_bytes(), &[]).unwrap();
        assert_eq!(peer.initiator.poll_completion().unwrap().ending, ending, "{residual}");
    }
}

#[test]
fn data_out_of_place_or_order_ends_the_connection() {
    for (sn, at, len) in [(1, 0, 512), (0, 512, 512), (0, 0, 8000)] {
        let mut peer = peer();
        let (id, _) = peer.read(4096);
        assert!(peer.give(id, (sn, at, len), 0).is_err());
        assert!(peer.initiator.is_closing());
        assert_eq!(peer.initiator.in_flight().collect::<Vec<_>>(), [id]);
    }
    let mut peer = peer();
    let id = peer.write(512);
    assert!(peer.give(id, (0, 0, 512), STATUS).is_err(), "a write gets no data");
    let mut peer = self::peer();
    let unknown = peer.respond(TaskId(3), Status::GOOD);
    let opcode = Opcode::SCSI_RESPONSE;
    assert_eq!(unknown, Err(PeerError::UnknownTask { opcode, tag: TAG_BASE | 3 }));
}

#[test]
fn a_status_number_that_is_missing_ends_the_connection() {
    let mut peer = peer();
    let (id, _) = peer.read(512);
    peer.serials(true);
    assert!(matches!(peer.give(id, (0, 0, 512), STATUS), Err(PeerError::Serial { .. })));
}

#[test]
fn a_write_brings_its_first_burst_along_and_sends_the_rest_when_asked() {
    // FirstBurstLength 65536, MaxRecvDataSegmentLength 8192, InitialR2T no.
    let mut peer = peer();
    let id = peer.write(100 * 1024);
    let requests = peer.requests();
    let command = ScsiCommand::read_from_bytes(&requests[0].0).unwrap();
    assert!(command.is_write() && !command.is_final(), "data follows unasked");
    assert_eq!(requests[0].1.len(), 8192);
    let outs: Vec<DataOut> =
        requests[1..].iter().map(|(header, _)| DataOut::read_from_bytes(header).unwrap()).collect();
    let places: Vec<(u32, u32, bool)> =
        outs.iter().map(|out| (out.data_sn.get(), out.offset.get(), out.is_final())).collect();
    assert_eq!(places.first(), Some(&(0, 8192, false)));
    assert_eq!(places.last(), Some(&(6, 57_344, true)));
    assert!(outs.iter().all(|out| out.ttt.get() == NO_TAG && out.data_len.get() == 8192));
    peer.ask(id, (0, 65_536, 10_000)).unwrap();
    let asked = peer.requests();
    let last = DataOut::read_from_bytes(&asked[1].0).unwrap();
    assert_eq!((last.ttt.get(), last.data_sn.get(), last.is_final()), (77, 1, true));
    assert_eq!((last.offset.get(), last.data_len.get()), (73_728, 1808));
    peer.ask(id, (1, 75_536, 26_864)).unwrap();
    peer.requests();
    peer.respond(id, Status::GOOD).unwrap();
    let completion = peer.initiator.poll_completion().unwrap();
    assert!(completion.is_good() && completion.moved == 100 * 1024);
}

#[test]
fn without_immediate_data_every_byte_is_asked_for() {
    let mut reluctant = offer([false, false]);
    reluctant.session.initial_r2t = true;
    reluctant.session.immediate_data = false;
    let mut peer = Peer::new(reluctant);
    let id = peer.write(4096);
    let requests = peer.requests();
    assert_eq!((requests.len(), requests[0].1.len()), (1, 0));
    assert!(ScsiCommand::read_from_bytes(&requests[0].0).unwrap().is_final());
    peer.ask(id, (0, 0, 4096)).unwrap();
    assert_eq!(peer.requests().len(), 1);
}

#[test]
fn data_is_not_sent_twice_nor_past_its_end() {
    for (sn, offset, len) in [(0, 0, 512), (1, 65_536, 512), (0, 65_536, 40_000), (0, 65_536, 0)] {
        let mut peer = peer();
        let id = peer.write(100 * 1024);
        assert!(peer.ask(id, (sn, offset, len)).is_err(), "{sn} {offset} {len}");
    }
}

#[test]
fn a_buffer_is_in_use_until_all_of_it_is_sent() {
    let mut peer = peer();
    let id = peer.write(4096);
    peer.send(48 + 4095);
    peer.respond(id, Status::GOOD).unwrap();
    assert_eq!(peer.initiator.poll_completion(), None);
    assert_eq!(peer.initiator.in_flight().count(), 1);
    peer.send(1);
    assert!(peer.initiator.poll_completion().is_some());
}

#[test]
fn sense_data_comes_with_a_check_condition() {
    let mut peer = peer();
    let (id, _) = peer.read(512);
    let serials = peer.serials(true);
    let mut header = ScsiResponse::new(TAG_BASE | u32::from(id.0), 2, serials);
    let sense = [0, 18, 0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x21, 0, 0, 0, 0, 0];
    header.data_len = DataSegmentLen::new(20);
    peer.answer(header.as_bytes(), &sense).unwrap();
    let completion = peer.initiator.poll_completion().unwrap();
    assert_eq!(completion.ending, Ending::Answered(Status::CHECK_CONDITION));
    let expected = Sense { key: 5, asc: 0x21, ascq: 0, information: None };
    assert_eq!(completion.sense, Some(expected));
    let (id, _) = peer.read(512);
    peer.give(id, (0, 0, 512), STATUS).unwrap();
    assert_eq!(peer.initiator.poll_completion().unwrap().sense, None, "it is told once");
}

#[test]
fn small_data_comes_with_its_completion() {
    let mut peer = peer();
    let data = CommandData::SmallIncoming(255);
    let id = peer.initiator.submit(0, &cdb::inquiry(None, 255), data, &[]).unwrap();
    peer.give(id, (0, 0, 36), FINAL).unwrap();
    peer.respond(id, Status::GOOD).unwrap();
    let completion = peer.initiator.poll_completion().unwrap();
    assert_eq!((completion.data.len(), completion.moved), (36, 36));
    let id = peer.initiator.unmap(0, &[(1, 2)]).unwrap();
    let requests = peer.requests();
    assert_eq!(requests[1].1, cdb::unmap(&[(1, 2)]).1);
    peer.respond(id, Status::GOOD).unwrap();
    assert!(peer.initiator.poll_completion().unwrap().is_good());
}

#[test]
fn no_more_commands_are_taken_than_places_or_window() {
    let mut peer = peer();
    for _ in 0..4 {
        peer.read(512);
    }
    let full = peer.initiator.read(0, (0, 1), BufferId(0), 512);
    assert_eq!(full, Err(SubmitError::QueueFull));
    let window = Arc::new(CommandWindow::new(64));
    let mut peer = Peer::with_window(offer([false, false]), &window);
    peer.read(512);
    let closed = peer.initiator.read(0, (0, 1), BufferId(0), 512);
    assert_eq!(closed, Err(SubmitError::WindowClosed));
}

#[test]
fn connections_of_a_session_number_their_commands_together() {
    let window = Arc::new(CommandWindow::new(1));
    let mut peers = [(); 2].map(|()| Peer::with_window(offer([false, false]), &window));
    let numbers = [0, 1, 0].map(|peer| {
        peers[peer].read(512);
        let (header, _) = peers[peer].requests().pop().unwrap();
        ScsiCommand::read_from_bytes(&header).unwrap().cmd_sn.get()
    });
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn pings_are_answered_both_ways() {
    let mut peer = peer();
    let serials = peer.serials(false);
    let ping = NopIn::new(LunField::new(1), NO_TAG, 9, serials);
    peer.answer(ping.as_bytes(), &[]).unwrap();
    let answer = NopOut::read_from_bytes(&peer.requests()[0].0).unwrap();
    assert_eq!((answer.itt.get(), answer.ttt.get()), (NO_TAG, 9));
    assert_eq!(answer.lun.number(), Some(1));
    peer.initiator.ping().unwrap();
    assert_eq!(peer.initiator.ping(), Err(SubmitError::NotReady), "one at a time");
    let ping = NopOut::read_from_bytes(&peer.requests()[0].0).unwrap();
    assert!(ping.opcode.is_immediate() && ping.ttt.get() == NO_TAG);
    let serials = peer.serials(true);
    let pong = NopIn::new(LunField::default(), ping.itt.get(), NO_TAG, serials);
    peer.answer(pong.as_bytes(), &[]).unwrap();
    assert_eq!(peer.initiator.poll_event(), Some(Event::Pong));
}

#[test]
fn what_a_function_ends_completes_as_aborted() {
    let mut peer = peer();
    let (first, _) = peer.read(512);
    let (second, _) = peer.read(512);
    peer.initiator.manage(TaskFunction::ABORT_TASK, 2, Some(first)).unwrap();
    let (header, _) = peer.requests().pop().unwrap();
    let request = TaskRequest::read_from_bytes(&header).unwrap();
    assert_eq!(request.function(), TaskFunction::ABORT_TASK);
    assert_eq!((request.referenced_itt.get(), request.ref_cmd_sn.get()), (TAG_BASE, 1));
    let serials = peer.serials(true);
    let response = TaskResponse::new(TaskResult::COMPLETE, request.itt.get(), serials);
    peer.answer(response.as_bytes(), &[]).unwrap();
    let completion = peer.initiator.poll_completion().unwrap();
    assert_eq!((completion.id, completion.ending), (first, Ending::Aborted));
    assert_eq!(peer.initiator.poll_event(), Some(Event::Managed(TaskResult::COMPLETE)));
    peer.initiator.manage(TaskFunction::LOGICAL_UNIT_RESET, 2, None).unwrap();
    let serials = peer.serials(true);
    let response = TaskResponse::new(TaskResult::COMPLETE, request.itt.get(), serials);
    peer.answer(response.as_bytes(), &[]).unwrap();
    assert_eq!(peer.initiator.poll_completion().unwrap().id, second);
}

#[test]
fn what_was_sent_after_a_function_is_none_of_its_business() {
    for (function, result) in [
        (TaskFunction::ABORT_TASK_SET, TaskResult::COMPLETE),
        (TaskFunction::LOGICAL_UNIT_RESET, TaskResult::COMPLETE),
        (TaskFunction::TARGET_WARM_RESET, TaskResult::COMPLETE),
    ] {
        let mut peer = peer();
        let (before, _) = peer.read(512);
        peer.initiator.manage(function, 2, None).unwrap();
        let (header, _) = peer.requests().pop().unwrap();
        let request = TaskRequest::read_from_bytes(&header).unwrap();
        let (after, _) = peer.read(512);
        let serials = peer.serials(true);
        let response = TaskResponse::new(result, request.itt.get(), serials);
        peer.answer(response.as_bytes(), &[]).unwrap();
        assert_eq!(peer.initiator.poll_completion().map(|done| done.id), Some(before));
        assert_eq!(peer.initiator.poll_completion(), None, "the later one goes on");
        peer.respond(after, Status::BUSY).unwrap();
        assert_eq!(peer.initiator.poll_completion().map(|done| done.id), Some(after));
    }
}

#[test]
fn a_function_of_another_connection_ends_what_it_is_about_here_too() {
    let [mut asks, mut other] = [peer(), peer()];
    let (meant, _) = other.read(512);
    let task = asks.read(512).0;
    let of_one = asks.initiator.manage(TaskFunction::ABORT_TASK, 2, Some(task)).unwrap();
    other.initiator.conclude(&of_one, TaskResult::COMPLETE);
    let mut asks = peer();
    asks.read(512);
    let of_many = asks.initiator.manage(TaskFunction::CLEAR_TASK_SET, 2, None).unwrap();
    other.initiator.conclude(&of_many, TaskResult::REJECTED);
    other.pass_fence();
    assert_eq!(other.initiator.poll_completion(), None);
    other.initiator.conclude(&of_many, TaskResult::COMPLETE);
    other.pass_fence();
    let done = other.initiator.poll_completion().unwrap();
    assert_eq!((done.id, done.ending), (meant, Ending::Aborted));
}

#[test]
fn what_a_function_of_another_connection_ended_has_its_tag_until_all_has_come_that_was_sent() {
    let [mut asks, mut other] = [peer(), peer()];
    let (meant, buffer) = other.read(1024);
    other.requests();
    asks.read(512);
    let function = asks.initiator.manage(TaskFunction::TARGET_COLD_RESET, 0, None).unwrap();
    other.give(meant, (0, 0, 512), 0).unwrap();
    for _ in 0..2 {
        other.initiator.conclude(&function, TaskResult::COMPLETE);
    }
    // The target has lost this connection, and its last data is still on the way.
    other.give(meant, (1, 512, 512), 0).unwrap();
    assert_eq!(other.initiator.poll_completion(), None);
    assert_eq!(other.initiator.tasks_in_flight(), 1);
    other.pass_fence();
    let done = other.initiator.poll_completion().unwrap();
    assert_eq!((done.id, done.ending, done.moved), (meant, Ending::Aborted, 1024));
    other.memory.bytes(buffer);
    other.pass_fence();
    assert_eq!(other.requests(), [], "nothing is left to be waited for");
}

#[test]
fn targets_are_gathered_over_several_answers() {
    let mut peer = peer();
    peer.initiator.send_targets("All").unwrap();
    let requests = peer.requests();
    assert_eq!(requests[0].1, b"SendTargets=All\0");
    let itt = TextRequest::read_from_bytes(&requests[0].0).unwrap().itt.get();
    let serials = peer.serials(true);
    let mut header = TextResponse::new(CONTINUE, itt, 5, serials);
    header.data_len = DataSegmentLen::new(14);
    peer.answer(header.as_bytes(), b"TargetName=iqn").unwrap();
    let next = TextRequest::read_from_bytes(&peer.requests()[0].0).unwrap();
    assert_eq!((next.ttt.get(), next.data_len.get()), (5, 0));
    let serials = peer.serials(true);
    let mut header = TextResponse::new(FINAL, itt, NO_TAG, serials);
    header.data_len = DataSegmentLen::new(5);
    peer.answer(header.as_bytes(), b".a:b\0").unwrap();
    let target = DiscoveredTarget { name: "iqn.a:b".to_owned(), addresses: Vec::new() };
    assert_eq!(peer.initiator.poll_event(), Some(Event::Targets(vec![target])));
}

#[test]
fn a_logout_ends_the_connection() {
    let mut peer = peer();
    peer.initiator.logout(LogoutReason::CONNECTION).unwrap();
    let (header, _) = peer.requests().pop().unwrap();
    let request = LogoutRequest::read_from_bytes(&header).unwrap();
    assert_eq!((request.reason(), request.cid.get()), (LogoutReason::CONNECTION, 1));
    let refused = peer.initiator.read(0, (0, 1), BufferId(0), 512);
    assert_eq!(refused, Err(SubmitError::NotReady));
    let serials = peer.serials(true);
    let response = LogoutResponse::new(LogoutResult::SUCCESS, request.itt.get(), serials);
    peer.answer(response.as_bytes(), &[]).unwrap();
    assert_eq!(peer.initiator.poll_event(), Some(Event::LoggedOut(LogoutResult::SUCCESS)));
    assert!(peer.initiator.is_closing());
}

#[test]
fn what_a_target_says_unasked_is_told() {
    let mut peer = peer();
    let serials = peer.serials(true);
    let mut header = Async::new(AsyncEvent::LOGOUT, serials);
    header.parameter3 = U16::new(10);
    peer.answer(header.as_bytes(), &[]).unwrap();
    assert_eq!(peer.initiator.poll_event(), Some(Event::LogoutRequested { seconds: 10 }));
    let serials = peer.serials(true);
    let mut header = Async::new(AsyncEvent::CONNECTION_DROP, serials);
    header.parameter1 = U16::new(2);
    peer.answer(header.as_bytes(), &[]).unwrap();
    let serials = peer.serials(true);
    let header = Async::new(AsyncEvent::SESSION_DROP, serials);
    let ended = peer.answer(header.as_bytes(), &[]);
    assert_eq!(ended, Err(PeerError::Ended(AsyncEvent::SESSION_DROP)));
}

#[test]
fn a_command_that_is_rejected_is_over() {
    let mut peer = peer();
    let (id, _) = peer.read(512);
    let (command, _) = peer.requests().pop().unwrap();
    let serials = peer.serials(true);
    let header = Reject::new(RejectReason::INVALID_FIELD, serials);
    peer.answer(header.as_bytes(), &command).unwrap();
    let completion = peer.initiator.poll_completion().unwrap();
    let ending = Ending::Rejected(RejectReason::INVALID_FIELD);
    assert_eq!((completion.id, completion.ending), (id, ending));
    peer.initiator.ping().unwrap();
    let (ping, _) = peer.requests().pop().unwrap();
    let serials = peer.serials(true);
    let header = Reject::new(RejectReason::PROTOCOL, serials);
    let (opcode, reason) = (Opcode::NOP_OUT, RejectReason::PROTOCOL);
    assert_eq!(peer.answer(header.as_bytes(), &ping), Err(PeerError::Rejected { opcode, reason }));
}

#[test]
fn before_the_login_nothing_else_is_taken() {
    let config = InitiatorConfig {
        login: login_config([false, false]),
        window: Arc::new(CommandWindow::new(1)),
        task_count: 1,
    };
    let mut initiator = InitiatorSession::new(config);
    assert_eq!(initiator.flush(0), Err(SubmitError::NotReady));
    let serials = Serials::default();
    let header = ScsiResponse::new(TAG_BASE, 0, serials);
    let opcode = Opcode::SCSI_RESPONSE;
    assert_eq!(initiator.handle_input(header.as_bytes()), Err(PeerError::Sequence(opcode)));
}

// Every state against every PDU.

/// A session in that state; once it is logged in, command 0 is a read and command 1 a write.
fn session_in(state: &str) -> Peer {
    if state == "LoggingIn" {
        let config = InitiatorConfig {
            login: login_config([false, false]),
            window: Arc::new(CommandWindow::new(1)),
            task_count: 4,
        };
        return Peer {
            initiator: InitiatorSession::new(config),
            memory: Memory::default(),
            stat_sn: Serial(0),
            sent: Vec::new(),
        };
    }
    let mut peer = peer();
    peer.read(512);
    peer.write(100 * 1024);
    match state {
        "LoggingOut" => peer.initiator.logout(LogoutReason::SESSION).unwrap(),
        "Closing" => peer.initiator.terminate(),
        _ => {}
    }
    peer.requests();
    peer
}

/// The outcome of a PDU for command `id` that is zero except for the fields that make it the next
/// one.
fn outcome_of(peer: &mut Peer, opcode: Opcode, id: u32) -> String {
    let mut header = [0; HEADER_LEN];
    header[0] = opcode.0;
    header[1] = FINAL;
    header[16..20].copy_from_slice(&(TAG_BASE | id).to_be_bytes());
    header[24..28].copy_from_slice(&peer.stat_sn.0.to_be_bytes());
    header[32..36].copy_from_slice(&64u32.to_be_bytes());
    let mut outcome = Vec::new();
    match peer.initiator.handle_input(&header) {
        Ok(0) => outcome.push("not taken".to_owned()),
        Ok(_) => {}
        Err(error) => outcome.push(error.to_string()),
    }
    while let Some(completion) = peer.initiator.poll_completion() {
        outcome.push(format!("{:?}", completion.ending));
    }
    while let Some(event) = peer.initiator.poll_event() {
        outcome.push(format!("{event:?}"));
    }
    for (header, _) in peer.requests() {
        outcome.push(OpcodeByte(header[0]).opcode().name().to_owned());
    }
    outcome.join("; ")
}

#[test]
fn every_state_has_an_answer_to_every_pdu() {
    let mut table = String::new();
    for state in ["LoggingIn", "Ready", "LoggingOut", "Closing"] {
        for (opcode, name) in Opcode::all().map(|opcode| (opcode, opcode.name())) {
            let commands = [(0, "a read"), (1, "a write"), (0xFFF2, "the logout")];
            let outcomes = commands.map(|(id, _)| outcome_of(&mut session_in(state), opcode, id));
            if outcomes[1..].iter().all(|outcome| *outcome == outcomes[0]) {
                table += &format!("{state} {name}: {}\n", outcomes[0]);
                continue;
            }
            for ((_, command), outcome) in commands.iter().zip(outcomes) {
                table += &format!("{state} {name} for {command}: {outcome}\n");
            }
        }
    }
    insta::assert_snapshot!(table);
}
