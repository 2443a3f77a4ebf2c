//! Both ends, connected to each other and to a volume in memory.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use nearflash_request::{BufferId, Payload, Request, Support, VolumeId};
use nearflash_scsi::{LogicalUnit, LogicalUnits};
use nearflash_session::Receiving;
use nearflash_units::{Blocks, Nanos};

use super::login::{account, login_config};
use super::target::origin;
use super::volume::{BLOCK_SIZE, Volume};
use crate::chap::Account;
use crate::initiator::{
    CommandData, CommandWindow, Ending, InitiatorConfig, InitiatorSession, Status, TaskCompletion,
    TaskId, cdb,
};
use crate::login::LoginConfig;
use crate::params::{DigestWish, Offer};
use crate::serving::{
    Admission, Demand, Exports, NONCE_LEN, Portal, PortalConfig, ServingEnd, SessionConfig,
    TargetSession,
};
use nearflash_session::check::{Choices, Memory};

const BLOCK: usize = 512;
const VOLUME_BLOCKS: usize = 4096;
const TASKS: u16 = 8;
/// Of COMPARE AND WRITE.
const COMPARED_BLOCKS_MAX: usize = 8;

/// One way for two ends to be connected and used.
#[derive(Clone, Copy, Debug)]
pub struct PairScenario {
    /// Selects the operations, the times of answers and the cuts of the streams.
    pub seed: u64,
    /// Header and data digests.
    pub digests: [bool; 2],
    /// Both ends prove themselves.
    pub with_account: bool,
    /// Connections of the session, 1 to 4.
    pub connections: u16,
    /// No data goes out unasked behind a command.
    pub initial_r2t: bool,
    /// Data goes out with a command.
    pub immediate_data: bool,
    /// MaxRecvDataSegmentLength of both ends.
    pub receive_len_max: u32,
    /// How many operations.
    pub operations: usize,
}

/// The expected result of an operation in flight.
#[derive(Debug)]
struct Expected {
    blocks: Range<usize>,
    ending: Ending,
    /// The expected data of a read.
    read: Option<Vec<u8>>,
    buffer: Option<BufferId>,
}

/// One connection, with its requests and streams in transit.
struct Link {
    initiator: InitiatorSession,
    target: TargetSession,
    requests: Vec<Request>,
    to_target: Vec<u8>,
    to_initiator: Vec<u8>,
}

struct Pair {
    scenario: PairScenario,
    choices: Choices,
    window: Arc<CommandWindow>,
    exports: Arc<Exports>,
    portal: Portal,
    links: Vec<Link>,
    initiator_memory: Memory,
    target_memory: Memory,
    volume: Volume,
    /// The expected content of the volume.
    model: Vec<u8>,
    expected: HashMap<(usize, TaskId), Expected>,
}

/// For all operations, connections, orders of answers and cuts of the streams: reads return the
/// data that was written, every command is answered once with its status, and all buffers are given
/// back.
pub fn check_pair(scenario: PairScenario) {
    let mut pair = Pair::new(scenario);
    for cid in 0..scenario.connections.clamp(1, 4) {
        pair.connect(cid);
    }
    pair.hear_attentions();
    let mut left = scenario.operations;
    while left > 0 || !pair.expected.is_empty() {
        if left > 0 && pair.choices.once_in(2) && pair.submit() {
            left -= 1;
        }
        pair.turn();
    }
    pair.check_over();
}

