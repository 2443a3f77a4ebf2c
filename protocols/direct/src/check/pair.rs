//! Both ends, connected to each other and to a volume in memory.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use nearflash_request::{BufferId, SentIn};
use nearflash_session::check::{Choices, Door, Expected, Link, Requesting, Volume, Wire};
use nearflash_units::{BlockSize, Nanos};

use super::driver::{take_demands, take_entry, take_ring_output};
use super::target::{KEY, NAME, VOLUME, secret, volume};
use crate::block_digest::{block_digest, digests_len};
use crate::client::{
    ClientConfig, ClientEvent, ClientOperation, ClientSession, RequestTag, VolumeHandle,
};
use crate::serving::{
    Access, CredentialExport, Demand, Export, Exports, Revoked, SessionConfig, TargetSession,
};
use crate::wire::{DIGEST_BLOCK_LEN, HEADER_LEN, Rights, Run, SealTerms, Status, WORD_LEN};
use crate::{Digests, Face};

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
    const fn block_size(self) -> BlockSize {
        if self.large_blocks { BlockSize::B4096 } else { BlockSize::B512 }
    }

    /// The client is another node of the cluster, and the volume the replica face of a mirror.
    const fn on_replica(self) -> bool {
        self.with_key && !self.by_rings && !self.sealed && self.seed.is_multiple_of(2)
    }
}

/// The status and the value of an answer.
type Answer = (Status, u64);

struct Pair {
    scenario: PairScenario,
    handle: VolumeHandle,
    revoked: Revoked,
    /// The entries that the target has not taken from the ring.
    submitted: Vec<[u8; HEADER_LEN]>,
    /// The places of the entries under way in the data area, and the buffer of each.
    places: HashMap<RequestTag, (u32, Option<BufferId>)>,
}

type DirectWire = Wire<Pair>;

/// For all requests, all orders of answers and all ways to split the streams: reads return the data
/// that was written, atomic operations return the previous words, every request is answered once
/// with its status, and all buffers are returned.
pub fn check_pair(scenario: PairScenario) {
    let block_size = scenario.block_size();
    let volume_len = if scenario.sealed { SEALED_VOLUME_LEN } else { VOLUME_LEN };
    let pair = Pair {
        scenario,
        handle: VolumeHandle(0),
        revoked: Revoked::new([6; 16]),
        submitted: Vec::new(),
        places: HashMap::new(),
    };
    let volume = volume(volume_len, block_size);
    let mut wire = Wire::new(pair, scenario.seed, volume, VOLUME_LEN);
    let exports = Arc::new(exports(scenario, volume_len, block_size));
    let config = SessionConfig {
        anonymous: !scenario.with_key,
        local: scenario.by_rings,
        credits: 16,
        digests: scenario.digests,
        ..SessionConfig::with_nonce([1; 16])
    };
    let client = ClientSession::new(ClientConfig {
        key: scenario.with_key.then(|| (KEY.into(), secret())),
        digests: scenario.digests,
        rings: scenario.by_rings,
        nonce: [2; 16],
    });
    wire.connect(client, TargetSession::new(config, exports, Nanos(0)));
    open(&mut wire);
    wire.run(scenario.operations);
}

fn exports(scenario: PairScenario, volume_len: usize, block_size: BlockSize) -> Exports {
    let on_replica = scenario.on_replica();
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
    // In two adjacent parts, so that requests cross from one to the other.
    let grants = [(0..4099, Rights::READ_WRITE), (4099..1 << 40, Rights::READ_WRITE)];
    let credential = CredentialExport {
        secret: secret(),
        expired: false,
        access: [(VOLUME, Arc::new(Access::new(grants)))].into(),
    };
    let credentials = scenario.with_key.then(|| (KEY.into(), credential.clone()));
    let exports = Exports::new([(NAME.into(), export)], credentials);
    if on_replica { exports.with_peers(KEY, credential, 1) } else { exports }
}

