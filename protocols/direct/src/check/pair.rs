//! Both ends, connected to each other and to a volume in memory.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use nearflash_request::{BufferId, Payload, Request, SentIn};
use nearflash_session::Receiving;
use nearflash_units::{BlockSize, Nanos};

use super::volume::{VOLUME, Volume};
use super::{NOW, range};
use crate::block_digest::{block_digest, digests_len};
use crate::client::{
    ClientCompletion, ClientConfig, ClientEvent, ClientOperation, ClientSession, RequestTag,
    VolumeHandle,
};
use crate::secret::Secret;
use crate::serving::{
    Access, CredentialExport, Demand, Export, Exports, Revoked, RingOutput, ServingEnd,
    SessionConfig, TargetSession,
};
use crate::wire::{DIGEST_BLOCK_LEN, HEADER_LEN, Rights, Run, SealTerms, Status, WORD_LEN};
use crate::{Digests, Face};
use nearflash_session::check::{Choices, Memory};

/// A little more than two segments, so that a request may lie in one, two or three.
const VOLUME_LEN: usize = (2 << 20) + (128 << 10);
const MIB: usize = 1 << 20;
/// The length of the blocks that have digests.
const PAGE: usize = DIGEST_BLOCK_LEN as usize;
/// The runs of the sealed object, which has as many bytes, and the length of its volume.
const RUNS: [Run; 3] = [
    Run { start: (3 << 20) + 8192, len: 1 << 20 },
    Run { start: 4096, len: 1 << 20 },
    Run { start: (5 << 20) - (256 << 10), len: 128 << 10 },
];
const SEALED_VOLUME_LEN: usize = 5 << 20;
const KEY: &str = "check";
const NAME: &str = "data";
const ENTRIES: u32 = 8;
const AREA_LEN: usize = 8 * 512 * 1024;

/// A way to connect and use the two ends.
#[derive(Clone, Copy, Debug)]
pub struct PairScenario {
    /// Decides on the requests, the times of the answers and the splitting of the streams.
    pub seed: u64,
    /// The digests that both ends request.
    pub digests: Digests,
    /// The client has a key, with a grant on every byte.
    pub with_key: bool,
    /// Requests go over rings.
    pub by_rings: bool,
    /// The volume's blocks have 4 KiB instead of 512 bytes.
    pub large_blocks: bool,
    /// The client uses a sealed object of three runs.
    pub sealed: bool,
    /// The number of operations.
    pub operations: usize,
}

impl PairScenario {
    /// The client is another node of the cluster, and the volume the replica face of a mirror.
    const fn on_replica(self) -> bool {
        self.with_key && !self.by_rings && !self.sealed && self.seed.is_multiple_of(2)
    }
}

/// The answer that an operation in flight must get.
#[derive(Debug)]
struct Expected {
    bytes: Range<usize>,
    status: Status,
    value: u64,
    /// The expected place of the data that was read, and its bytes.
    read: Option<Vec<u8>>,
    buffer: Option<BufferId>,
    place: u32,
}

struct Pair {
    choices: Choices,
    client: ClientSession,
    client_memory: Memory,
    handle: VolumeHandle,
    /// The bytes that the volume must hold.
    model: Vec<u8>,
    expected: HashMap<RequestTag, Expected>,
    target: TargetSession,
    revoked: Revoked,
    target_memory: Memory,
    volume: Volume,
    requests: Vec<Request>,
    to_target: Vec<u8>,
    to_client: Vec<u8>,
    submitted: Vec<[u8; HEADER_LEN]>,
    scenario: PairScenario,
}

/// For all requests, all orders of answers and all ways to split the streams: reads return the data
/// that was written, atomic operations return the previous words, every request is answered once
/// with its status, and all buffers are returned.
pub fn check_pair(scenario: PairScenario) {
    let mut pair = Pair::new(scenario);
    pair.connect();
    let mut left = scenario.operations;
    while left > 0 || pair.client.requests_in_flight() > 0 {
        if left > 0 && pair.choices.once_in(2) && pair.submit() {
            left -= 1;
        }
        pair.turn();
    }
    pair.check_over();
}