impl Pair {
    fn new(scenario: PairScenario) -> Self {
        let unit = LogicalUnit {
            lun: 0,
            volume: VolumeId(0),
            uuid: [7; 16],
            name: "disk".to_owned(),
            block_size: BLOCK_SIZE,
            blocks: Blocks(u64::try_from(VOLUME_BLOCKS).expect("a small volume")),
            volatile_cache: true,
            provisioning: nearflash_scsi::Provisioning::Thin,
            support: Support::ALL,
            on_every_node: false,
            write_protected: false,
            software_write_protected: false,
            descriptor_sense: false,
            epoch: 1,
        };
        let name = "iqn.2026-11.io.example:disk";
        let units = Arc::new(LogicalUnits::new(name, 1, [unit]));
        let mut exports = Exports::new([(name.into(), units)], []);
        if scenario.with_account {
            exports = exports.with_accounts([Account::clone(&account())]);
        }
        let config = PortalConfig { window: 16, sessions_max: 16, ..PortalConfig::default() };
        Self {
            scenario,
            choices: Choices::new(scenario.seed),
            window: Arc::new(CommandWindow::new(u32::MAX - 20)),
            exports: Arc::new(exports),
            portal: Portal::new(config),
            links: Vec::new(),
            initiator_memory: Memory::default(),
            target_memory: Memory::default(),
            volume: Volume::new(VOLUME_BLOCKS * BLOCK),
            model: vec![0; VOLUME_BLOCKS * BLOCK],
            expected: HashMap::new(),
        }
    }

    fn connect(&mut self, cid: u16) {
        let PairScenario { with_account, receive_len_max, .. } = self.scenario;
        let [header, data] = self.scenario.digests;
        let wish = |is_wanted| if is_wanted { DigestWish::Crc } else { DigestWish::None };
        let mut target = SessionConfig::with_nonce([1; NONCE_LEN]);
        target.anonymous = !with_account;
        target.offer.receive_len_max = receive_len_max;
        let mut offer =
            Offer { header_digest: wish(header), data_digest: wish(data), ..target.offer };
        offer.session.initial_r2t = self.scenario.initial_r2t;
        offer.session.immediate_data = self.scenario.immediate_data;
        offer.session.max_connections = 4;
        let login = LoginConfig {
            tsih: self.window.tsih().unwrap_or(0),
            cid,
            account: with_account.then(account),
            offer,
            ..login_config([false, false])
        };
        let config = InitiatorConfig { login, window: self.window.clone(), task_count: TASKS };
        let local = "127.0.0.1:3260".parse().expect("an address");
        self.links.push(Link {
            initiator: InitiatorSession::new(config),
            target: TargetSession::new(target, Arc::clone(&self.exports), local, Nanos(0)),
            requests: Vec::new(),
            to_target: Vec::new(),
            to_initiator: Vec::new(),
        });
        let index = self.links.len() - 1;
        while !self.links[index].initiator.is_ready() {
            self.turn_of(index);
        }
    }

    /// Consumes the POWER ON unit attention that a new session reports once.
    fn hear_attentions(&mut self) {
        loop {
            let cdb = cdb::test_unit_ready();
            let initiator = &mut self.links[0].initiator;
            initiator.submit(0, &cdb, CommandData::None, &[]).expect("nothing is in flight");
            let completion = loop {
                self.turn_of(0);
                if let Some(completion) = self.links[0].initiator.poll_completion() {
                    break completion;
                }
            };
            if completion.is_good() {
                return;
            }
            assert_eq!(completion.sense.map(|sense| sense.key), Some(6), "{completion:?}");
        }
    }

    fn submit(&mut self) -> bool {
        let link = self.choices.below(self.links.len());
        let is_full = self.links[link].initiator.tasks_in_flight() == usize::from(TASKS);
        if is_full || !self.window.is_open() {
            return false;
        }
        let blocks = self.some_blocks();
        let is_free =
            |other: &Expected| other.blocks.end <= blocks.start || blocks.end <= other.blocks.start;
        if !self.expected.values().all(is_free) {
            return false;
        }
        match self.choices.below(10) {
            0..4 => self.submit_read(link, blocks),
            4..7 => self.submit_write(link, blocks),
            7 => self.submit_unmap(link, blocks),
            8 => self.submit_flush(link),
            _ => self.submit_compare_and_write(link, blocks.start),
        }
        true
    }

