//! A host and a target session, connected to each other and to a volume in memory.

use std::collections::HashMap;
use std::sync::Arc;

use nearflash_nvme::serving::{Connected, QueueKind};
use nearflash_nvme::{
    Command, CommandId, CompletionEntry, ControllerId, DsmRange, Fused, NamespaceEntry,
    NamespaceId, NamespaceTable, Nqn, QueueId, Status,
};
use nearflash_request::{BlockRange, BufferId, Payload, Request, Support, VolumeId};
use nearflash_units::{Blocks, ByteLen, Lba, Nanos};
use zerocopy::IntoBytes;

use super::target::asker;
use super::volume::{BLOCK_SIZE, Volume};
use crate::digest::Digests;
use crate::host::{CommandData, HostCompletion, HostConfig, HostSession};
use crate::pdu::DataAlignment;
use crate::serving::{Demand, ServingEnd, SessionConfig, TargetSession};
use nearflash_session::Receiving;
use nearflash_session::check::Choices;
use nearflash_session::check::Memory;

const NSID: NamespaceId = NamespaceId(1);
/// Parts of the volume; at most one operation is in flight in each.
const PLACES: usize = 12;
const PLACE_BLOCKS: usize = 48;
const BLOCK_LEN: usize = 512;
const PLACE_LEN: usize = PLACE_BLOCKS * BLOCK_LEN;

/// The parameters of a connection and its workload.
#[derive(Clone, Copy, Debug)]
pub struct PairScenario {
    /// The seed for the operations, the order of completions and the segmentation of the streams.
    pub seed: u64,
    /// The digests that both ends request.
    pub digests: Digests,
    /// Whether SQ flow control is enabled.
    pub flow_control: bool,
    /// The maximum in-capsule data for both ends. Below 512 every write needs an R2T.
    pub in_capsule_len_max: u32,
    /// HPDA and CPDA.
    pub alignment: u8,
    /// The number of operations.
    pub operations: usize,
}

/// The expected effect and status of an operation in flight.
#[derive(Debug)]
struct Expected {
    place: usize,
    status: Status,
    /// The buffer that must hold the place's bytes, from this block on, after completion.
    read: Option<(BufferId, usize)>,
    buffer: Option<BufferId>,
}

struct Pair {
    choices: Choices,
    host: HostSession,
    host_memory: Memory,
    /// The expected contents of the volume.
    model: Vec<u8>,
    expected: HashMap<CommandId, Expected>,
    /// Commands in flight in each place.
    busy: [usize; PLACES],
    target: TargetSession,
    target_memory: Memory,
    volume: Volume,
    requests: Vec<Request>,
    to_target: Vec<u8>,
    to_host: Vec<u8>,
    namespaces: Arc<NamespaceTable>,
    entries: u16,
}

/// Runs random operations, with completions in random order and random segmentation of the streams.
/// Reads return the data written, every command completes once with its expected status, and all
/// buffers are returned.
pub fn check_pair(scenario: PairScenario) {
    let mut pair = Pair::new(scenario);
    pair.connect();
    let mut left = scenario.operations;
    while left > 0 || pair.host.commands_in_flight() > 0 {
        if left > 0 && pair.choices.once_in(2) && pair.submit() {
            left -= 1;
        }
        pair.turn();
    }
    pair.check_over();
}

impl Pair {
    fn new(scenario: PairScenario) -> Self {
        let entries = 16;
        let entry = NamespaceEntry {
            volume: VolumeId(7),
            block_size: BLOCK_SIZE,
            blocks: BLOCK_SIZE.blocks_in(ByteLen::from_usize(PLACES * PLACE_LEN)),
            support: Support::ALL,
            write_protected: false,
        };
        let target_config = SessionConfig {
            in_capsule_len_max: scenario.in_capsule_len_max,
            h2c_data_len_max: 4096,
            digests: scenario.digests,
            alignment: DataAlignment(scenario.alignment),
            ..SessionConfig::default()
        };
        let host_config = HostConfig {
            digests: scenario.digests,
            alignment: DataAlignment(scenario.alignment),
            queue: QueueId(1),
            sq_entries: entries,
            flow_control: scenario.flow_control,
            in_capsule_len_max: scenario.in_capsule_len_max,
            controller: ControllerId(1),
            keep_alive_ms: 0,
            host_id: uuid::Uuid::nil(),
            host: Nqn::new("nqn.2026-11.io.nearflash:host").expect("a name"),
            subsystem: Nqn::new("nqn.2026-11.io.nearflash:data").expect("a name"),
        };
        Self {
            choices: Choices::new(scenario.seed),
            host: HostSession::new(host_config),
            host_memory: Memory::default(),
            model: vec![0; PLACES * PLACE_LEN],
            expected: HashMap::new(),
            busy: [0; PLACES],
            target: TargetSession::new(target_config, Nanos(0)),
            target_memory: Memory::default(),
            volume: Volume::new(PLACES * PLACE_LEN),
            requests: Vec::new(),
            to_target: Vec::new(),
            to_host: Vec::new(),
            namespaces: Arc::new(NamespaceTable::new([(NSID, entry)], ByteLen(1 << 20))),
            entries,
        }
    }

