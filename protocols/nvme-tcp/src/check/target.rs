//! Invalid streams, sent to a target session in each of its states.

use std::sync::Arc;

use nearflash_nvme::auth::{DhGroup, HostKeys, Key, Names, Policy, RANDOM_LEN, Random};
use nearflash_nvme::fabrics::{Connect, ConnectData};
use nearflash_nvme::serving::{Connected, QueueKind};
use nearflash_nvme::{
    Command, CommandId, CompletionEntry, ControllerId, Fused, IoOpcode, NamespaceEntry,
    NamespaceId, NamespaceTable, Nqn, QueueId, SglDescriptor, Status,
};
use nearflash_request::{
    Change, ChangeKind, ChangeResult, Completion, Identity, Nexus, Outcome, Payload, Registrant,
    Report, Request, ReservationType, Support, VolumeId,
};
use nearflash_units::{Blocks, ByteLen, Lba, Nanos};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

use super::volume::{BLOCK_SIZE, Volume};
use crate::digest::{Digests, digest};
use crate::error::PeerError;
use crate::pdu::{
    CapsuleCmd, CommonHeader, DataAlignment, DataIds, DataPdu, InitPdu, PduFlags, PduType, TermReq,
};
use crate::serving::{Demand, ServingEnd, SessionConfig, TargetSession};
use nearflash_session::Receiving;
use nearflash_session::check::Memory;

const VOLUME_BLOCKS: u64 = 64;
pub(crate) const ENTRIES: u16 = 8;

/// The state of a session before the stream begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stage {
    /// Nothing was received.
    AwaitingIcReq,
    /// The transport's parameters are negotiated.
    AwaitingConnect,
    /// A Connect is in progress.
    Connecting,
    /// An admin queue.
    Admin,
    /// An I/O queue.
    Io,
    /// The session is closing.
    Closing,
    /// An I/O queue whose host must authenticate.
    Authenticating,
}

impl Stage {
    /// All stages.
    pub const ALL: [Self; 7] = [
        Self::AwaitingIcReq,
        Self::AwaitingConnect,
        Self::Connecting,
        Self::Admin,
        Self::Io,
        Self::Closing,
        Self::Authenticating,
    ];
}

/// The names of both ends of an authentication.
pub(crate) fn names() -> Names {
    let nqn = |name: &str| Nqn::new(name).expect("a name");
    Names { host: nqn("nqn.2026-11.test:host"), subsystem: nqn("nqn.2026-11.io.nearflash:data") }
}

/// The host's key. Without a group, an authentication takes microseconds.
pub(crate) fn keys() -> HostKeys {
    let key = Key::new(None, &[7; 32]).expect("a length that keys have");
    let policy = Policy { group: Some(DhGroup::Null), ..Policy::default() };
    HostKeys::new(key, None, policy).expect("only one key")
}

/// A session, its buffers and its demands.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) target: TargetSession,
    pub(crate) memory: Memory,
    volume: Volume,
    pub(crate) demands: Vec<Demand>,
    pub(crate) error: Option<PeerError>,
    /// The host must authenticate.
    pub(crate) authenticates: bool,
}

impl Bench {
    pub(crate) fn new(stage: Stage, digests: Digests, flow_control: bool) -> Self {
        let config = SessionConfig { h2c_data_len_max: 4096, ..SessionConfig::default() };
        let volume_len = usize::try_from(VOLUME_BLOCKS).expect("small") * 512;
        let mut bench = Self {
            target: TargetSession::new(config, Nanos(0)),
            memory: Memory::default(),
            volume: Volume::new(volume_len),
            demands: Vec::new(),
            error: None,
            authenticates: false,
        };
        bench.advance_to(stage, digests, flow_control);
        bench
    }