    /// Usually a few blocks; rarely many, or beyond the volume's end.
    fn some_blocks(&mut self) -> Range<usize> {
        let len = match self.choices.below(16) {
            0 => 1 + self.choices.below(2048),
            1..8 => 1 << self.choices.below(6),
            _ => 1 + self.choices.below(40),
        };
        let start = self.choices.below(VOLUME_BLOCKS);
        if start + len > VOLUME_BLOCKS && !self.choices.once_in(4) {
            return VOLUME_BLOCKS - len..VOLUME_BLOCKS;
        }
        start..start + len
    }

    fn submit_read(&mut self, link: usize, blocks: Range<usize>) {
        let place = wire(&blocks);
        let buffer = self.initiator_memory.take(blocks.len() * BLOCK);
        let len = u32::try_from(blocks.len() * BLOCK).expect("a small volume");
        let read = self.bytes(&blocks).map(|bytes| self.model[bytes].to_vec());
        let id = self.links[link].initiator.read(0, place, buffer, len).expect("there is room");
        self.expect(link, id, blocks, (read, Some(buffer)));
    }

    fn submit_write(&mut self, link: usize, blocks: Range<usize>) {
        let place = wire(&blocks);
        let buffer = self.some_payload(blocks.len() * BLOCK);
        let len = u32::try_from(blocks.len() * BLOCK).expect("a small volume");
        let payload = self.initiator_memory.bytes(buffer);
        if let Some(bytes) = self.bytes(&blocks) {
            self.model[bytes].copy_from_slice(payload);
        }
        let initiator = &mut self.links[link].initiator;
        let id = initiator.write(0, place, (buffer, len), payload).expect("there is room");
        self.expect(link, id, blocks, (None, Some(buffer)));
    }

    fn submit_unmap(&mut self, link: usize, blocks: Range<usize>) {
        if let Some(bytes) = self.bytes(&blocks) {
            self.model[bytes].fill(0);
        }
        let ranges = [wire(&blocks)];
        let id = self.links[link].initiator.unmap(0, &ranges).expect("there is room");
        self.expect(link, id, blocks, (None, None));
    }

    fn submit_flush(&mut self, link: usize) {
        let id = self.links[link].initiator.flush(0).expect("there is room");
        self.expect(link, id, 0..0, (None, None));
    }

    /// Compares with the current content two times out of three.
    fn submit_compare_and_write(&mut self, link: usize, near: usize) {
        let len = 1 + self.choices.below(COMPARED_BLOCKS_MAX);
        let start = near.min(VOLUME_BLOCKS - len);
        let blocks = start..start + len;
        let is_busy =
            |other: &Expected| other.blocks.end > blocks.start && blocks.end > other.blocks.start;
        if self.expected.values().any(is_busy) {
            return;
        }
        let bytes = self.bytes(&blocks).expect("within the volume");
        let buffer = self.some_payload(2 * bytes.len());
        let payload = self.initiator_memory.bytes_mut(buffer);
        let (compared, written) = payload.split_at_mut(bytes.len());
        compared.copy_from_slice(&self.model[bytes.clone()]);
        let differs = self.choices.once_in(3);
        if differs {
            compared[bytes.len() - 1] ^= 1;
        } else {
            self.model[bytes.clone()].copy_from_slice(written);
        }
        let place = (wire(&blocks).0, u8::try_from(len).expect("few"));
        let wire_len = u32::try_from(2 * bytes.len()).expect("few");
        let payload = self.initiator_memory.bytes(buffer);
        let initiator = &mut self.links[link].initiator;
        let submitted = initiator.compare_and_write(0, place, (buffer, wire_len), payload);
        let id = submitted.expect("there is room");
        self.expect(link, id, blocks, (None, Some(buffer)));
        if differs {
            let expected = self.expected.get_mut(&(link, id)).expect("just put there");
            expected.ending = Ending::Answered(Status::CHECK_CONDITION);
        }
    }

