//! Invalid PDUs from a target, sent to an initiator's session.

use std::collections::BTreeMap;
use std::sync::Arc;

use nearflash_request::BufferId;
use nearflash_session::{Chunk, Output, Receiving};
use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

use super::login::{challenge, grant, login_config, offer};
use crate::Digests;
use crate::error::PeerError;
use crate::initiator::{
    CommandData, CommandWindow, Ending, InitiatorConfig, InitiatorSession, Status, TaskCompletion,
    TaskId, cdb,
};
use crate::length;
use crate::login::{Access, LoginStep, TargetLogin, TargetLoginConfig};
use crate::pdu::{
    Async, AsyncEvent, DataIn, DataSegmentLen, FINAL, HEADER_LEN, LoginRequest, LogoutReason,
    LogoutResponse, LogoutResult, LunField, NO_TAG, NopIn, R2t, Reject, RejectReason, ScsiResponse,
    Serial, Serials, TaskFunction, TaskResponse, TaskResult, TextResponse,
};
#[cfg(test)]
use crate::pdu::{BasicHeader, padding_len};
use crate::small::push_small;
use nearflash_session::check::Memory;

const UNIT: u32 = 512;
const TASKS: u16 = 8;
/// CID 1, in the upper half.
const TAG_BASE: u32 = 1 << 16;

/// The check's record of a command in flight.
#[derive(Debug)]
struct InFlight {
    buffer: Option<BufferId>,
    len: u32,
    /// The offset that a valid target would use next.
    moved: u32,
    /// How many Data-In or R2T it had.
    data_sn: u32,
    /// Its data is to be received into `buffer`.
    is_read: bool,
}

/// A session, its buffers and its commands.
#[derive(Debug)]
struct Bench {
    initiator: InitiatorSession,
    memory: Memory,
    digests: Digests,
    stat_sn: Serial,
    in_flight: BTreeMap<TaskId, InFlight>,
    error: Option<PeerError>,
    /// Only whole PDUs were sent, so that what a read received is known.
    is_sound: bool,
}

/// For every answer of a target: no panic and no endless loop, every command completes once or is
/// listed as still in flight, and no read succeeds without its data.
///
/// The first byte of `input` selects the connection, and every eight bytes after it select a step.
pub fn check_initiator_never_panics(input: &[u8]) {
    let Some((selector, instructions)) = input.split_first() else { return };
    let mut bench = Bench::new(*selector);
    for instruction in instructions.chunks_exact(8) {
        bench.follow(instruction.try_into().expect("chunks of eight"));
    }
    bench.end();
}

impl Bench {
    fn new(selector: u8) -> Self {
        let digests = Digests { header: selector & 1 != 0, data: selector & 2 != 0 };
        let config = InitiatorConfig {
            login: login_config([digests.header, digests.data]),
            window: Arc::new(CommandWindow::new(1)),
            task_count: TASKS,
        };
        let mut bench = Self {
            initiator: InitiatorSession::new(config),
            memory: Memory::default(),
            digests: Digests::NONE,
            stat_sn: Serial(0),
            in_flight: BTreeMap::new(),
            error: None,
            is_sound: true,
        };
        // Most streams begin after a successful login.
        if selector & 0xE0 != 0 {
            bench.log_in(selector & 4 != 0);
            bench.digests = digests;
        }
        bench
    }

    fn log_in(&mut self, initial_r2t: bool) {
        let mut offer = offer([false, false]);
        offer.session.initial_r2t = initial_r2t;
        let mut target = TargetLogin::new(TargetLoginConfig {
            offer,
            portal_group: 1,
            challenge: challenge(7),
            stat_sn: Serial(0),
        });
        let access = Access { is_open: true, accounts: Vec::new() };
        while !self.initiator.is_ready() {
            let stream = self.take_output(usize::MAX);
            let (header, data) = stream.split_first_chunk::<HEADER_LEN>().expect("a request");
            let request =
                LoginRequest::ref_from_bytes(header).expect("the head has this header's length");
            let data = &data[..length(request.data_len.get())];
            let mut output = Output::default();
            let step = target.handle(&access, request, data, &mut output);
            if matches!(step, LoginStep::Demanded(_)) {
                grant(&mut target, &mut output);
            }
            self.feed_output(&output);
            assert!(self.error.is_none(), "a sound target is believed: {:?}", self.error);
        }
        self.stat_sn = target.stat_sn();
    }

