//! Invalid PDUs from a controller, sent to a host session.

use std::collections::BTreeMap;

use nearflash_nvme::{Command, CommandId, CompletionEntry, ControllerId, NamespaceId};
use nearflash_nvme::{Nqn, QueueId, Status};
use nearflash_request::BufferId;
use zerocopy::IntoBytes;

use super::target::{append, laid_out, mutate};
use crate::digest::Digests;
use crate::error::PeerError;
use crate::host::{CommandData, HostCompletion, HostConfig, HostSession};
use crate::pdu::{
    CapsuleResp, CommonHeader, DataAlignment, DataIds, DataPdu, FatalStatus, InitPdu, PduFlags,
    PduType, TermReq,
};
use nearflash_session::Receiving;
use nearflash_session::check::Memory;

const NSID: NamespaceId = NamespaceId(1);
const UNIT: u32 = 512;

/// The expected state of a command in flight.
#[derive(Debug)]
struct InFlight {
    buffer: Option<BufferId>,
    len: u32,
    /// The offset that a conforming controller sends next.
    moved: u32,
    /// Whether the data is received into `buffer`.
    is_read: bool,
}

/// A session, its buffers and its commands.
#[derive(Debug)]
struct Bench {
    host: HostSession,
    memory: Memory,
    digests: Digests,
    in_flight: BTreeMap<CommandId, InFlight>,
    error: Option<PeerError>,
    /// Whether only complete PDUs were sent, so that the data of a read is known.
    is_sound: bool,
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
        let mut bench = Self {
            host: HostSession::new(config),
            memory: Memory::default(),
            digests,
            in_flight: BTreeMap::new(),
            error: None,
            is_sound: true,
        };
        // Most inputs complete the handshake.
        if selector & 0xC0 == 0 {
            bench.digests = Digests::NONE;
        } else {
            bench.accept(DataAlignment(if selector & 16 != 0 { 31 } else { 0 }));
        }
        bench
    }

    fn accept(&mut self, alignment: DataAlignment) {
        self.send(usize::MAX);
        self.feed(InitPdu::response(alignment, self.digests.into(), 4096).as_bytes());
        self.respond(CompletionEntry::with_result(CommandId(0), Status::SUCCESS, 1), [0xFF; 2]);
        assert!(self.host.is_ready(), "a sound controller is believed: {:?}", self.error);
    }

    fn follow(&mut self, instruction: [u8; 8]) {
        let [what, a, b, c, d, e, mutation, place] = instruction;
        let cid = CommandId(u16::from(b % 8));
        let len = u32::from(a % 20) * UNIT;
        match what % 12 {
            0 => self.submit_read(len),
            1 => self.submit_write(len),
            2 => self.submit_small(CommandData::SmallIncoming(len)),
            3 => self.submit_small(CommandData::SmallOutgoing(vec![a; usize::from(c) * 64])),
            4 => self.submit_small(CommandData::None),
            5 => {
                let status = if d < 192 { Status::SUCCESS } else { Status(u16::from(e)) };
                self.respond(CompletionEntry::new(cid, status), [mutation, place]);
            }
            6 | 7 => {
                let flags = PduFlags(if e < 192 { 0xC } else { e } & 0xC);
                self.give_data(cid, self.part_of(cid, len, c), flags, [mutation, place]);
            }
            8 => self.ask_for_data(cid, self.part_of(cid, len, c), [mutation, place]),
            9 => self.send(usize::from(a) << (b % 8)),
            10 => {
                self.is_sound = false;
                self.feed(&instruction);
            }
            _ => {
                let request = TermReq::new(PduType(a), FatalStatus::SEQUENCE, u32::from(b), 0);
                self.feed(request.as_bytes());
            }
        }
        while let Some(completion) = self.host.poll_completion() {
            self.check_completion(&completion);
        }
    }

    /// An offset and a length: usually the part that a conforming controller sends next.
    fn part_of(&self, cid: CommandId, len: u32, choice: u8) -> (u32, u32) {
        let command = self.in_flight.get(&cid);
        let (moved, all) = command.map_or((0, UNIT), |command| (command.moved, command.len));
        match choice {
            0..128 => (moved, all - moved),
            128..224 => (moved, len.min(all - moved)),
            224..240 => (moved, len),
            _ => (u32::from(choice) * UNIT, len),
        }
    }

    fn submit_read(&mut self, len: u32) {
        let buffer = self.memory.take(length(len));
        self.submit(CommandData::Incoming { buffer, len }, Some(buffer));
    }

    fn submit_write(&mut self, len: u32) {
        let buffer = self.memory.take(length(len));
        self.submit(CommandData::Outgoing { buffer, len }, Some(buffer));
    }

    fn submit_small(&mut self, data: CommandData) {
        self.submit(data, None);
    }

    fn submit(&mut self, data: CommandData, buffer: Option<BufferId>) {
        let payload = buffer.map_or(&[][..], |buffer| self.memory.bytes(buffer));
        let len = match &data {
            CommandData::None => 0,
            CommandData::Incoming { len, .. }
            | CommandData::Outgoing { len, .. }
            | CommandData::SmallIncoming(len) => *len,
            CommandData::SmallOutgoing(bytes) => u32::try_from(bytes.len()).expect("small"),
        };
        let is_read = matches!(data, CommandData::Incoming { .. });
        match self.host.submit(&Command::new(0x7F, NSID), data, payload) {
            Ok(cid) => {
                let command = InFlight { buffer, len, moved: 0, is_read };
                let twin = self.in_flight.insert(cid, command);
                assert!(twin.is_none(), "{cid:?} names one command in flight");
            }
            Err(_) => {
                if let Some(buffer) = buffer {
                    self.memory.give_back(buffer);
                }
            }
        }
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
        self.count(cid, len);
    }

    fn ask_for_data(&mut self, cid: CommandId, (offset, len): (u32, u32), mutation: [u8; 2]) {
        let ids = DataIds { command_id: cid.0, transfer_tag: 7 };
        let mut pdu = DataPdu::r2t(ids, offset, len);
        pdu.common = laid_out(pdu.common, 0, self.digests);
        self.feed_pdu(pdu.as_bytes(), &[], mutation);
        self.count(cid, len);
    }

    fn count(&mut self, cid: CommandId, len: u32) {
        if let Some(command) = self.in_flight.get_mut(&cid) {
            command.moved = command.moved.saturating_add(len).min(command.len);
        }
    }

    fn feed_pdu(&mut self, header: &[u8], data: &[u8], [mutation, place]: [u8; 2]) {
        let mut pdu = Vec::new();
        append(&mut pdu, header, data, self.digests);
        mutate(&mut pdu, 0, mutation, place);
        self.feed(&pdu);
    }

    /// Feeds all of `bytes`, unless the session fails or pauses.
    fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.error.is_none() {
            let taken = match self.host.receiving() {
                Receiving::Paused => {
                    // The PDU is cut off here.
                    self.is_sound = false;
                    break;
                }
                Receiving::Bytes => match self.host.handle_input(bytes) {
                    Ok(taken) => taken,
                    Err(error) => {
                        assert!(self.host.is_closing(), "an error ends the session");
                        self.error = Some(error);
                        0
                    }
                },
                Receiving::Payload { buffer, offset, len } => {
                    let part = &bytes[..len.min(bytes.len())];
                    let place = offset..offset + part.len();
                    self.memory.bytes_mut(buffer)[place].copy_from_slice(part);
                    self.host.handle_payload(part);
                    part.len()
                }
            };
            bytes = &bytes[taken..];
        }
    }

    /// Sends at most `len` bytes of the session's output.
    fn send(&mut self, len: usize) {
        while let Some(part) = self.host.wants_payload() {
            let bytes = &self.memory.bytes(part.buffer)[part.offset..][..part.len];
            self.host.provide_payload(bytes);
        }
        let mut stream = Vec::new();
        self.host.output().for_each(|chunk| self.memory.append(&mut stream, chunk));
        assert_eq!(stream.len(), self.host.output_len());
        self.host.advance_output(stream.len().min(len));
    }

    fn check_completion(&mut self, completion: &HostCompletion) {
        let command = self.in_flight.remove(&completion.cid).expect("it ends once");
        assert!(completion.data.len() <= length(command.len), "no more than was asked for");
        let Some(buffer) = command.buffer else { return };
        if command.is_read && completion.entry.status().is_success() && self.is_sound {
            let received = !self.memory.bytes(buffer).contains(&0xA5);
            assert!(received, "a read that succeeds has all its data");
        }
        self.memory.give_back(buffer);
    }

    /// Ends the connection. Every command must have completed or be reported as in flight.
    fn end(mut self) {
        self.send(usize::MAX);
        while let Some(completion) = self.host.poll_completion() {
            self.check_completion(&completion);
        }
        if self.host.connect_response().is_some() {
            let left: Vec<CommandId> = self.host.in_flight().collect();
            let expected: Vec<CommandId> = self.in_flight.keys().copied().collect();
            assert_eq!(left, expected, "what never completes is named");
        }
    }
}

fn length(len: u32) -> usize {
    usize::try_from(len).expect("usize is at least 32 bits wide")
}