    fn connect(&mut self) {
        while !self.host.is_ready() {
            self.turn();
            assert!(!self.host.is_closing(), "the host is admitted");
        }
        assert_eq!(self.target.handle_timeout(Nanos(u64::MAX)), Ok(()), "the handshake is over");
    }

    /// A random amount of each step.
    fn turn(&mut self) {
        self.send();
        self.receive_at_target();
        self.take_demands();
        if !self.requests.is_empty() && self.choices.once_in(2) {
            self.complete_request();
        }
        self.receive_at_host();
        while let Some(completion) = self.host.poll_completion() {
            self.check_completion(&completion);
        }
    }

    fn send(&mut self) {
        while let Some(part) = self.host.wants_payload() {
            let bytes = &self.host_memory.bytes(part.buffer)[part.offset..][..part.len];
            self.host.provide_payload(bytes);
        }
        let mut stream = Vec::new();
        self.host.output().for_each(|chunk| self.host_memory.append(&mut stream, chunk));
        assert_eq!(stream.len(), self.host.output_len());
        let sent = self.choices.below(stream.len() + 1);
        self.to_target.extend_from_slice(&stream[..sent]);
        self.host.advance_output(sent);

        stream.clear();
        self.target.output().for_each(|chunk| self.target_memory.append(&mut stream, chunk));
        assert_eq!(stream.len(), self.target.output_len());
        let sent = self.choices.below(stream.len() + 1);
        self.to_host.extend_from_slice(&stream[..sent]);
        let memory = &mut self.target_memory;
        self.target.advance_output(sent, &mut |buffer| memory.give_back(buffer));
    }

    fn receive_at_target(&mut self) {
        let mut left = self.choices.below(self.to_target.len() + 1);
        loop {
            if let Some(len) = self.target.wants_buffer() {
                // The pool is sometimes empty.
                if self.choices.once_in(3) {
                    let buffer = self.target_memory.take(len.to_usize());
                    self.target.provide_buffer(buffer);
                }
            }
            let bytes = &self.to_target[..left];
            let taken = match self.target.receiving() {
                Receiving::Paused => return,
                _ if left == 0 => return,
                Receiving::Bytes => self.target.handle_input(bytes).expect("the host is sound"),
                Receiving::Payload { buffer, offset, len } => {
                    let part = &bytes[..len.min(bytes.len())];
                    let place = offset..offset + part.len();
                    self.target_memory.bytes_mut(buffer)[place].copy_from_slice(part);
                    self.target.handle_payload(part);
                    part.len()
                }
            };
            left -= taken;
            self.to_target.drain(..taken);
        }
    }

    fn receive_at_host(&mut self) {
        let mut left = self.choices.below(self.to_host.len() + 1);
        while left > 0 {
            let bytes = &self.to_host[..left];
            let taken = match self.host.receiving() {
                Receiving::Paused => return,
                Receiving::Bytes => self.host.handle_input(bytes).expect("the target is sound"),
                Receiving::Payload { buffer, offset, len } => {
                    let part = &bytes[..len.min(bytes.len())];
                    let place = offset..offset + part.len();
                    self.host_memory.bytes_mut(buffer)[place].copy_from_slice(part);
                    self.host.handle_payload(part);
                    part.len()
                }
            };
            left -= taken;
            self.to_host.drain(..taken);
        }
    }