    fn some_payload(&mut self, len: usize) -> BufferId {
        let buffer = self.initiator_memory.take(len);
        let first = self.choices.any();
        for (byte, at) in self.initiator_memory.bytes_mut(buffer).iter_mut().zip(first..) {
            [*byte, ..] = (at ^ at >> 8).to_le_bytes();
        }
        buffer
    }

    /// The bytes of blocks; `None` past the volume's end.
    fn bytes(&self, blocks: &Range<usize>) -> Option<Range<usize>> {
        (blocks.end <= VOLUME_BLOCKS).then(|| blocks.start * BLOCK..blocks.end * BLOCK)
    }

    fn expect(
        &mut self,
        link: usize,
        id: TaskId,
        blocks: Range<usize>,
        (read, buffer): (Option<Vec<u8>>, Option<BufferId>),
    ) {
        let is_good = self.bytes(&blocks).is_some();
        let status = if is_good { Status::GOOD } else { Status::CHECK_CONDITION };
        let expected = Expected { blocks, ending: Ending::Answered(status), read, buffer };
        let is_new = self.expected.insert((link, id), expected).is_none();
        assert!(is_new, "{id:?} is one command's");
    }

    fn turn(&mut self) {
        let link = self.choices.below(self.links.len());
        self.turn_of(link);
        while let Some(completion) = self.links[link].initiator.poll_completion() {
            self.check_completion(link, &completion);
        }
    }

    fn turn_of(&mut self, link: usize) {
        match self.choices.below(5) {
            0 => self.send_from_initiator(link),
            1 => self.receive_at_target(link),
            2 => self.answer_some(link),
            3 => self.send_from_target(link),
            _ => self.receive_at_initiator(link),
        }
        let links = &mut self.links;
        if links[link].target.concerns_siblings() {
            for other in (0..links.len()).filter(|other| *other != link) {
                links[other].target.resume().expect("the initiator is sound");
            }
        }
    }

    /// The number of bytes of a stream that move at once.
    fn cut(&mut self, len: usize) -> usize {
        match self.choices.below(4) {
            0 => self.choices.below(len + 1),
            1 => self.choices.below(100).min(len),
            _ => len,
        }
    }

    fn send_from_initiator(&mut self, link: usize) {
        let initiator = &mut self.links[link].initiator;
        while let Some(part) = initiator.wants_payload() {
            let bytes = &self.initiator_memory.bytes(part.buffer)[part.offset..][..part.len];
            initiator.provide_payload(bytes);
        }
        let mut stream = Vec::new();
        let memory = &self.initiator_memory;
        initiator.output().for_each(|chunk| memory.append(&mut stream, chunk));
        let sent = self.cut(stream.len());
        let link = &mut self.links[link];
        link.initiator.advance_output(sent);
        link.to_target.extend_from_slice(&stream[..sent]);
    }

    fn receive_at_target(&mut self, link: usize) {
        let len = self.cut(self.links[link].to_target.len());
        let link = &mut self.links[link];
        let memory = &mut self.target_memory;
        let stream: Vec<u8> = link.to_target.drain(..len).collect();
        let mut rest = &stream[..];
        while !rest.is_empty() {
            let taken = match link.target.receiving() {
                Receiving::Bytes => link.target.handle_input(rest).expect("the initiator is sound"),
                Receiving::Payload { buffer, offset, len } => {
                    let part = &rest[..len.min(rest.len())];
                    let place = offset..offset + part.len();
                    memory.bytes_mut(buffer)[place].copy_from_slice(part);
                    link.target.handle_payload(part);
                    part.len()
                }
                Receiving::Paused => match link.target.wants_buffer() {
                    Some(len) => {
                        link.target.provide_buffer(memory.take(len.to_usize()));
                        0
                    }
                    None => break,
                },
            };
            rest = &rest[taken..];
        }
        let left = rest.to_vec();
        link.to_target.splice(..0, left);
    }