    fn follow(&mut self, instruction: [u8; 8]) {
        let [what, a, b, c, d, e, mutation, place] = instruction;
        let id = TaskId(u16::from(b % 8));
        let len = u32::from(a % 40) * UNIT;
        match what % 14 {
            0 => {
                let buffer = self.memory.take(length(len));
                self.submit(CommandData::Incoming { buffer, len }, Some(buffer));
            }
            1 => {
                let buffer = self.memory.take(length(len));
                self.submit(CommandData::Outgoing { buffer, len }, Some(buffer));
            }
            2 => self.submit(CommandData::SmallIncoming(len), None),
            3 => self.submit(CommandData::SmallOutgoing(vec![a; usize::from(c) * 63]), None),
            4 => self.submit(CommandData::None, None),
            5 => {
                let status = if d < 192 { 0 } else { e };
                self.respond(id, status, (c & 7, u32::from(a)), [mutation, place]);
            }
            6 | 7 => self.give_data(id, self.part_of(id, len, c), (d, e), [mutation, place]),
            8 => self.ask_for_data(id, self.part_of(id, len, c), [mutation, place]),
            9 => {
                let _ = self.take_output(usize::from(a) << (b % 8));
            }
            10 => {
                self.is_sound = false;
                self.feed(&instruction);
            }
            11 => self.manage(a, (b, c), [mutation, place]),
            12 => self.interrupt(a, (b, c), [mutation, place]),
            _ => self.say(a, &[b, c, d, e], [mutation, place]),
        }
        while let Some(completion) = self.initiator.poll_completion() {
            self.check_completion(&completion);
        }
        while self.initiator.poll_event().is_some() {}
    }

    /// The part of a command's data to use, as offset and length: usually the one that a valid
    /// target would use next.
    fn part_of(&self, id: TaskId, len: u32, choice: u8) -> (u32, u32) {
        let command = self.in_flight.get(&id);
        let (moved, all) = command.map_or((0, UNIT), |command| (command.moved, command.len));
        match choice {
            0..128 => (moved, (all - moved).min(8192)),
            128..224 => (moved, len.min(all - moved)),
            224..240 => (moved, len),
            _ => (u32::from(choice) * UNIT, len),
        }
    }

    fn submit(&mut self, data: CommandData, buffer: Option<BufferId>) {
        let payload = buffer.map_or(&[][..], |buffer| self.memory.bytes(buffer));
        let (len, is_read) = match &data {
            CommandData::None => (0, false),
            CommandData::Incoming { len, .. } => (*len, true),
            CommandData::Outgoing { len, .. } | CommandData::SmallIncoming(len) => (*len, false),
            CommandData::SmallOutgoing(bytes) => {
                (u32::try_from(bytes.len()).expect("small"), false)
            }
        };
        match self.initiator.submit(3, &cdb::read(0, 1), data, payload) {
            Ok(id) => {
                // The session chooses the unsolicited data, which a valid target checks.
                let command = InFlight { buffer, len, moved: 0, data_sn: 0, is_read };
                assert!(self.in_flight.insert(id, command).is_none(), "numbers are not reused");
            }
            Err(_) => {
                if let Some(buffer) = buffer {
                    self.memory.give_back(buffer);
                }
            }
        }
    }

    /// The serial numbers of a valid target; `uses_up` advances StatSN.
    fn serials(&mut self, uses_up: bool) -> Serials {
        let stat_sn = self.stat_sn;
        if uses_up {
            self.stat_sn = stat_sn.next();
        }
        Serials { stat_sn, exp_cmd_sn: Serial(1), max_cmd_sn: Serial(200) }
    }

    fn respond(&mut self, id: TaskId, status: u8, (flags, residual): (u8, u32), mutation: [u8; 2]) {
        let serials = self.serials(true);
        let mut header = ScsiResponse::new(TAG_BASE | u32::from(id.0), status, serials);
        header.flags |= flags;
        header.residual = U32::new(residual);
        let sense = [0, 18, 0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24, 0, 0, 0, 0, 0];
        let data = if status == Status::CHECK_CONDITION.0 { &sense[..] } else { &[] };
        header.data_len = DataSegmentLen::new(wire_len(data));
        self.feed_pdu(header.as_bytes(), data, mutation);
    }