    fn take_demands(&mut self) {
        while let Some(demand) = self.target.poll_demand() {
            match demand {
                Demand::Request(request) => self.requests.push(request),
                Demand::Connect(demand) => {
                    assert_eq!(demand.data.subsystem.get(), Ok(self.host_subsystem()));
                    let cid = demand.command.command_id();
                    let entry = CompletionEntry::with_result(cid, Status::SUCCESS, 1);
                    let (nexus, identity) = asker();
                    let connected = Connected {
                        controller: ControllerId(1),
                        queue: demand.command.as_connect().queue,
                        sq_entries: self.entries.into(),
                        disable_sq_flow_control: false,
                        kind: QueueKind::Io,
                        namespaces: Arc::clone(&self.namespaces),
                        nexus,
                        identity,
                        authentication: None,
                    };
                    self.target.handle_connected(entry, Some(connected));
                }
                Demand::Change(_, change) => panic!("no command for it: {change:?}"),
                Demand::Admin(demand) => panic!("no admin queue: {demand:?}"),
                Demand::Authentication(step) => panic!("it need not authenticate: {step:?}"),
            }
        }
    }

    fn host_subsystem(&self) -> Nqn {
        Nqn::new("nqn.2026-11.io.nearflash:data").expect("a name")
    }

    fn complete_request(&mut self) {
        let request = self.requests.swap_remove(self.choices.below(self.requests.len()));
        let done = self.volume.complete(request, &mut self.target_memory);
        let bytes = match done.payload {
            Payload::Buffer(buffer) if self.target.wants_payload_bytes() => {
                self.target_memory.bytes(buffer)
            }
            _ => &[],
        };
        self.target.handle_completion(done, bytes);
    }

    /// Submits one operation in an idle place. Returns `false` if the chosen place is busy or the
    /// queue is full.
    fn submit(&mut self) -> bool {
        let place = self.choices.below(PLACES);
        let room = usize::from(self.entries) - 1 - self.host.commands_in_flight();
        if self.busy[place] > 0 || room < 2 {
            return false;
        }
        let first = self.choices.below(PLACE_BLOCKS);
        let blocks = 1 + self.choices.below(PLACE_BLOCKS - first);
        let run = Run { place, first, blocks };
        match self.choices.below(9) {
            0..=2 => self.submit_read(run),
            3 | 4 => self.submit_write(run),
            5 => self.submit_compare(run),
            6 => self.submit_compare_and_write(run),
            7 => self.submit_clear(run),
            _ => self.submit_flush(place),
        }
        true
    }

    fn submit_command(&mut self, command: Command, data: CommandData, expected: Expected) {
        self.busy[expected.place] += 1;
        let bytes = match &data {
            CommandData::Outgoing { buffer, .. } => self.host_memory.bytes(*buffer),
            _ => &[],
        };
        let cid = self.host.submit(&command, data, bytes).expect("there is room");
        let twin = self.expected.insert(cid, expected);
        assert!(twin.is_none(), "{cid:?} names one command in flight");
    }

    fn submit_read(&mut self, run: Run) {
        let buffer = self.host_memory.take(run.len());
        let command = Command::read(NSID, run.lba(), run.zero_based(), run.len_u32());
        let data = CommandData::Incoming { buffer, len: run.len_u32() };
        let read = Some((buffer, run.first));
        let expected =
            Expected { place: run.place, status: Status::SUCCESS, read, buffer: Some(buffer) };
        self.submit_command(command, data, expected);
    }

    /// A buffer with new bytes.
    fn fill(&mut self, run: Run) -> BufferId {
        let buffer = self.host_memory.take(run.len());
        let value = self.choices.any().to_le_bytes();
        for (byte, value) in self.host_memory.bytes_mut(buffer).iter_mut().zip(value.iter().cycle())
        {
            *byte = *value;
        }
        buffer
    }

    fn submit_from_host(&mut self, command: Command, run: Run, buffer: BufferId, status: Status) {
        let data = CommandData::Outgoing { buffer, len: run.len_u32() };
        let expected = Expected { place: run.place, status, read: None, buffer: Some(buffer) };
        self.submit_command(command, data, expected);
    }

    fn submit_write(&mut self, run: Run) {
        let buffer = self.fill(run);
        self.model[run.bytes()].copy_from_slice(self.host_memory.bytes(buffer));
        let command = Command::write(NSID, run.lba(), run.zero_based(), run.len_u32());
        self.submit_from_host(command, run, buffer, Status::SUCCESS);
    }

    /// A buffer for a Compare, and whether it equals the volume's contents.
    fn fill_compared(&mut self, run: Run) -> (BufferId, bool) {
        let buffer = self.fill(run);
        if self.choices.once_in(2) {
            self.host_memory.bytes_mut(buffer).copy_from_slice(&self.model[run.bytes()]);
        }
        let is_equal = self.host_memory.bytes(buffer) == &self.model[run.bytes()];
        (buffer, is_equal)
    }