    fn advance_to(&mut self, stage: Stage, digests: Digests, flow_control: bool) {
        if stage == Stage::AwaitingIcReq {
            return;
        }
        if stage == Stage::Closing {
            return self.target.terminate(PeerError::Sequence(PduType::IC_REQ));
        }
        self.feed(InitPdu::request(DataAlignment(0), digests.into(), 0).as_bytes());
        if stage != Stage::AwaitingConnect {
            let kind = if stage == Stage::Admin { QueueKind::Admin } else { QueueKind::Io };
            self.feed(&connect_pdu(kind, digests, flow_control));
        }
        if matches!(stage, Stage::Admin | Stage::Io | Stage::Authenticating) {
            let kind = if stage == Stage::Admin { QueueKind::Admin } else { QueueKind::Io };
            self.authenticates = stage == Stage::Authenticating;
            self.grant(kind);
        }
        assert_eq!(self.error, None, "the handshake is sound");
        self.drain_output();
    }

    pub(crate) fn grant(&mut self, kind: QueueKind) {
        self.grant_to(kind, asker());
    }

    pub(crate) fn grant_to(&mut self, kind: QueueKind, (nexus, identity): (Nexus, Identity)) {
        let Some(Demand::Connect(demand)) = self.demands.pop() else {
            panic!("a Connect is handed out")
        };
        let entry = CompletionEntry::new(demand.command.command_id(), Status::SUCCESS);
        let namespace = NamespaceEntry {
            volume: VolumeId(7),
            block_size: BLOCK_SIZE,
            blocks: Blocks(VOLUME_BLOCKS),
            support: Support::ALL,
            write_protected: false,
        };
        let namespaces =
            Arc::new(NamespaceTable::new([(NamespaceId(1), namespace)], ByteLen(1 << 20)));
        let queue = demand.command.as_connect().queue;
        let connected = Connected {
            controller: ControllerId(1),
            queue,
            sq_entries: ENTRIES.into(),
            disable_sq_flow_control: false,
            kind,
            namespaces,
            nexus,
            identity,
            authentication: self.authenticates.then(names),
        };
        self.target.handle_connected(entry, Some(connected));
    }

    /// Feeds all of `bytes`, unless the session fails or pauses. Buffers are provided only when the
    /// session cannot continue without one, so that the outcome does not depend on the time at
    /// which they are provided.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        while self.error.is_none() {
            let taken = match self.target.receiving() {
                Receiving::Paused => match self.target.wants_buffer() {
                    Some(len) => {
                        let buffer = self.memory.take(len.to_usize());
                        self.target.provide_buffer(buffer);
                        continue;
                    }
                    None => break,
                },
                _ if bytes.is_empty() => break,
                Receiving::Bytes => match self.target.handle_input(bytes) {
                    Ok(taken) => taken,
                    Err(error) => {
                        assert!(self.target.is_closing(), "an error ends the session");
                        self.error = Some(error);
                        0
                    }
                },
                Receiving::Payload { buffer, offset, len } => {
                    let part = &bytes[..len.min(bytes.len())];
                    let place = offset..offset + part.len();
                    self.memory.bytes_mut(buffer)[place].copy_from_slice(part);
                    self.target.handle_payload(part);
                    part.len()
                }
            };
            bytes = &bytes[taken..];
            self.take_demands();
        }
        self.take_demands();
    }

    fn take_demands(&mut self) {
        while let Some(demand) = self.target.poll_demand() {
            self.demands.push(demand);
        }
    }

    /// Completes every demand, as an engine and a controller would.
    pub(crate) fn answer_all(&mut self) {
        for demand in std::mem::take(&mut self.demands) {
            match demand {
                Demand::Request(request) => self.answer(request),
                Demand::Connect(demand) => {
                    let cid = demand.command.command_id();
                    let entry = CompletionEntry::new(cid, Status::CONNECT_INVALID_HOST);
                    self.target.handle_connected(entry, None);
                }
                Demand::Admin(demand) => {
                    let cid = demand.command.command_id();
                    let entry = CompletionEntry::new(cid, Status::SUCCESS);
                    self.target.handle_admin_response(entry, &[0xC3; 4096]);
                }
                Demand::Change(tag, change) => self.target.handle_change(tag, &made(&change)),
                Demand::Authentication(mut step) => {
                    step.run(Some(&keys()), &Random([7; RANDOM_LEN]));
                    self.target.handle_authentication(*step);
                }
            }
        }
    }

    fn answer(&mut self, request: Request) {
        // One medium error among the successes.
        let broken = request.range.start == Lba(13);
        let mut done = self.volume.complete(request, &mut self.memory);
        if broken && done.payload == Payload::None && done.outcome == Outcome::Success {
            done = Completion { outcome: Outcome::WriteFault, ..done };
        }
        let bytes = match done.payload {
            Payload::Buffer(buffer) => self.memory.bytes(buffer),
            _ => &[],
        };
        self.target.handle_completion(done, bytes);
    }

    /// Takes all of the session's output.
    pub(crate) fn drain_output(&mut self) -> Vec<u8> {
        let mut stream = Vec::new();
        self.target.output().for_each(|chunk| self.memory.append(&mut stream, chunk));
        let memory = &mut self.memory;
        self.target.advance_output(stream.len(), &mut |buffer| memory.give_back(buffer));
        stream
    }

    /// Ends the connection. All buffers must be returned.
    pub(crate) fn end(mut self) {
        let memory = &mut self.memory;
        self.target.release_all(&mut |buffer| memory.give_back(buffer));
        for demand in std::mem::take(&mut self.demands) {
            if let Demand::Request(request) = demand {
                let done = self.volume.complete(request, &mut self.memory);
                if let Payload::Buffer(buffer) = done.payload {
                    self.memory.give_back(buffer);
                }
            }
        }
        assert_eq!(self.memory.taken(), 0, "every buffer is given back");
    }
}