    fn give_data(
        &mut self,
        id: TaskId,
        (offset, len): (u32, u32),
        (flags, residual): (u8, u8),
        mutation: [u8; 2],
    ) {
        let flags = FINAL | flags & (DataIn::STATUS | DataIn::UNDERFLOW);
        let serials = self.serials(flags & DataIn::STATUS != 0);
        let mut header = DataIn::new(flags, TAG_BASE | u32::from(id.0), serials);
        header.data_sn = U32::new(self.in_flight.get(&id).map_or(0, |command| command.data_sn));
        header.offset = U32::new(offset);
        header.residual = U32::new(residual.into());
        header.data_len = DataSegmentLen::new(len);
        self.feed_pdu(header.as_bytes(), &vec![0x11; length(len)], mutation);
        self.count(id, len);
    }

    fn ask_for_data(&mut self, id: TaskId, (offset, len): (u32, u32), mutation: [u8; 2]) {
        let serials = self.serials(false);
        let mut header = R2t::new(LunField::new(3), TAG_BASE | u32::from(id.0), 7, serials);
        header.r2t_sn = U32::new(self.in_flight.get(&id).map_or(0, |command| command.data_sn));
        header.offset = U32::new(offset);
        header.desired_len = U32::new(len);
        self.feed_pdu(header.as_bytes(), &[], mutation);
        self.count(id, len);
    }

    fn count(&mut self, id: TaskId, len: u32) {
        if let Some(command) = self.in_flight.get_mut(&id) {
            command.moved = command.moved.saturating_add(len).min(command.len);
            command.data_sn += 1;
        }
    }

    /// A task management function or a logout, and its answer.
    fn manage(&mut self, what: u8, (function, result): (u8, u8), mutation: [u8; 2]) {
        if what < 16 {
            let _ = self.initiator.logout(LogoutReason(function % 3));
            let serials = self.serials(true);
            let header = LogoutResponse::new(LogoutResult(result % 4), TAG_BASE | 0xFFF2, serials);
            return self.feed_pdu(header.as_bytes(), &[], mutation);
        }
        let task = Some(TaskId(u16::from(what % 8)));
        let _ = self.initiator.manage(TaskFunction(function % 13), 3, task);
        let serials = self.serials(true);
        let header = TaskResponse::new(TaskResult(result % 8), TAG_BASE | 0xFFF3, serials);
        self.feed_pdu(header.as_bytes(), &[], mutation);
    }

    /// Pings, rejects and messages.
    fn interrupt(&mut self, what: u8, (a, b): (u8, u8), mutation: [u8; 2]) {
        match what % 4 {
            0 => {
                let serials = self.serials(false);
                let ttt = u32::from(a);
                let header = NopIn::new(LunField::default(), NO_TAG, ttt, serials);
                self.feed_pdu(header.as_bytes(), &[], mutation);
            }
            1 => {
                let _ = self.initiator.ping();
                let serials = self.serials(true);
                let header = NopIn::new(LunField::default(), TAG_BASE | 0xFFF0, NO_TAG, serials);
                self.feed_pdu(header.as_bytes(), &[], mutation);
            }
            2 => {
                let serials = self.serials(true);
                let header = Async::new(AsyncEvent(a % 6), serials);
                self.feed_pdu(header.as_bytes(), &[], mutation);
            }
            _ => {
                let serials = self.serials(true);
                let mut fault = [0; HEADER_LEN];
                fault[0] = a % 7;
                fault[17] = 1;
                fault[19] = b % 8;
                let header = Reject::new(RejectReason(b % 13), serials);
                self.feed_pdu(header.as_bytes(), &fault, mutation);
            }
        }
    }

    /// An answer to SendTargets.
    fn say(&mut self, flags: u8, text: &[u8], mutation: [u8; 2]) {
        let _ = self.initiator.send_targets("All");
        let serials = self.serials(true);
        let mut header = TextResponse::new(flags & 0xC0, TAG_BASE | 0xFFF1, 5, serials);
        let text = [b"TargetName=iqn.", text, b"\0"].concat();
        header.data_len = DataSegmentLen::new(wire_len(&text));
        self.feed_pdu(header.as_bytes(), &text, mutation);
    }

