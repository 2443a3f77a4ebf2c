//! Invalid PDUs from a controller, sent to a host session.

use nearflash_nvme::{Command, CommandId, CompletionEntry, ControllerId, NamespaceId};
use nearflash_nvme::{Nqn, QueueId, Status};
use nearflash_session::check::{InFlight, Requesting, Trial};
use zerocopy::IntoBytes;

use super::target::{append, laid_out, mutate};
use crate::digest::Digests;
use crate::host::{CommandData, HostCompletion, HostConfig, HostSession};
use crate::length;
use crate::pdu::{
    CapsuleResp, CommonHeader, DataAlignment, DataIds, DataPdu, FatalStatus, InitPdu, PduFlags,
    PduType, TermReq,
};

const NSID: NamespaceId = NamespaceId(1);
const UNIT: u32 = 512;
/// A command without data.
const NONE: InFlight = InFlight { buffer: None, len: 0, is_read: false, moved: 0, parts: 0 };

/// A session and its commands.
#[derive(Debug)]
struct Bench {
    trial: Trial<HostSession, CommandId>,
    digests: Digests,
}

/// Sends arbitrary PDUs to a host session. It never panics and never loops endlessly. Every command
/// completes once or is reported as in flight at the end, and no read succeeds without its data.
///
/// The first byte selects the connection's parameters. Each following group of eight bytes is one
/// instruction.
pub fn check_host_never_panics(input: &[u8]) {
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
        let config = HostConfig {
            digests,
            alignment: DataAlignment(0),
            queue: QueueId(1),
            sq_entries: 8,
            flow_control: selector & 4 != 0,
            in_capsule_len_max: if selector & 8 != 0 { 4096 } else { 0 },
            controller: ControllerId(1),
            keep_alive_ms: 0,
            host_id: uuid::Uuid::nil(),
            host: Nqn::discovery(),
            subsystem: Nqn::discovery(),
        };
        let mut bench = Self { trial: Trial::new(HostSession::new(config)), digests };
        // Most inputs complete the handshake.
        if selector & 0xC0 == 0 {
            bench.digests = Digests::NONE;
        } else {
            bench.accept(DataAlignment(if selector & 16 != 0 { 31 } else { 0 }));
        }
        bench
    }

    fn accept(&mut self, alignment: DataAlignment) {
        self.trial.end.take_output(usize::MAX);
        self.trial.feed(InitPdu::response(alignment, self.digests.into(), 4096).as_bytes());
        self.respond(CompletionEntry::with_result(CommandId(0), Status::SUCCESS, 1), [0xFF; 2]);
        let Requesting { session, error, .. } = &self.trial.end;
        assert!(session.is_ready(), "a sound controller is believed: {error:?}");
    }

    fn follow(&mut self, instruction: [u8; 8]) {
        let [what, a, b, c, d, e, mutation, place] = instruction;
        let cid = CommandId(u16::from(b % 8));
        let len = u32::from(a % 20) * UNIT;
        match what % 12 {
            0 | 1 => {
                let buffer = self.trial.end.memory.take(length(len));
                let is_read = what % 12 == 0;
                let data = if is_read {
                    CommandData::Incoming { buffer, len }
                } else {
                    CommandData::Outgoing { buffer, len }
                };
                self.submit(data, InFlight { buffer: Some(buffer), len, is_read, ..NONE });
            }
            2 => self.submit(CommandData::SmallIncoming(len), InFlight { len, ..NONE }),
            3 => {
                let len = u32::from(c) * 64;
                let data = CommandData::SmallOutgoing(vec![a; length(len)]);
                self.submit(data, InFlight { len, ..NONE });
            }
            4 => self.submit(CommandData::None, NONE),
            5 => {
                let status = if d < 192 { Status::SUCCESS } else { Status(u16::from(e)) };
                self.respond(CompletionEntry::new(cid, status), [mutation, place]);
            }
            6 | 7 => {
                let flags = PduFlags(if e < 192 { 0xC } else { e } & 0xC);
                self.give_data(
                    cid,
                    self.trial.part_of(cid, len, c, u32::MAX),
                    flags,
                    [mutation, place],
                );
            }
            8 => {
                self.ask_for_data(cid, self.trial.part_of(cid, len, c, u32::MAX), [mutation, place])
            }
            9 => {
                self.trial.end.take_output(usize::from(a) << (b % 8));
            }
            10 => {
                self.trial.is_sound = false;
                self.trial.feed(&instruction);
            }
            _ => {
                let request = TermReq::new(PduType(a), FatalStatus::SEQUENCE, u32::from(b), 0);
                self.trial.feed(request.as_bytes());
            }
        }
        self.take_completions();
    }

    fn submit(&mut self, data: CommandData, command: InFlight) {
        let Requesting { session, memory, .. } = &mut self.trial.end;
        let payload = command.buffer.map_or(&[][..], |buffer| memory.bytes(buffer));
        let cid = session.submit(&Command::new(0x7F, NSID), data, payload);
        self.trial.submitted(cid, command);
    }

    fn respond(&mut self, entry: CompletionEntry, mutation: [u8; 2]) {
        let common = laid_out(CommonHeader::bare(PduType::CAPSULE_RESP, 24), 0, self.digests);
        self.feed_pdu(CapsuleResp { common, entry }.as_bytes(), &[], mutation);
    }

    fn give_data(
        &mut self,
        cid: CommandId,
        (offset, len): (u32, u32),
        flags: PduFlags,
        mutation: [u8; 2],
    ) {
        // A single flipped bit does not turn these bytes into the contents of a fresh buffer.
        let data = vec![0; length(len)];
        let bare = CommonHeader::bare(PduType::C2H_DATA, 24);
        let mut common = laid_out(bare, data.len(), self.digests);
        common.flags = common.flags.with(flags);
        let ids = DataIds { command_id: cid.0, transfer_tag: 0 };
        self.feed_pdu(DataPdu::new(common, ids, offset, len).as_bytes(), &data, mutation);
        self.trial.count(cid, len);
    }

    fn ask_for_data(&mut self, cid: CommandId, (offset, len): (u32, u32), mutation: [u8; 2]) {
        let ids = DataIds { command_id: cid.0, transfer_tag: 7 };
        let mut pdu = DataPdu::r2t(ids, offset, len);
        pdu.common = laid_out(pdu.common, 0, self.digests);
        self.feed_pdu(pdu.as_bytes(), &[], mutation);
        self.trial.count(cid, len);
    }

    fn feed_pdu(&mut self, header: &[u8], data: &[u8], [mutation, place]: [u8; 2]) {
        let mut pdu = Vec::new();
        append(&mut pdu, header, data, self.digests);
        mutate(&mut pdu, 0, mutation, place);
        self.trial.feed(&pdu);
    }

    fn take_completions(&mut self) {
        while let Some(completion) = self.trial.end.session.poll_completion() {
            let HostCompletion { cid, entry, data } = completion;
            let len = self.trial.get(cid).map_or(0, |command| command.len);
            assert!(data.len() <= length(len), "no more than was asked for");
            self.trial.completed(cid, entry.status().is_success(), None);
        }
    }

    /// Ends the connection. Every command must have completed or be reported as in flight.
    fn end(mut self) {
        self.trial.end.take_output(usize::MAX);
        self.take_completions();
        let host = &self.trial.end.session;
        if host.connect_response().is_some() {
            self.trial.check_left(host.in_flight());
        }
    }
}