fn open(wire: &mut DirectWire) {
    assert_eq!(await_event(wire), ClientEvent::Ready);
    if wire.choices.once_in(2) {
        wire.links[0].requesting.session.claim([7; 16]).expect("the session is ready");
        assert_eq!(await_event(wire), ClientEvent::Claimed(Ok(())));
    }
    let number = wire.links[0].requesting.session.open(NAME).expect("the session is ready");
    match await_event(wire) {
        ClientEvent::Opened { number: opened, result: Ok(info) } if opened == number => {
            wire.door.handle = info.handle;
        }
        other => panic!("{other:?}"),
    }
    if wire.door.scenario.sealed {
        open_sealed(wire);
    }
    if wire.door.scenario.by_rings {
        let len = u64::try_from(AREA_LEN).expect("a small area");
        wire.links[0].requesting.session.attach(ENTRIES, len).expect("nothing is in flight");
        assert_eq!(await_event(wire), ClientEvent::Attached(Ok(())));
    }
}

/// The client mints a seal for an object of the volume, and uses it.
fn open_sealed(wire: &mut DirectWire) {
    let handle = wire.door.handle;
    wire.links[0].requesting.session.seal_key(handle).expect("the volume is open");
    let ClientEvent::SealKey { result: Ok(granted), .. } = await_event(wire) else {
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
    let into = wire.choices.once_in(2).then_some(handle);
    wire.links[0].requesting.session.open_sealed(&seal, into).expect("the session is ready");
    match await_event(wire) {
        ClientEvent::Opened { result: Ok(info), .. } => wire.door.handle = info.handle,
        other => panic!("{other:?}"),
    }
}

fn await_event(wire: &mut DirectWire) -> ClientEvent {
    loop {
        if let Some(event) = wire.links[0].requesting.session.poll_event() {
            return event;
        }
        wire.turn(0);
    }
}

impl Door for Pair {
    type Requesting = ClientSession;
    type Serving = TargetSession;
    type Id = RequestTag;
    type Answer = Answer;

    fn submit(wire: &mut DirectWire, link: usize) -> bool {
        if wire.links[link].requesting.session.credits_left() == 0 {
            return false;
        }
        let bytes = some_bytes(&mut wire.choices);
        if !wire.is_free(&bytes) {
            return false;
        }
        match wire.choices.below(if wire.door.scenario.on_replica() { 11 } else { 9 }) {
            0..3 => submit_read(wire, link, bytes),
            3..6 => submit_write(wire, link, bytes),
            6 => submit_discard(wire, link, bytes),
            7 => submit_zero(wire, link, bytes),
            9.. => submit_digest(wire, link, bytes),
            _ => submit_atomic(wire, link, bytes.start),
        }
        true
    }

    fn take_demands(&mut self, link: &mut Link<Self>) {
        let Link { serving, requests, .. } = link;
        let block_len = u64::from(self.scenario.block_size().bytes());
        let attach = take_demands(serving, &mut self.revoked, requests, |demand| {
            if let Demand::Lend(demand) = demand {
                assert!(demand.place.offset.is_multiple_of(block_len), "devices need that");
            }
        });
        if let Some(attach) = attach {
            assert_eq!(attach.entries, ENTRIES);
            serving.memory.area = vec![0xEE; usize::try_from(attach.data_len).expect("small")];
            serving.session.handle_attached(Ok(()));
        }
        assert!(serving.error.is_none(), "a sound client: {:?}", serving.error);
    }

    fn poll_completion(&mut self, link: &mut Link<Self>) -> Option<(RequestTag, Answer)> {
        let Requesting { session, memory, .. } = &mut link.requesting;
        let completion = session.poll_completion()?;
        // The client takes the data out of the area that it shares with the node.
        if let Some((place, Some(buffer))) = self.places.remove(&completion.tag) {
            let bytes = memory.bytes_mut(buffer);
            bytes.copy_from_slice(&link.serving.memory.area[crate::length(place)..][..bytes.len()]);
        }
        Some((completion.tag, (completion.status, completion.value)))
    }

    fn unanswered(target: &TargetSession) -> usize {
        target.requests_in_flight()
    }

    fn turn(wire: &mut DirectWire, link: usize) {
        if wire.choices.once_in(5) {
            move_entries(wire, link);
        }
    }

    /// All bytes outside of a sealed object are as they were.
    fn object(&self, volume: &Volume) -> Vec<u8> {
        let mut others = volume.bytes().to_vec();
        if !self.scenario.sealed {
            return others;
        }
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
}

/// Mostly a few bytes or blocks, often near the edge of a segment; rarely several segments, or
/// past the volume's end.
fn some_bytes(choices: &mut Choices) -> Range<usize> {
    let len = match choices.below(16) {
        0 => 1 + choices.below(AREA_LEN / 8),
        1..8 => 512 << choices.below(5),
        _ => 1 + choices.below(9000),
    };
    let near = match choices.below(4) {
        0 => MIB * (1 + choices.below(2)),
        _ => choices.below(VOLUME_LEN) & !511,
    };
    let start = match choices.below(3) {
        0 => near.saturating_sub(choices.below(len + 1)),
        _ => near,
    };
    if start + len > VOLUME_LEN && !choices.once_in(8) {
        return VOLUME_LEN - len..VOLUME_LEN;
    }
    start..start + len
}

fn submit_read(wire: &mut DirectWire, link: usize, bytes: Range<usize>) {
    let (offset, len, status) = on_wire(&bytes);
    let (buffer, expected) = wire.reading(link, bytes, (status, 0));
    send_request(wire, link, &ClientOperation::Read { buffer, offset, len }, expected);
}

fn submit_write(wire: &mut DirectWire, link: usize, bytes: Range<usize>) {
    let (offset, len, status) = on_wire(&bytes);
    let (buffer, expected) = wire.writing(link, bytes, (status, 0));
    let durable = wire.choices.once_in(4);
    send_request(wire, link, &ClientOperation::Write { buffer, offset, len, durable }, expected);
}

fn submit_discard(wire: &mut DirectWire, link: usize, bytes: Range<usize>) {
    let (offset, len, status) = on_wire(&bytes);
    let block = block_len(wire);
    let whole = bytes.start.next_multiple_of(block)..bytes.end / block * block;
    if status.is_ok() && !whole.is_empty() {
        wire.model[whole].fill(0);
    }
    let expected = Expected::new(bytes, (status, 0));
    send_request(wire, link, &ClientOperation::Discard { offset, len }, expected);
}

/// Mostly whole blocks; parts of blocks are refused, unless the range is out of the volume.
fn submit_zero(wire: &mut DirectWire, link: usize, bytes: Range<usize>) {
    let block = block_len(wire);
    let is_cut = wire.choices.once_in(4);
    let whole = bytes.start / block * block..bytes.end.next_multiple_of(block);
    let bytes = if is_cut { bytes } else { whole };
    if !wire.is_free(&bytes) {
        return;
    }
    let (offset, len, status) = on_wire(&bytes);
    let cut = [(bytes.start, 8), (bytes.len(), 16)];
    let expected = match cut.iter().find(|(at, _)| !at.is_multiple_of(block)) {
        Some((_, field)) if status.is_ok() => Expected::new(bytes, (Status::INVALID_FIELD, *field)),
        _ => wire.clearing(bytes, (status, 0)),
    };
    let (deallocate, durable) = (wire.choices.once_in(2), wire.choices.once_in(4));
    let operation = ClientOperation::Zero { offset, len, deallocate, durable };
    send_request(wire, link, &operation, expected);
}

/// Mostly whole blocks; the client sends no other lengths, and the node refuses other places.
fn submit_digest(wire: &mut DirectWire, link: usize, bytes: Range<usize>) {
    let is_cut = wire.choices.once_in(8);
    let start = if is_cut { bytes.start } else { bytes.start / PAGE * PAGE };
    let len = bytes.len().next_multiple_of(PAGE).min(MIB);
    let bytes = start..start + len;
    if !wire.is_free(&bytes) {
        return;
    }
    let (offset, len, mut status) = on_wire(&bytes);
    let mut value = 0;
    if status.is_ok() && !start.is_multiple_of(PAGE) {
        (status, value) = (Status::INVALID_FIELD, 8);
    }
    let key = u128::from(wire.choices.any()).to_le_bytes();
    let buffer = wire.links[link].requesting.memory.take(crate::length(digests_len(len)));
    let digests = |blocks: &[u8]| -> Vec<u8> {
        blocks.chunks(PAGE).flat_map(|block| block_digest(&key, block)).collect()
    };
    let read = status.is_ok().then(|| digests(&wire.model[bytes.clone()]));
    let operation = ClientOperation::Digest { buffer, offset, len, key };
    let (answer, buffer) = ((status, value), Some(buffer));
    send_request(wire, link, &operation, Expected { bytes, answer, read, buffer });
}

fn submit_atomic(wire: &mut DirectWire, link: usize, near: usize) {
    let start = near.min(VOLUME_LEN - 8) & !7;
    let bytes = start..start + 8;
    if !wire.is_free(&bytes) {
        return;
    }
    let before = u64::from_le_bytes(wire.model[bytes.clone()].try_into().expect("a word"));
    let (offset, _, status) = on_wire(&bytes);
    let (new, durable) = (wire.choices.any(), wire.choices.once_in(2));
    let (operation, after) = match wire.choices.below(3) {
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
    wire.model[bytes.clone()].copy_from_slice(&after.to_le_bytes());
    send_request(wire, link, &operation, Expected::new(bytes, (status, before)));
}

fn send_request(
    wire: &mut DirectWire,
    link: usize,
    operation: &ClientOperation,
    expected: Expected<Answer>,
) {
    let (handle, scenario) = (wire.door.handle, wire.door.scenario);
    if scenario.by_rings {
        let place = place_for(wire, link, operation);
        let client = &mut wire.links[link].requesting.session;
        let submitted = client.submit_entry(handle, operation, place);
        let (tag, entry) = submitted.expect("there is a credit");
        wire.door.submitted.push(entry);
        let buffer = expected.buffer.filter(|_| expected.read.is_some());
        wire.door.places.insert(tag, (place, buffer));
        return wire.expect(link, tag, expected);
    }
    let Requesting { session, memory, .. } = &mut wire.links[link].requesting;
    let payload = match *operation {
        ClientOperation::Write { buffer, .. } => memory.bytes(buffer),
        _ => &[],
    };
    let submitted = if scenario.on_replica() {
        let sent = (Face::Replica, SentIn { term: 5, session: 9, is_digest: false });
        session.submit_on_face(handle, operation, (0, payload), sent)
    } else {
        session.submit(handle, operation, payload)
    };
    wire.expect(link, submitted.expect("there is a credit"), expected);
}

/// Puts a request's payload or operands into the data area, of which each entry has a part.
fn place_for(wire: &mut DirectWire, link: usize, operation: &ClientOperation) -> u32 {
    let part = u32::try_from(AREA_LEN / 8).expect("a small area");
    let used =
        |start: u32| wire.door.places.values().any(|(place, _)| place / part == start / part);
    let mut parts = (0..8).map(|at| at * part).filter(|start| !used(*start));
    let start = parts.next().expect("as many parts as entries");
    let room = part - place_len(operation);
    // Often where a device can reach it.
    let place = match wire.choices.below(3) {
        0 => start + u32::try_from(wire.choices.any() % 61).expect("small").min(room),
        _ => start,
    };
    let at = crate::length(place);
    let Link { requesting, serving, .. } = &mut wire.links[link];
    let area = &mut serving.memory.area;
    match *operation {
        ClientOperation::Write { buffer, .. } => {
            let payload = requesting.memory.bytes(buffer);
            area[at..at + payload.len()].copy_from_slice(payload);
        }
        ClientOperation::CompareAndSwap { .. } | ClientOperation::FetchAdd { .. } => {
            let (operands, len) = operation.operands();
            area[at..at + len].copy_from_slice(&operands[..len]);
        }
        _ => {}
    }
    place
}

/// Moves entries in both rings.
fn move_entries(wire: &mut DirectWire, link: usize) {
    let Wire { door, choices, links, .. } = wire;
    let link = &mut links[link];
    while link.serving.session.takes_entries() && !door.submitted.is_empty() {
        let entry = door.submitted.swap_remove(choices.below(door.submitted.len()));
        take_entry(&mut link.serving, &entry);
    }
    door.take_demands(link);
    take_ring_output(&mut link.serving, |entry| {
        link.requesting.session.handle_entry(&entry).expect("the node is sound");
    });
}

fn block_len(wire: &DirectWire) -> usize {
    usize::try_from(wire.volume.block_size().bytes()).expect("small")
}

/// A range in its wire form, and the expected status of a request for it.
fn on_wire(bytes: &Range<usize>) -> (u64, u32, Status) {
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