impl Pair {
    fn new(scenario: PairScenario) -> Self {
        let block_size = if scenario.large_blocks { BlockSize::B4096 } else { BlockSize::B512 };
        let on_replica = scenario.on_replica();
        let volume_len = if scenario.sealed { SEALED_VOLUME_LEN } else { VOLUME_LEN };
        let export = Export {
            volume: VOLUME,
            bytes: u64::try_from(volume_len).expect("a small volume"),
            block_size,
            epoch: 3,
            uuid: [9; 16],
            is_remote: false,
            is_public: !on_replica,
            face: on_replica.then_some(Face::Replica),
        };
        let secret = Secret::new([0x5A; 32]);
        // In two adjacent parts, so that requests cross from one to the other.
        let grants = [(0..4099, Rights::READ_WRITE), (4099..1 << 40, Rights::READ_WRITE)];
        let credential = CredentialExport {
            secret: secret.clone(),
            expired: false,
            access: [(VOLUME, Arc::new(Access::new(grants)))].into(),
        };
        let credentials = scenario.with_key.then(|| (KEY.into(), credential.clone()));
        let exports = Exports::new([(NAME.into(), export)], credentials);
        let exports = if on_replica { exports.with_peers(KEY, credential, 1) } else { exports };
        let config = SessionConfig {
            anonymous: !scenario.with_key,
            local: scenario.by_rings,
            credits: 16,
            digests: scenario.digests,
            ..SessionConfig::with_nonce([1; 16])
        };
        let client = ClientSession::new(ClientConfig {
            key: scenario.with_key.then(|| (KEY.into(), secret)),
            digests: scenario.digests,
            rings: scenario.by_rings,
            nonce: [2; 16],
        });
        Self {
            choices: Choices::new(scenario.seed),
            client,
            client_memory: Memory::default(),
            handle: VolumeHandle(0),
            model: vec![0; VOLUME_LEN],
            expected: HashMap::new(),
            target: TargetSession::new(config, Arc::new(exports), Nanos(0)),
            revoked: Revoked::new([6; 16]),
            target_memory: Memory::default(),
            volume: Volume::new(volume_len, block_size),
            requests: Vec::new(),
            to_target: Vec::new(),
            to_client: Vec::new(),
            submitted: Vec::new(),
            scenario,
        }
    }

    fn connect(&mut self) {
        assert_eq!(self.await_event(), ClientEvent::Ready);
        if self.choices.once_in(2) {
            self.client.claim([7; 16]).expect("the session is ready");
            assert_eq!(self.await_event(), ClientEvent::Claimed(Ok(())));
        }
        let number = self.client.open(NAME).expect("the session is ready");
        match self.await_event() {
            ClientEvent::Opened { number: opened, result: Ok(info) } if opened == number => {
                self.handle = info.handle;
            }
            other => panic!("{other:?}"),
        }
        if self.scenario.sealed {
            self.open_sealed();
        }
        if self.scenario.by_rings {
            let len = u64::try_from(AREA_LEN).expect("a small area");
            self.client.attach(ENTRIES, len).expect("nothing is in flight");
            assert_eq!(self.await_event(), ClientEvent::Attached(Ok(())));
        }
    }

    /// The client mints a seal for an object of the volume, and uses it.
    fn open_sealed(&mut self) {
        self.client.seal_key(self.handle).expect("the volume is open");
        let ClientEvent::SealKey { result: Ok(granted), .. } = self.await_event() else {
            panic!("the client may write")
        };
        let terms = SealTerms {
            object: 1,
            uuid: [4; 16],
            version: 2,
            rights: Rights::READ_WRITE,
            good_until: granted.seconds,
            runs: RUNS.into(),
        };
        let seal = granted.key.mint(terms).expect("sound terms");
        let into = self.choices.once_in(2).then_some(self.handle);
        self.client.open_sealed(&seal, into).expect("the session is ready");
        match self.await_event() {
            ClientEvent::Opened { result: Ok(info), .. } => self.handle = info.handle,
            other => panic!("{other:?}"),
        }
    }