    fn submit_compare(&mut self, run: Run) {
        let (buffer, is_equal) = self.fill_compared(run);
        let status = if is_equal { Status::SUCCESS } else { Status::COMPARE_FAILURE };
        let command = Command::compare(NSID, run.lba(), run.zero_based(), run.len_u32());
        self.submit_from_host(command, run, buffer, status);
    }

    fn submit_compare_and_write(&mut self, run: Run) {
        let (compared, is_equal) = self.fill_compared(run);
        let written = self.fill(run);
        let (first, second) = if is_equal {
            self.model[run.bytes()].copy_from_slice(self.host_memory.bytes(written));
            (Status::SUCCESS, Status::SUCCESS)
        } else {
            (Status::COMPARE_FAILURE, Status::ABORTED_FUSED_FAILED)
        };
        let compare = Command::compare(NSID, run.lba(), run.zero_based(), run.len_u32());
        let write = Command::write(NSID, run.lba(), run.zero_based(), run.len_u32());
        self.submit_from_host(compare.with_fused(Fused::First), run, compared, first);
        self.submit_from_host(write.with_fused(Fused::Second), run, written, second);
    }

    fn submit_clear(&mut self, run: Run) {
        self.model[run.bytes()].fill(0);
        let expected =
            Expected { place: run.place, status: Status::SUCCESS, read: None, buffer: None };
        if self.choices.once_in(2) {
            let command = Command::write_zeroes(NSID, run.lba(), run.zero_based());
            return self.submit_command(command, CommandData::None, expected);
        }
        // Two ranges, the second of which may be empty.
        let half = run.blocks.div_ceil(2);
        let ranges =
            [(run.first, half), (run.first + half, run.blocks - half)].map(|(first, blocks)| {
                let start = Run { first, ..run }.lba();
                let count = Blocks(u64::try_from(blocks).expect("few blocks"));
                DsmRange::from_range(BlockRange { start, count }).expect("few blocks")
            });
        let data = CommandData::SmallOutgoing(ranges.as_bytes().to_vec());
        self.submit_command(Command::deallocate(NSID, 1), data, expected);
    }

    fn submit_flush(&mut self, place: usize) {
        let all = self.choices.once_in(2);
        let command = Command::flush(if all { NamespaceId::ALL } else { NSID });
        let expected = Expected { place, status: Status::SUCCESS, read: None, buffer: None };
        self.submit_command(command, CommandData::None, expected);
    }

    fn check_completion(&mut self, completion: &HostCompletion) {
        let expected = self.expected.remove(&completion.cid).expect("it was submitted");
        self.busy[expected.place] -= 1;
        assert_eq!(completion.entry.status().code(), expected.status, "{expected:?}");
        if let Some((buffer, first)) = expected.read {
            let bytes = self.host_memory.bytes(buffer);
            let start = expected.place * PLACE_LEN + first * BLOCK_LEN;
            assert!(bytes == &self.model[start..start + bytes.len()], "a read is what was written");
        }
        if let Some(buffer) = expected.buffer {
            self.host_memory.give_back(buffer);
        }
    }

    fn check_over(&mut self) {
        while self.target.output_len() > 0 {
            self.send();
        }
        assert!(self.volume.bytes() == self.model, "the volume holds what was written");
        assert_eq!(self.target.commands_in_flight(), 0);
        assert_eq!(self.target_memory.taken(), 0, "the target gave every buffer back");
        assert_eq!(self.host_memory.taken(), 0, "the host gave every buffer back");
    }
}

/// A run of blocks of a place.
#[derive(Clone, Copy, Debug)]
struct Run {
    place: usize,
    first: usize,
    blocks: usize,
}

impl Run {
    fn len(self) -> usize {
        self.blocks * BLOCK_LEN
    }

    fn len_u32(self) -> u32 {
        u32::try_from(self.len()).expect("a place is small")
    }

    fn zero_based(self) -> u16 {
        u16::try_from(self.blocks - 1).expect("a place is small")
    }

    fn lba(self) -> Lba {
        Lba(u64::try_from(self.place * PLACE_BLOCKS + self.first).expect("the volume is small"))
    }

    fn bytes(self) -> std::ops::Range<usize> {
        let start = self.place * PLACE_LEN + self.first * BLOCK_LEN;
        start..start + self.len()
    }
}
