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
    Change, ChangeKind, ChangeResult, Completion, Identity, Nexus, Operation, Outcome, Payload,
    Registrant, Report, Request, ReservationType, Support, VolumeId,
};
use nearflash_session::check::{Serving, Volume, in_parts};
use nearflash_units::{BlockSize, Blocks, ByteLen, Lba, Nanos};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

use crate::digest::{Digests, digest};
use crate::error::PeerError;
use crate::pdu::{
    CapsuleCmd, CommonHeader, DataAlignment, DataIds, DataPdu, InitPdu, PduFlags, PduType, TermReq,
};
use crate::serving::{Demand, SessionConfig, TargetSession};

const VOLUME_BLOCKS: usize = 64;
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

/// A volume that does what NVMe commands ask for.
pub(super) fn volume(blocks: usize) -> Volume {
    Volume::new(blocks * 512, BlockSize::B512, |operation| {
        matches!(
            operation,
            Operation::Read
                | Operation::Write { .. }
                | Operation::WriteZeroes { .. }
                | Operation::Deallocate { .. }
                | Operation::Compare { .. }
                | Operation::CompareAndWrite { .. }
                | Operation::Flush
        )
    })
}

/// The table of a controller that has this volume as its only namespace.
pub(super) fn namespaces(blocks: usize) -> Arc<NamespaceTable> {
    let namespace = NamespaceEntry {
        volume: VolumeId(7),
        block_size: BlockSize::B512,
        blocks: Blocks(u64::try_from(blocks).expect("few blocks")),
        support: Support::ALL,
        write_protected: false,
    };
    Arc::new(NamespaceTable::new([(NamespaceId(1), namespace)], ByteLen(1 << 20)))
}

/// A session and its demands.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) end: Serving<TargetSession>,
    volume: Volume,
    pub(crate) demands: Vec<Demand>,
    /// The host must authenticate.
    pub(crate) authenticates: bool,
}

impl Bench {
    pub(crate) fn new(stage: Stage, digests: Digests, flow_control: bool) -> Self {
        let config = SessionConfig { h2c_data_len_max: 4096, ..SessionConfig::default() };
        let mut bench = Self {
            end: Serving::new(TargetSession::new(config, Nanos(0))),
            volume: volume(VOLUME_BLOCKS),
            demands: Vec::new(),
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
            return self.end.session.terminate(PeerError::Sequence(PduType::IC_REQ));
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
        assert_eq!(self.end.error, None, "the handshake is sound");
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
        let queue = demand.command.as_connect().queue;
        let connected = Connected {
            controller: ControllerId(1),
            queue,
            sq_entries: ENTRIES.into(),
            disable_sq_flow_control: false,
            kind,
            namespaces: namespaces(VOLUME_BLOCKS),
            nexus,
            identity,
            authentication: self.authenticates.then(names),
        };
        self.end.session.handle_connected(entry, Some(connected));
    }

    /// Feeds all of `bytes`, unless the session fails or pauses. Buffers are provided only when the
    /// session cannot continue without one, so that the outcome does not depend on the time at
    /// which they are provided.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        loop {
            match self.end.receive(bytes) {
                Some(_) if bytes.is_empty() => break,
                Some(taken) => bytes = &bytes[taken..],
                None if self.end.provide_buffer() => {}
                None => break,
            }
            self.take_demands();
        }
        self.take_demands();
    }

    fn take_demands(&mut self) {
        while let Some(demand) = self.end.session.poll_demand() {
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
                    self.end.session.handle_connected(entry, None);
                }
                Demand::Admin(demand) => {
                    let cid = demand.command.command_id();
                    let entry = CompletionEntry::new(cid, Status::SUCCESS);
                    self.end.session.handle_admin_response(entry, &[0xC3; 4096]);
                }
                Demand::Change(tag, change) => self.end.session.handle_change(tag, &made(&change)),
                Demand::Authentication(mut step) => {
                    step.run(Some(&keys()), &Random([7; RANDOM_LEN]));
                    self.end.session.handle_authentication(*step);
                }
            }
        }
    }

    fn answer(&mut self, request: Request) {
        // One medium error among the successes.
        let broken = request.range.start == Lba(13);
        let mut done = self.volume.complete(request, &mut self.end.memory);
        if broken && done.payload == Payload::None && done.outcome == Outcome::Success {
            done = Completion { outcome: Outcome::WriteFault, ..done };
        }
        self.end.handle_completion(done);
    }

    /// Takes all of the session's output.
    pub(crate) fn drain_output(&mut self) -> Vec<u8> {
        self.end.take_output(usize::MAX)
    }

    /// Ends the connection. All buffers must be returned.
    pub(crate) fn end(mut self) {
        let requests = self.demands.into_iter().filter_map(|demand| match demand {
            Demand::Request(request) => Some(request),
            _ => None,
        });
        self.end.end(requests, &mut self.volume);
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
    in_parts(stream, cuts, |part| parts.feed(part));
    assert_eq!(whole.end.error, parts.end.error);
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