    fn feed_pdu(&mut self, header: &[u8], data: &[u8], [mutation, place]: [u8; 2]) {
        let mut output = Output::default();
        push_small(&mut output, self.digests, header, data);
        let mut pdu = bytes_of(&output);
        // Half of all PDUs stay valid.
        if mutation >= 128 {
            let place = usize::from(place) % pdu.len();
            pdu[place] ^= 1 << (mutation % 8);
            self.is_sound = false;
        }
        self.feed(&pdu);
    }

    fn feed_output(&mut self, output: &Output) {
        self.feed(&bytes_of(output));
    }

    /// Feeds `bytes` until the session fails or pauses.
    fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.error.is_none() {
            let taken = match self.initiator.receiving() {
                Receiving::Paused => {
                    // The PDU is truncated here, so it is no longer whole.
                    self.is_sound = false;
                    break;
                }
                Receiving::Bytes => match self.initiator.handle_input(bytes) {
                    Ok(taken) => taken,
                    Err(error) => {
                        assert!(self.initiator.is_closing(), "an error ends the session");
                        self.error = Some(error);
                        0
                    }
                },
                Receiving::Payload { buffer, offset, len } => {
                    let part = &bytes[..len.min(bytes.len())];
                    let place = offset..offset + part.len();
                    self.memory.bytes_mut(buffer)[place].copy_from_slice(part);
                    self.initiator.handle_payload(part);
                    part.len()
                }
            };
            bytes = &bytes[taken..];
        }
    }

    /// Takes at most `len` bytes of the session's output. Returns the bytes taken.
    fn take_output(&mut self, len: usize) -> Vec<u8> {
        while let Some(part) = self.initiator.wants_payload() {
            let bytes = &self.memory.bytes(part.buffer)[part.offset..][..part.len];
            self.initiator.provide_payload(bytes);
        }
        let mut stream = Vec::new();
        self.initiator.output().for_each(|chunk| self.memory.append(&mut stream, chunk));
        assert_eq!(stream.len(), self.initiator.output_len());
        self.initiator.advance_output(stream.len().min(len));
        stream
    }

    fn check_completion(&mut self, completion: &TaskCompletion) {
        let command = self.in_flight.remove(&completion.id).expect("it ends once");
        assert!(completion.data.len() <= length(command.len), "no more than was asked for");
        assert!(completion.moved <= command.len, "no more than was asked for");
        let Some(buffer) = command.buffer else { return };
        let is_good = completion.ending == Ending::Answered(Status::GOOD);
        if command.is_read && is_good && self.is_sound {
            let received = &self.memory.bytes(buffer)[..length(completion.moved)];
            assert!(!received.contains(&0xA5), "a read that succeeds has all its data");
        }
        self.memory.give_back(buffer);
    }

    /// Ends the connection, and checks that no command is missing.
    fn end(mut self) {
        self.take_output(usize::MAX);
        while let Some(completion) = self.initiator.poll_completion() {
            self.check_completion(&completion);
        }
        let left: Vec<TaskId> = self.initiator.in_flight().collect();
        let expected: Vec<TaskId> = self.in_flight.keys().copied().collect();
        assert_eq!(left, expected, "what never completes is named");
    }
}

fn bytes_of(output: &Output) -> Vec<u8> {
    let mut stream = Vec::new();
    for chunk in output.chunks() {
        let Chunk::Bytes(bytes) = chunk else { unreachable!("nothing here has payload") };
        stream.extend_from_slice(bytes);
    }
    stream
}

fn wire_len(data: &[u8]) -> u32 {
    u32::try_from(data.len()).expect("small")
}

/// The PDUs of a stream without digests: headers and data.
#[cfg(test)]
pub(crate) fn pdus_of(mut stream: &[u8]) -> Vec<([u8; HEADER_LEN], Vec<u8>)> {
    let mut pdus = Vec::new();
    while let Some((header, after)) = stream.split_first_chunk::<HEADER_LEN>() {
        let basic = BasicHeader::ref_from_bytes(header).expect("the head has this header's length");
        let len = length(basic.data_len.get());
        pdus.push((*header, after[..len].to_vec()));
        stream = &after[len + padding_len(len)..];
    }
    pdus
}