    fn await_event(&mut self) -> ClientEvent {
        loop {
            if let Some(event) = self.client.poll_event() {
                return event;
            }
            self.turn();
        }
    }

    fn submit(&mut self) -> bool {
        if self.client.credits_left() == 0 {
            return false;
        }
        let bytes = self.some_bytes();
        if !self.is_free(&bytes) {
            return false;
        }
        match self.choices.below(if self.scenario.on_replica() { 11 } else { 9 }) {
            0..3 => self.submit_read(bytes),
            3..6 => self.submit_write(bytes),
            6 => self.submit_discard(bytes),
            7 => self.submit_zero(bytes),
            9.. => self.submit_digest(bytes),
            _ => self.submit_atomic(bytes.start),
        }
        true
    }

    /// Whether no request in flight concerns any of these bytes.
    fn is_free(&self, bytes: &Range<usize>) -> bool {
        let is_apart =
            |other: &Expected| other.bytes.end <= bytes.start || bytes.end <= other.bytes.start;
        self.expected.values().all(is_apart)
    }

    /// Mostly a few bytes or blocks, often near the edge of a segment; rarely several segments, or
    /// past the volume's end.
    fn some_bytes(&mut self) -> Range<usize> {
        let len = match self.choices.below(16) {
            0 => 1 + self.choices.below(AREA_LEN / 8),
            1..8 => 512 << self.choices.below(5),
            _ => 1 + self.choices.below(9000),
        };
        let near = match self.choices.below(4) {
            0 => MIB * (1 + self.choices.below(2)),
            _ => self.choices.below(VOLUME_LEN) & !511,
        };
        let start = match self.choices.below(3) {
            0 => near.saturating_sub(self.choices.below(len + 1)),
            _ => near,
        };
        if start + len > VOLUME_LEN && !self.choices.once_in(8) {
            return VOLUME_LEN - len..VOLUME_LEN;
        }
        start..start + len
    }

    fn submit_read(&mut self, bytes: Range<usize>) {
        let (offset, len, status) = wire(&bytes);
        let buffer = self.client_memory.take(bytes.len());
        let operation = ClientOperation::Read { buffer, offset, len };
        let read = status.is_ok().then(|| self.model[bytes.clone()].to_vec());
        let buffer = Some(buffer);
        self.send_request(&operation, Expected { bytes, status, value: 0, read, buffer, place: 0 });
    }

    fn submit_write(&mut self, bytes: Range<usize>) {
        let (offset, len, status) = wire(&bytes);
        let buffer = self.client_memory.take(bytes.len());
        let first = self.choices.any();
        for (byte, at) in self.client_memory.bytes_mut(buffer).iter_mut().zip(first..) {
            [*byte, ..] = (at ^ at >> 8).to_le_bytes();
        }
        if status.is_ok() {
            self.model[bytes.clone()].copy_from_slice(self.client_memory.bytes(buffer));
        }
        let durable = self.choices.once_in(4);
        let operation = ClientOperation::Write { buffer, offset, len, durable };
        let buffer = Some(buffer);
        let expected = Expected { bytes, status, value: 0, read: None, buffer, place: 0 };
        self.send_request(&operation, expected);
    }

    fn submit_discard(&mut self, bytes: Range<usize>) {
        let (offset, len, status) = wire(&bytes);
        let block = usize::try_from(self.volume.block_size.bytes()).expect("small");
        let whole = bytes.start.next_multiple_of(block)..bytes.end / block * block;
        if status.is_ok() && !whole.is_empty() {
            self.model[whole].fill(0);
        }
        let operation = ClientOperation::Discard { offset, len };
        let expected = Expected { bytes, status, value: 0, read: None, buffer: None, place: 0 };
        self.send_request(&operation, expected);
    }

