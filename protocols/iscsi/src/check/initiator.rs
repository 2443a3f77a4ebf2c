//! Invalid PDUs from a target, sent to an initiator's session.

use std::sync::Arc;

use nearflash_session::check::{InFlight, Requesting, Trial};
use nearflash_session::{Chunk, Output};
use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

use super::login::{challenge, grant, login_config, offer};
use crate::Digests;
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

const UNIT: u32 = 512;
const TASKS: u16 = 8;
/// A command without data.
const NONE: InFlight = InFlight { buffer: None, len: 0, is_read: false, moved: 0, parts: 0 };
/// CID 1, in the upper half.
const TAG_BASE: u32 = 1 << 16;

/// A session and its commands.
#[derive(Debug)]
struct Bench {
    trial: Trial<InitiatorSession, TaskId>,
    digests: Digests,
    stat_sn: Serial,
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
            trial: Trial::new(InitiatorSession::new(config)),
            digests: Digests::NONE,
            stat_sn: Serial(0),
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
        while !self.trial.end.session.is_ready() {
            let stream = self.trial.end.take_output(usize::MAX);
            let (header, data) = stream.split_first_chunk::<HEADER_LEN>().expect("a request");
            let request =
                LoginRequest::ref_from_bytes(header).expect("the head has this header's length");
            let data = &data[..length(request.data_len.get())];
            let mut output = Output::default();
            let step = target.handle(&access, request, data, &mut output);
            if matches!(step, LoginStep::Demanded(_)) {
                grant(&mut target, &mut output);
            }
            self.trial.feed(&bytes_of(&output));
            let error = &self.trial.end.error;
            assert!(error.is_none(), "a sound target is believed: {error:?}");
        }
        self.stat_sn = target.stat_sn();
    }

    fn follow(&mut self, instruction: [u8; 8]) {
        let [what, a, b, c, d, e, mutation, place] = instruction;
        let id = TaskId(u16::from(b % 8));
        let len = u32::from(a % 40) * UNIT;
        match what % 14 {
            0 | 1 => {
                let buffer = self.trial.end.memory.take(length(len));
                let is_read = what % 14 == 0;
                let data = if is_read {
                    CommandData::Incoming { buffer, len }
                } else {
                    CommandData::Outgoing { buffer, len }
                };
                self.submit(data, InFlight { buffer: Some(buffer), len, is_read, ..NONE });
            }
            2 => self.submit(CommandData::SmallIncoming(len), InFlight { len, ..NONE }),
            3 => {
                let len = u32::from(c) * 63;
                let data = CommandData::SmallOutgoing(vec![a; length(len)]);
                self.submit(data, InFlight { len, ..NONE });
            }
            4 => self.submit(CommandData::None, NONE),
            5 => {
                let status = if d < 192 { 0 } else { e };
                self.respond(id, status, (c & 7, u32::from(a)), [mutation, place]);
            }
            6 | 7 => {
                self.give_data(id, self.trial.part_of(id, len, c, 8192), (d, e), [mutation, place])
            }
            8 => self.ask_for_data(id, self.trial.part_of(id, len, c, 8192), [mutation, place]),
            9 => {
                self.trial.end.take_output(usize::from(a) << (b % 8));
            }
            10 => {
                self.trial.is_sound = false;
                self.trial.feed(&instruction);
            }
            11 => self.manage(a, (b, c), [mutation, place]),
            12 => self.interrupt(a, (b, c), [mutation, place]),
            _ => self.say(a, &[b, c, d, e], [mutation, place]),
        }
        self.take_completions();
        while self.trial.end.session.poll_event().is_some() {}
    }

    /// The session chooses the unsolicited data, which a valid target checks.
    fn submit(&mut self, data: CommandData, command: InFlight) {
        let Requesting { session, memory, .. } = &mut self.trial.end;
        let payload = command.buffer.map_or(&[][..], |buffer| memory.bytes(buffer));
        let id = session.submit(3, &cdb::read(0, 1), data, payload);
        self.trial.submitted(id, command);
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
        header.data_sn = U32::new(self.trial.get(id).map_or(0, |command| command.parts));
        header.offset = U32::new(offset);
        header.residual = U32::new(residual.into());
        header.data_len = DataSegmentLen::new(len);
        self.feed_pdu(header.as_bytes(), &vec![0x11; length(len)], mutation);
        self.trial.count(id, len);
    }

    fn ask_for_data(&mut self, id: TaskId, (offset, len): (u32, u32), mutation: [u8; 2]) {
        let serials = self.serials(false);
        let mut header = R2t::new(LunField::new(3), TAG_BASE | u32::from(id.0), 7, serials);
        header.r2t_sn = U32::new(self.trial.get(id).map_or(0, |command| command.parts));
        header.offset = U32::new(offset);
        header.desired_len = U32::new(len);
        self.feed_pdu(header.as_bytes(), &[], mutation);
        self.trial.count(id, len);
    }

    /// A task management function or a logout, and its answer.
    fn manage(&mut self, what: u8, (function, result): (u8, u8), mutation: [u8; 2]) {
        if what < 16 {
            let _ = self.trial.end.session.logout(LogoutReason(function % 3));
            let serials = self.serials(true);
            let header = LogoutResponse::new(LogoutResult(result % 4), TAG_BASE | 0xFFF2, serials);
            return self.feed_pdu(header.as_bytes(), &[], mutation);
        }
        let task = Some(TaskId(u16::from(what % 8)));
        let _ = self.trial.end.session.manage(TaskFunction(function % 13), 3, task);
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
                let _ = self.trial.end.session.ping();
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
        let _ = self.trial.end.session.send_targets("All");
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
            self.trial.is_sound = false;
        }
        self.trial.feed(&pdu);
    }

    fn take_completions(&mut self) {
        while let Some(completion) = self.trial.end.session.poll_completion() {
            let TaskCompletion { id, ending, moved, data, .. } = completion;
            let len = self.trial.get(id).map_or(0, |command| command.len);
            assert!(data.len() <= length(len) && moved <= len, "no more than was asked for");
            self.trial.completed(id, ending == Ending::Answered(Status::GOOD), Some(moved));
        }
    }

    /// Ends the connection, and checks that no command is missing.
    fn end(mut self) {
        self.trial.end.take_output(usize::MAX);
        self.take_completions();
        self.trial.check_left(self.trial.end.session.in_flight());
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