/// The identity of a bench's host.
pub(crate) fn asker() -> (Nexus, Identity) {
    let identity = Identity::Nvme { host_id: [7; 16], controller: 1 };
    (Nexus(7), identity)
}

/// The result of a change on a volume with one registrant, whose state never changes.
pub(crate) fn made(change: &Change) -> ChangeResult {
    if change.kind != ChangeKind::Report {
        return ChangeResult::Done;
    }
    let (nexus, identity) = asker();
    let registrant = Registrant { nexus, identity, key: 9, holds: true };
    ChangeResult::Report(Box::new(Report {
        reservation: Some(ReservationType::WriteExclusive),
        registrants: vec![registrant],
        ..Report::default()
    }))
}

/// Sends arbitrary bytes to a target session. It never panics, never loops endlessly and loses no
/// buffer. The first byte selects the state, the others are the stream.
pub fn check_target_never_panics(input: &[u8]) {
    let Some((selector, stream)) = input.split_first() else { return };
    let (stage, digests, flow_control) = selected(*selector);
    let mut bench = Bench::new(stage, digests, flow_control);
    let (first, second) = stream.split_at(stream.len() / 2);
    bench.feed(first);
    bench.answer_all();
    bench.drain_output();
    bench.feed(second);
    // Half of the demands complete. The rest are lost with the connection.
    let kept = bench.demands.split_off(bench.demands.len() / 2);
    bench.answer_all();
    bench.demands = kept;
    bench.end();
}

/// The state and the parameters that a byte selects.
fn selected(selector: u8) -> (Stage, Digests, bool) {
    let stage = Stage::ALL[usize::from(selector & 7) % Stage::ALL.len()];
    let digests = Digests { header: selector & 8 != 0, data: selector & 16 != 0 };
    (stage, digests, selector & 32 != 0)
}