    fn answer_some(&mut self, link: usize) {
        let link = &mut self.links[link];
        let memory = &mut self.target_memory;
        while let Some(len) = link.target.wants_buffer() {
            link.target.provide_buffer(memory.take(len.to_usize()));
        }
        while let Some(demand) = link.target.poll_demand() {
            match demand {
                Demand::Request(request) => link.requests.push(request),
                Demand::Login(demand) => {
                    let admission = self.portal.login(&demand, origin()).expect("there is room");
                    let Admission::Granted(granted) = admission else {
                        panic!("nothing is in the way of a login")
                    };
                    link.target.handle_login(Ok(granted));
                }
                Demand::Change(_, change) => panic!("nobody asked for {change:?}"),
            }
        }
        for _ in 0..self.choices.below(4) {
            if link.requests.is_empty() {
                return;
            }
            let request = link.requests.swap_remove(self.choices.below(link.requests.len()));
            let done = self.volume.complete(request, memory);
            let bytes = match done.payload {
                Payload::Buffer(buffer) if link.target.wants_payload_bytes() => {
                    memory.bytes(buffer)
                }
                _ => &[],
            };
            link.target.handle_completion(done, bytes);
        }
    }

    fn send_from_target(&mut self, link: usize) {
        let mut stream = Vec::new();
        let memory = &mut self.target_memory;
        self.links[link].target.output().for_each(|chunk| memory.append(&mut stream, chunk));
        let sent = self.cut(stream.len());
        let link = &mut self.links[link];
        let memory = &mut self.target_memory;
        link.target.advance_output(sent, &mut |buffer| memory.give_back(buffer));
        link.to_initiator.extend_from_slice(&stream[..sent]);
    }

    fn receive_at_initiator(&mut self, link: usize) {
        let len = self.cut(self.links[link].to_initiator.len());
        let link = &mut self.links[link];
        let stream: Vec<u8> = link.to_initiator.drain(..len).collect();
        let mut rest = &stream[..];
        while !rest.is_empty() {
            let taken = match link.initiator.receiving() {
                Receiving::Bytes => link.initiator.handle_input(rest).expect("the target is sound"),
                Receiving::Payload { buffer, offset, len } => {
                    let part = &rest[..len.min(rest.len())];
                    self.initiator_memory.bytes_mut(buffer)[offset..offset + part.len()]
                        .copy_from_slice(part);
                    link.initiator.handle_payload(part);
                    part.len()
                }
                Receiving::Paused => unreachable!("the initiator is not closing"),
            };
            rest = &rest[taken..];
        }
    }

    fn check_completion(&mut self, link: usize, completion: &TaskCompletion) {
        let expected = self.expected.remove(&(link, completion.id)).expect("it was submitted");
        assert_eq!(completion.ending, expected.ending, "{expected:?} {completion:?}");
        if let (Some(read), Some(buffer)) = (&expected.read, expected.buffer) {
            let found = self.initiator_memory.bytes(buffer);
            assert!(found == read, "a read is what was written");
        }
        if let Some(buffer) = expected.buffer {
            self.initiator_memory.give_back(buffer);
        }
    }

    fn check_over(&mut self) {
        for link in 0..self.links.len() {
            while self.links[link].target.output_len() > 0 {
                self.send_from_target(link);
            }
            let memory = &mut self.target_memory;
            let target = &mut self.links[link].target;
            target.advance_output(0, &mut |buffer| memory.give_back(buffer));
            assert_eq!(target.commands_in_flight(), 0);
        }
        assert!(self.volume.bytes() == self.model, "the volume holds what was written");
        assert_eq!(self.target_memory.taken(), 0, "the target gave every buffer back");
        assert_eq!(self.initiator_memory.taken(), 0, "the initiator gave every buffer back");
    }
}

/// LBA and number of blocks, as in a CDB.
fn wire(blocks: &Range<usize>) -> (u64, u32) {
    let start = u64::try_from(blocks.start).expect("a small volume");
    (start, u32::try_from(blocks.len()).expect("a small volume"))
}