    /// Mostly whole blocks; parts of blocks are refused, unless the range is out of the volume.
    fn submit_zero(&mut self, bytes: Range<usize>) {
        let block = usize::try_from(self.volume.block_size.bytes()).expect("small");
        let is_cut = self.choices.once_in(4);
        let whole = bytes.start / block * block..bytes.end.next_multiple_of(block);
        let bytes = if is_cut { bytes } else { whole };
        if !self.is_free(&bytes) {
            return;
        }
        let (offset, len, mut status) = wire(&bytes);
        let mut value = 0;
        let cut = [(bytes.start, 8), (bytes.len(), 16)];
        if let Some((_, field)) = cut.iter().find(|(at, _)| !at.is_multiple_of(block))
            && status.is_ok()
        {
            (status, value) = (Status::INVALID_FIELD, *field);
        }
        if status.is_ok() {
            self.model[bytes.clone()].fill(0);
        }
        let (deallocate, durable) = (self.choices.once_in(2), self.choices.once_in(4));
        let operation = ClientOperation::Zero { offset, len, deallocate, durable };
        let expected = Expected { bytes, status, value, read: None, buffer: None, place: 0 };
        self.send_request(&operation, expected);
    }

    /// Mostly whole blocks; the client sends no other lengths, and the node refuses other places.
    fn submit_digest(&mut self, bytes: Range<usize>) {
        let is_cut = self.choices.once_in(8);
        let start = if is_cut { bytes.start } else { bytes.start / PAGE * PAGE };
        let len = bytes.len().next_multiple_of(PAGE).min(MIB);
        let bytes = start..start + len;
        if !self.is_free(&bytes) {
            return;
        }
        let (offset, len, mut status) = wire(&bytes);
        let mut value = 0;
        if status.is_ok() && !start.is_multiple_of(PAGE) {
            (status, value) = (Status::INVALID_FIELD, 8);
        }
        let key = u128::from(self.choices.any()).to_le_bytes();
        let buffer = self.client_memory.take(crate::length(digests_len(len)));
        let digests = |blocks: &[u8]| -> Vec<u8> {
            blocks.chunks(PAGE).flat_map(|block| block_digest(&key, block)).collect()
        };
        let read = status.is_ok().then(|| digests(&self.model[bytes.clone()]));
        let operation = ClientOperation::Digest { buffer, offset, len, key };
        let buffer = Some(buffer);
        self.send_request(&operation, Expected { bytes, status, value, read, buffer, place: 0 });
    }

    fn submit_atomic(&mut self, near: usize) {
        let start = near.min(VOLUME_LEN - 8) & !7;
        let bytes = start..start + 8;
        if !self.is_free(&bytes) {
            return;
        }
        let before = u64::from_le_bytes(self.model[bytes.clone()].try_into().expect("a word"));
        let (offset, _, status) = wire(&bytes);
        let (new, durable) = (self.choices.any(), self.choices.once_in(2));
        let (operation, after) = match self.choices.below(3) {
            0 => {
                let operation = ClientOperation::FetchAdd { offset, addend: new, durable };
                (operation, before.wrapping_add(new))
            }
            differs => {
                let differs = u64::from(differs == 2);
                let expected = before ^ differs;
                let operation = ClientOperation::CompareAndSwap { offset, expected, new, durable };
                (operation, if differs == 0 { new } else { before })
            }
        };
        self.model[bytes.clone()].copy_from_slice(&after.to_le_bytes());
        let value = before;
        let expected = Expected { bytes, status, value, read: None, buffer: None, place: 0 };
        self.send_request(&operation, expected);
    }