/// A stream has the same demands, output and error however TCP segments it. `cuts` are the lengths
/// of the segments, repeated cyclically.
pub fn check_segmentation_does_not_matter(selector: u8, stream: &[u8], cuts: &[u8]) {
    let (stage, digests, flow_control) = selected(selector);
    let mut whole = Bench::new(stage, digests, flow_control);
    whole.feed(stream);

    let mut parts = Bench::new(stage, digests, flow_control);
    let mut rest = stream;
    let mut lens = cuts.iter().map(|cut| usize::from(*cut) + 1).cycle();
    while !rest.is_empty() {
        let (part, after) = rest.split_at(lens.next().unwrap_or(1).min(rest.len()));
        parts.feed(part);
        rest = after;
        if parts.target.receiving() == Receiving::Paused {
            break;
        }
    }
    assert_eq!(whole.error, parts.error);
    // The values are too long to print, so `assert_eq` is not used.
    assert!(format!("{:?}", whole.demands) == format!("{:?}", parts.demands), "same demands");
    assert!(whole.drain_output() == parts.drain_output(), "same output");
    whole.end();
    parts.end();
}

/// A stream of mostly valid PDUs. Each eight bytes of `instructions` encode one.
pub fn stream_of(selector: u8, instructions: &[u8]) -> Vec<u8> {
    let (stage, digests, _) = selected(selector);
    let digests = if stage == Stage::AwaitingIcReq { Digests::NONE } else { digests };
    let mut stream = Vec::new();
    for instruction in instructions.chunks_exact(8) {
        let instruction: [u8; 8] = instruction.try_into().expect("chunks of eight");
        append_pdu(&mut stream, instruction, digests);
    }
    stream
}

fn append_pdu(stream: &mut Vec<u8>, instruction: [u8; 8], digests: Digests) {
    let [what, a, b, c, d, e, mutation, place] = instruction;
    let start = stream.len();
    let cid = CommandId(u16::from(b % 16));
    let nsid = NamespaceId(u32::from(c % 4));
    let lba = Lba(u64::from(d % 72));
    let blocks_zero_based = u16::from(a % 12);
    let len = (u32::from(blocks_zero_based) + 1) * 512;
    let fused = if e < 16 {
        Fused::First
    } else if e < 48 {
        Fused::Second
    } else {
        Fused::Normal
    };
    let write = Command::write(nsid, lba, blocks_zero_based, len).with_fused(fused);
    let compare = Command::compare(nsid, lba, blocks_zero_based, len).with_fused(fused);
    let payload = vec![a; usize::try_from(len).expect("small")];
    let (command, data): (Command, &[u8]) = match what % 12 {
        0 => (Command::read(nsid, lba, blocks_zero_based, len), &[]),
        1 => (write, &[]),
        2 => (write.with_capsule_data(len), &payload),
        3 => (compare.with_capsule_data(len), &payload),
        4 => (Command::deallocate(nsid, a % 4), &[]),
        5 => (Command::flush(if a & 1 == 0 { NamespaceId::ALL } else { nsid }), &[]),
        6 => (Command::new(a, nsid).with_transport_data(u32::from(b)), &[]),
        7 if a & 3 == 1 => (Command::reservation_report(nsid, len), &[]),
        7 if a & 3 == 2 => reservation(nsid, [b, c, d, e]),
        7 => (Command::property_get(0x14, 0), &[]),
        8 => (Command { opcode: a, sgl: SglDescriptor::in_capsule(0, len), ..write }, &payload),
        9 => {
            let ids = DataIds { command_id: cid.0, transfer_tag: u16::from(c % 8) };
            let flags = if e & 1 == 0 { PduFlags::LAST } else { PduFlags::default() };
            let data = vec![a; (usize::from(d % 4) + 1) * 16];
            data_pdu(stream, ids, flags, &data, digests);
            return mutate(stream, start, mutation, place);
        }
        10 => {
            stream.extend_from_slice(&instruction);
            return;
        }
        _ => {
            let term = TermReq::new(PduType(a % 12), crate::pdu::FatalStatus::SEQUENCE, 0, 0);
            stream.extend_from_slice(term.as_bytes());
            return;
        }
    };
    capsule(stream, command.with_command_id(cid), data, digests);
    mutate(stream, start, mutation, place);
}