    fn send_request(&mut self, operation: &ClientOperation, mut expected: Expected) {
        let tag = if self.scenario.by_rings {
            let place = self.place_for(operation);
            expected.place = place;
            let submitted = self.client.submit_entry(self.handle, operation, place);
            let (tag, entry) = submitted.expect("there is a credit");
            self.submitted.push(entry);
            tag
        } else {
            let payload = match *operation {
                ClientOperation::Write { buffer, .. } => self.client_memory.bytes(buffer),
                _ => &[],
            };
            let submitted = if self.scenario.on_replica() {
                let sent = (Face::Replica, SentIn { term: 5, session: 9 });
                self.client.submit_on_face(self.handle, operation, (0, payload), sent)
            } else {
                self.client.submit(self.handle, operation, payload)
            };
            submitted.expect("there is a credit")
        };
        assert!(self.expected.insert(tag, expected).is_none(), "{tag:?} is one request's");
    }

    /// Puts a request's payload or operands into the data area, of which each entry has a part.
    fn place_for(&mut self, operation: &ClientOperation) -> u32 {
        let part = AREA_LEN / 8;
        let used: Vec<u32> = self.expected.values().map(|expected| expected.place).collect();
        let parts = (0..8).map(|at| u32::try_from(at * part).expect("a small area"));
        let mut parts = parts.filter(|start| {
            let end = *start + u32::try_from(part).expect("a small area");
            !used.iter().any(|place| (*start..end).contains(place))
        });
        let start = parts.next().expect("as many parts as entries");
        let len = place_len(operation);
        let room = u32::try_from(part).expect("a small area") - len;
        // Often where a device can reach it.
        let place = match self.choices.below(3) {
            0 => start + u32::try_from(self.choices.any() % 61).expect("small").min(room),
            _ => start,
        };
        let at = crate::length(place);
        match *operation {
            ClientOperation::Write { buffer, .. } => {
                let payload = self.client_memory.bytes(buffer);
                self.target_memory.area[at..at + payload.len()].copy_from_slice(payload);
            }
            ClientOperation::CompareAndSwap { .. } | ClientOperation::FetchAdd { .. } => {
                let (operands, len) = operation.operands();
                self.target_memory.area[at..at + len].copy_from_slice(&operands[..len]);
            }
            _ => {}
        }
        place
    }

    fn turn(&mut self) {
        match self.choices.below(6) {
            0 => self.send_from_client(),
            1 => self.receive_at_target(),
            2 => self.answer_some(),
            3 => self.send_from_target(),
            4 => self.receive_at_client(),
            _ => self.move_entries(),
        }
        while let Some(completion) = self.client.poll_completion() {
            self.check_completion(completion);
        }
    }

    fn send_from_client(&mut self) {
        let mut stream = Vec::new();
        self.client.output().for_each(|chunk| self.client_memory.append(&mut stream, chunk));
        let sent = self.choices.below(stream.len() + 1);
        let sent = if self.choices.once_in(2) { stream.len() } else { sent };
        self.client.advance_output(sent);
        self.to_target.extend_from_slice(&stream[..sent]);
    }

    /// How much of a stream comes at once.
    fn cut(&mut self, len: usize) -> usize {
        match self.choices.below(4) {
            0 => self.choices.below(len + 1),
            1 => self.choices.below(40).min(len),
            _ => len,
        }
    }

    fn receive_at_target(&mut self) {
        let len = self.cut(self.to_target.len());
        let stream: Vec<u8> = self.to_target.drain(..len).collect();
        let mut rest = &stream[..];
        while !rest.is_empty() {
            let taken = match self.target.receiving() {
                Receiving::Bytes => self.target.handle_input(rest).expect("the client is sound"),
                Receiving::Payload { buffer, offset, len } => {
                    let part = &rest[..len.min(rest.len())];
                    self.target_memory.bytes_mut(buffer)[offset..offset + part.len()]
                        .copy_from_slice(part);
                    self.target.handle_payload(part);
                    part.len()
                }
                Receiving::Paused => {
                    if !self.provide_buffers() {
                        break;
                    }
                    0
                }
            };
            rest = &rest[taken..];
        }
        let left = rest.to_vec();
        self.to_target.splice(..0, left);
        self.take_demands();
    }

    fn provide_buffers(&mut self) -> bool {
        let mut given = false;
        while let Some(len) = self.target.wants_buffer() {
            let buffer = self.target_memory.take(len.to_usize());
            self.target.provide_buffer(buffer);
            given = true;
        }
        given
    }

    fn take_demands(&mut self) {
        self.provide_buffers();
        while let Some(demand) = self.target.poll_demand() {
            match demand {
                Demand::Request(request) => self.requests.push(request),
                Demand::Claim(_) => self.target.handle_claimed(),
                Demand::Seals => {
                    let told = self.target.handle_seals(&mut self.revoked, NOW);
                    told.expect("a sound client");
                }
                Demand::Revoke(demand) => {
                    self.revoked.revoke(&demand.revocation, NOW);
                    self.target.revoke(&demand.revocation);
                    self.target.handle_revoked(demand.number, Ok(()));
                }
                Demand::Refused(_) => {}
                // The owner of the files repeats the message.
                Demand::Files(demand) => {
                    self.target.handle_files(demand.number, Ok(&demand.payload));
                }
                Demand::Attach(attach) => {
                    assert_eq!(attach.entries, ENTRIES);
                    self.target_memory.area =
                        vec![0xEE; usize::try_from(attach.data_len).expect("small")];
                    self.target.handle_attached(Ok(()));
                }
                Demand::Lend(demand) => {
                    let block_len = u64::from(self.volume.block_size.bytes());
                    assert!(demand.place.offset.is_multiple_of(block_len), "devices need that");
                    let buffer = self.target_memory.lend(range(demand.place));
                    self.requests.push(demand.into_request(buffer));
                }
                Demand::CopyIn(demand) => {
                    let bytes = self.target_memory.area[range(demand.place)].to_vec();
                    self.target_memory.bytes_mut(demand.buffer)[demand.offset..][..bytes.len()]
                        .copy_from_slice(&bytes);
                    self.requests.push(demand.request);
                }
            }
        }
    }

    fn answer_some(&mut self) {
        for _ in 0..self.choices.below(4) {
            if self.requests.is_empty() {
                return;
            }
            let request = self.requests.swap_remove(self.choices.below(self.requests.len()));
            let done = self.volume.answer(request, &mut self.target_memory);
            let bytes = match done.payload {
                Payload::Buffer(buffer) if self.target.wants_payload_bytes() => {
                    self.target_memory.bytes(buffer)
                }
                _ => &[],
            };
            self.target.handle_completion(done, bytes);
        }
        self.take_demands();
    }

    fn send_from_target(&mut self) {
        let mut stream = Vec::new();
        self.target.output().for_each(|chunk| self.target_memory.append(&mut stream, chunk));
        let sent = self.cut(stream.len());
        let memory = &mut self.target_memory;
        self.target.advance_output(sent, &mut |buffer| memory.give_back(buffer));
        self.to_client.extend_from_slice(&stream[..sent]);
    }

    fn receive_at_client(&mut self) {
        let len = self.cut(self.to_client.len());
        let stream: Vec<u8> = self.to_client.drain(..len).collect();
        let mut rest = &stream[..];
        while !rest.is_empty() {
            let taken = match self.client.receiving() {
                Receiving::Bytes => self.client.handle_input(rest).expect("the node is sound"),
                Receiving::Payload { buffer, offset, len } => {
                    let part = &rest[..len.min(rest.len())];
                    self.client_memory.bytes_mut(buffer)[offset..offset + part.len()]
                        .copy_from_slice(part);
                    self.client.handle_payload(part);
                    part.len()
                }
                Receiving::Paused => unreachable!("the client is not closing"),
            };
            rest = &rest[taken..];
        }
    }