/// A reservation command and its keys.
fn reservation(
    nsid: NamespaceId,
    [which, action, kind, flags]: [u8; 4],
) -> (Command, &'static [u8]) {
    let (opcode, keys): (_, &[u8]) = match which % 3 {
        0 => (IoOpcode::RESERVATION_REGISTER, &[1; 16]),
        1 => (IoOpcode::RESERVATION_ACQUIRE, &[1; 16]),
        _ => (IoOpcode::RESERVATION_RELEASE, &[1; 8]),
    };
    let len = u32::try_from(keys.len()).expect("two keys at most");
    let cdw10 = u32::from_le_bytes([action % 5, kind % 8, 0, flags & 0xC0]);
    (Command::reservation(opcode, nsid, cdw10, len), keys)
}

/// Corrupts one byte in one PDU of eight.
pub(super) fn mutate(stream: &mut [u8], start: usize, mutation: u8, place: u8) {
    let pdu = &mut stream[start..];
    if mutation < 32
        && let Some(byte) = pdu.get_mut(usize::from(place))
    {
        *byte ^= 1 << (mutation % 8);
    }
}

/// Appends a command capsule.
pub(crate) fn capsule(stream: &mut Vec<u8>, command: Command, data: &[u8], digests: Digests) {
    let common = CommonHeader::bare(PduType::CAPSULE_CMD, 72);
    let common = laid_out(common, data.len(), digests);
    append(stream, CapsuleCmd { common, command }.as_bytes(), data, digests);
}

/// Appends an H2CData whose data starts at offset 0 of the command's data.
pub(crate) fn data_pdu(
    stream: &mut Vec<u8>,
    ids: DataIds,
    flags: PduFlags,
    data: &[u8],
    digests: Digests,
) {
    let mut common = laid_out(CommonHeader::bare(PduType::H2C_DATA, 24), data.len(), digests);
    common.flags = common.flags.with(flags);
    let len = u32::try_from(data.len()).expect("small");
    append(stream, DataPdu::new(common, ids, 0, len).as_bytes(), data, digests);
}

pub(super) fn laid_out(
    mut common: CommonHeader,
    data_len: usize,
    digests: Digests,
) -> CommonHeader {
    let head_len = usize::from(common.header_len) + digests.header_len();
    if digests.header {
        common.flags = common.flags.with(PduFlags::HEADER_DIGEST);
    }
    let mut pdu_len = head_len;
    if data_len > 0 {
        common.data_offset = u8::try_from(head_len).expect("at most 76");
        pdu_len += data_len + digests.data_len();
        if digests.data {
            common.flags = common.flags.with(PduFlags::DATA_DIGEST);
        }
    }
    common.pdu_len = U32::new(u32::try_from(pdu_len).expect("small"));
    common
}

pub(super) fn append(stream: &mut Vec<u8>, header: &[u8], data: &[u8], digests: Digests) {
    stream.extend_from_slice(header);
    if digests.header {
        stream.extend_from_slice(&digest(header).to_le_bytes());
    }
    stream.extend_from_slice(data);
    if digests.data && !data.is_empty() {
        stream.extend_from_slice(&digest(data).to_le_bytes());
    }
}

pub(crate) fn connect_pdu(kind: QueueKind, digests: Digests, flow_control: bool) -> Vec<u8> {
    let connect = Connect {
        queue: QueueId(if kind == QueueKind::Admin { 0 } else { 1 }),
        queue_entries_zero_based: ENTRIES - 1,
        attributes: if flow_control { 0 } else { Connect::DISABLE_SQ_FLOW_CONTROL },
        ..Connect::default()
    };
    let name = Nqn::discovery();
    let data = ConnectData::new(uuid::Uuid::nil(), ControllerId(1), &name, &name);
    let mut stream = Vec::new();
    capsule(&mut stream, connect.to_command(), data.as_bytes(), digests);
    stream
}