    fn move_entries(&mut self) {
        while self.target.takes_entries() && !self.submitted.is_empty() {
            let entry = self.submitted.swap_remove(self.choices.below(self.submitted.len()));
            let area = &self.target_memory.area;
            let mut copy_in = |offset: u64, bytes: &mut [u8]| {
                let at = usize::try_from(offset).expect("within the area");
                bytes.copy_from_slice(&area[at..at + bytes.len()]);
            };
            self.target.handle_entry(&entry, &mut copy_in).expect("the client is sound");
        }
        self.take_demands();
        while let Some(output) = self.target.poll_ring() {
            let memory = &mut self.target_memory;
            match output {
                RingOutput::Copy { buffer, offset, place } => {
                    let place = range(place);
                    let bytes = memory.bytes(buffer)[offset..][..place.len()].to_vec();
                    memory.area[place].copy_from_slice(&bytes);
                    memory.give_back(buffer);
                }
                RingOutput::Release(buffer) => memory.give_back(buffer),
                RingOutput::Zeroes(place) => memory.area[range(place)].fill(0),
                RingOutput::Entry(entry) => {
                    self.client.handle_entry(&entry).expect("the node is sound");
                }
            }
        }
    }

    fn check_completion(&mut self, completion: ClientCompletion) {
        let expected = self.expected.remove(&completion.tag).expect("it was submitted");
        assert_eq!(completion.status, expected.status, "{:?}", expected.bytes);
        assert_eq!(completion.value, expected.value);
        if let (Some(read), Some(buffer)) = (&expected.read, expected.buffer) {
            let at = crate::length(expected.place);
            let found = if self.scenario.by_rings {
                &self.target_memory.area[at..at + read.len()]
            } else {
                self.client_memory.bytes(buffer)
            };
            assert!(found == read, "a read is what was written");
        }
        if let Some(buffer) = expected.buffer {
            self.client_memory.give_back(buffer);
        }
    }

    /// The bytes of the object. All others of the volume are as they were.
    fn object_bytes(&self) -> Vec<u8> {
        if !self.scenario.sealed {
            return self.volume.bytes.clone();
        }
        let mut others = self.volume.bytes.clone();
        let mut bytes = Vec::new();
        for run in &RUNS {
            let place = |at: u64| usize::try_from(at).expect("a small volume");
            let run = place(run.start)..place(run.start + run.len);
            bytes.extend_from_slice(&others[run.clone()]);
            others[run].fill(0);
        }
        assert!(others.iter().all(|byte| *byte == 0), "nothing lies outside of the object");
        bytes
    }

    fn check_over(&mut self) {
        while self.target.output_len() > 0 || self.target.requests_in_flight() > 0 {
            self.send_from_target();
        }
        let memory = &mut self.target_memory;
        self.target.advance_output(0, &mut |buffer| memory.give_back(buffer));
        assert!(self.object_bytes() == self.model, "the volume holds what was written");
        assert_eq!(self.target.requests_in_flight(), 0);
        assert_eq!(self.target_memory.taken(), 0, "the target gave every buffer back");
        assert_eq!(self.client_memory.taken(), 0, "the client gave every buffer back");
    }
}

/// A range in its wire form, and the expected status of a request for it.
fn wire(bytes: &Range<usize>) -> (u64, u32, Status) {
    let offset = u64::try_from(bytes.start).expect("a small volume");
    let len = u32::try_from(bytes.len()).expect("a small volume");
    let fits = bytes.end <= VOLUME_LEN;
    (offset, len, if fits { Status::OK } else { Status::OUT_OF_RANGE })
}

/// The number of bytes of the rings' data area that an operation needs.
fn place_len(operation: &ClientOperation) -> u32 {
    match *operation {
        ClientOperation::Read { len, .. } | ClientOperation::Write { len, .. } => len,
        ClientOperation::CompareAndSwap { .. } => 2 * WORD_LEN,
        ClientOperation::FetchAdd { .. } => WORD_LEN,
        ClientOperation::Flush
        | ClientOperation::Discard { .. }
        | ClientOperation::Zero { .. }
        | ClientOperation::Digest { .. } => 0,
    }
}
