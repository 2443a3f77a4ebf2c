//! Engines of two cores over one device whose operations end in any order.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use nearflash_device::{DeviceId, DeviceOperation, DeviceProperties, DeviceRequest, DeviceResult};
use nearflash_request::{
    BlockRange, BufferId, Completion, Nexus, Operation, Outcome, Payload, Request, Tag, VolumeId,
};
use nearflash_space::{Epoch, Extent, Map, Stripes, VolumeTable};
use nearflash_units::{BlockSize, Blocks, ByteLen, ByteOffset, Lba, Nanos};
use proptest::prelude::*;

use crate::{
    AccountId, Answer, Asker, CoreId, DEVICE_DEPTH, Engine, EngineConfig, FenceMessage, Foreign,
    Owner, Pool, TraceId,
};

mod bytes;
mod counts;
mod depth;
mod edges;
mod steps;
mod trace;
mod wants;

const BLOCK: usize = 512;
const MIB: u64 = 1 << 20;
/// The volume's two extents meet at this block: ranges around it have two pieces.
const SEAM: u64 = MIB / 512;
const VOLUME: VolumeId = VolumeId(0);

/// A small generator, so that a case is its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

struct Node {
    engines: Vec<Engine>,
    pools: Vec<Pool>,
    device: Vec<u8>,
    /// For each sector of the device: it has been written and not deallocated.
    mapped: Vec<bool>,
    in_flight: Vec<(usize, DeviceRequest)>,
    messages: BTreeMap<(usize, usize), VecDeque<FenceMessage>>,
    answers: Vec<(usize, Answer)>,
    dice: Dice,
    /// The block size of the device in bytes: one block of the volume, or several.
    unit: usize,
}

fn table() -> Arc<VolumeTable> {
    Arc::new(VolumeTable::new([(VOLUME, map())]))
}

fn map() -> Map {
    Map::new(Epoch(1), BlockSize::B512, Blocks(2 * SEAM), &extents()).unwrap()
}

/// The second extent lies before the first on the device.
fn extents() -> [Extent; 2] {
    [2 * MIB, MIB].map(|start| {
        let (device, start) = (DeviceId(0), ByteOffset(start));
        Extent { device, start, len: ByteLen(MIB) }
    })
}

impl Node {
    /// With an even seed, the device's blocks are larger than the volume's.
    fn new(cores: u16, seed: u64) -> Self {
        let is_coarse = seed.is_multiple_of(2);
        let block_size = if is_coarse { BlockSize::B4096 } else { BlockSize::B512 };
        let device = DeviceProperties {
            len: ByteLen(4 * MIB),
            block_size,
            volatile_cache: true,
            reads_as_zeroes: false,
            deallocates: true,
        };
        let pool_len = ByteLen(if is_coarse { 3 * MIB } else { 2 * MIB });
        let mut pools: Vec<Pool> = (0..cores).map(|_| Pool::new(pool_len)).collect();
        let config = |core| EngineConfig {
            core: CoreId(core),
            core_count: cores,
            devices: Arc::from([device]),
            health: Arc::new([Arc::default()]),
            volumes: table(),
            device_depth: DEVICE_DEPTH,
        };
        let engines = (0..cores).zip(&mut pools).map(|(c, pool)| Engine::new(config(c), pool));
        Self {
            engines: engines.collect(),
            pools,
            device: vec![0; 4 << 20],
            mapped: vec![false; (4 << 20) / BLOCK],
            in_flight: Vec::new(),
            messages: BTreeMap::new(),
            answers: Vec::new(),
            dice: Dice(seed),
            unit: ByteLen(block_size.bytes().into()).to_usize(),
        }
    }

    fn payload(&mut self, core: usize, bytes: &[u8]) -> BufferId {
        let buffer = self.pools[core].take(ByteLen::of(bytes)).unwrap();
        self.pools[core].bytes_mut(buffer)[..bytes.len()].copy_from_slice(bytes);
        buffer
    }

    fn submit(&mut self, core: usize, tag: u32, range: (u64, u64), operation: Operation) {
        let range = BlockRange { start: Lba(range.0), count: Blocks(range.1) };
        let request = Request { tag: Tag(tag), volume: VOLUME, range, operation, sent_in: None };
        self.ask(core, Nexus::NONE, request);
    }

    /// Gives each request its own account, so that no share is used up.
    fn ask(&mut self, core: usize, nexus: Nexus, request: Request) {
        let account = self.engines[core].accounts().open(None);
        let asker = Asker { owner: Owner(core as u64), account, nexus, begin_by: Nanos::NEVER };
        self.engines[core].submit(asker, request, &mut self.pools[core]);
    }

    fn ask_as(&mut self, account: AccountId, tag: u32, operation: Operation) {
        let range = BlockRange { start: Lba(0), count: Blocks(8) };
        let request = Request { tag: Tag(tag), volume: VOLUME, range, operation, sent_in: None };
        let asker = Asker { owner: Owner(0), account, nexus: Nexus::NONE, begin_by: Nanos::NEVER };
        self.engines[0].submit(asker, request, &mut self.pools[0]);
    }

    fn collect(&mut self) {
        for core in 0..self.engines.len() {
            let engine = &mut self.engines[core];
            engine.resume(&mut self.pools[core]);
            self.in_flight
                .extend(std::iter::from_fn(|| engine.poll_device()).map(|(r, _)| (core, r)));
            self.answers.extend(std::iter::from_fn(|| engine.poll_answer()).map(|a| (core, a)));
            while let Some((to, message)) = engine.poll_fence() {
                self.messages.entry((core, usize::from(to.0))).or_default().push_back(message);
            }
        }
    }

    /// Performs one random event. Returns `false` when none is possible.
    fn step(&mut self, check: &mut impl FnMut(&[u8], &[u8])) -> bool {
        self.collect();
        let waiting: Vec<(usize, usize)> =
            self.messages.iter().filter(|(_, q)| !q.is_empty()).map(|(k, _)| *k).collect();
        let choices = self.in_flight.len() + waiting.len();
        if choices == 0 {
            return false;
        }
        let choice = self.dice.below(choices);
        if let Some(road) = choice.checked_sub(self.in_flight.len()).map(|i| waiting[i]) {
            let message = self.messages.get_mut(&road).unwrap().pop_front().unwrap();
            self.engines[road.1].handle_fence(message, &mut self.pools[road.1]);
        } else {
            let (core, request) = self.in_flight.swap_remove(choice);
            let result = self.apply(core, &request, check);
            let pool = &mut self.pools[core];
            self.engines[core].handle_device(request.id, result, pool);
            self.engines[core].resume(pool);
        }
        true
    }

    /// Operations take effect when they end. `check` sees what a write replaces, and the write.
    fn apply(
        &mut self,
        core: usize,
        request: &DeviceRequest,
        check: &mut impl FnMut(&[u8], &[u8]),
    ) -> DeviceResult {
        let start = usize::try_from(request.offset.0).unwrap();
        let len = request.len.to_usize();
        if request.operation != DeviceOperation::Allocation {
            let is_whole = start.is_multiple_of(self.unit) && len.is_multiple_of(self.unit);
            assert!(is_whole, "a device takes whole blocks of its own: {request:?}");
        }
        let pool = &mut self.pools[core];
        let part = |at: ByteLen| at.to_usize()..at.to_usize() + len;
        let mapped = &mut self.mapped[start / BLOCK..(start + len) / BLOCK];
        let device = &mut self.device[start..start + len];
        match request.operation {
            DeviceOperation::Read { buffer, buffer_offset } => {
                pool.bytes_mut(buffer.unwrap())[part(buffer_offset)].copy_from_slice(device);
            }
            DeviceOperation::Write { buffer, buffer_offset, .. } => {
                let bytes = &pool.bytes(buffer)[part(buffer_offset)];
                check(device, bytes);
                device.copy_from_slice(bytes);
                mapped.fill(true);
            }
            DeviceOperation::WriteZeroes { deallocate } => {
                device.fill(0);
                mapped.fill(!deallocate);
            }
            DeviceOperation::Deallocate => {
                device.fill(0);
                mapped.fill(false);
            }
            DeviceOperation::Flush => {}
            DeviceOperation::Allocation => {
                let run = mapped.iter().take_while(|it| **it == mapped[0]).count();
                return DeviceResult::run(mapped[0], ByteLen::from_usize(run * BLOCK));
            }
        }
        DeviceResult::Done
    }

    fn run(&mut self) {
        while self.step(&mut |_, _| {}) {}
    }

    /// The answer to the one request in flight, and the bytes it read.
    fn finish(&mut self) -> (Completion, Vec<u8>) {
        self.run();
        let (core, answer) = self.answers.pop().unwrap();
        assert!(self.answers.is_empty(), "answered once");
        let mut bytes = Vec::new();
        if let Payload::Buffer(buffer) = answer.completion.payload {
            bytes = self.pools[core].bytes(buffer).to_vec();
            self.pools[core].give_back(buffer);
        }
        (answer.completion, bytes)
    }

    fn assert_all_returned(&mut self) {
        for (engine, pool) in self.engines.iter().zip(&self.pools) {
            assert_eq!(engine.jobs_len(), 0);
            // All but the engine's reserves.
            let edges = if self.unit > BLOCK { 2 * self.unit } else { 0 };
            let kept = Pool::LEN_MAX.0 + ByteLen::from_usize(edges).0;
            assert_eq!(pool.free_len().0, pool.len().0 - kept);
        }
    }
}

#[test]
fn a_range_past_the_end_and_a_volume_that_is_gone_are_refused() {
    let mut node = Node::new(1, 1);
    let payload = node.payload(0, &[1; BLOCK]);
    let write = Operation::Write { payload, force_unit_access: false };
    node.submit(0, 1, (2 * SEAM, 1), write);
    assert_eq!(node.finish().0.outcome, Outcome::OutOfRange);
    node.engines[0].set_volumes(Arc::new(VolumeTable::default()));
    node.submit(0, 2, (0, 1), Operation::Read);
    assert_eq!(node.finish().0.outcome, Outcome::VolumeGone);
    node.assert_all_returned();
}

#[test]
fn a_failed_piece_fails_the_request_and_its_buffer_comes_back() {
    let mut node = Node::new(1, 1);
    node.submit(0, 1, (SEAM - 1, 2), Operation::Read);
    node.collect();
    let pieces: Vec<DeviceRequest> = node.in_flight.drain(..).map(|(_, r)| r).collect();
    assert_eq!(pieces.len(), 2);
    node.engines[0].handle_device(pieces[0].id, DeviceResult::MediumError, &mut node.pools[0]);
    node.collect();
    assert!(node.answers.is_empty(), "not before all pieces have ended");
    node.engines[0].handle_device(pieces[1].id, DeviceResult::Done, &mut node.pools[0]);
    assert_eq!(node.finish().0.outcome, Outcome::UnrecoveredRead);
    node.assert_all_returned();
}

#[test]
fn zeroes_with_force_unit_access_are_flushed_before_the_answer() {
    let mut node = Node::new(1, 1);
    let operation = Operation::WriteZeroes { deallocate: true, force_unit_access: true };
    node.submit(0, 1, (0, 1), operation);
    node.collect();
    let (_, zero) = node.in_flight.pop().unwrap();
    node.engines[0].handle_device(zero.id, DeviceResult::Done, &mut node.pools[0]);
    node.collect();
    assert!(node.answers.is_empty());
    assert_eq!(node.in_flight[0].1.operation, DeviceOperation::Flush);
    assert_eq!(node.finish().0.outcome, Outcome::Success);
}

#[test]
fn reads_wait_for_buffers_in_order_and_comparisons_use_the_reserve() {
    let mut node = Node::new(1, 1);
    // The pool has one largest buffer in addition to the reserve; the comparison's payload takes
    // it.
    let payload = node.payload(0, &vec![0; 1 << 20]);
    node.submit(0, 1, (0, SEAM), Operation::Read);
    node.submit(0, 2, (0, SEAM), Operation::Compare { payload });
    node.run();
    let order: Vec<u32> = node.answers.iter().map(|(_, a)| a.completion.tag.0).collect();
    assert_eq!(order, [2, 1], "the comparison went on, and then the read had room");
    let (_, read) = node.answers.pop().unwrap();
    let Payload::Buffer(buffer) = read.completion.payload else { panic!("a read has payload") };
    node.pools[0].give_back(buffer);
    node.assert_all_returned();
}

#[test]
fn the_requests_of_a_lost_connection_that_have_not_begun_are_ended() {
    let mut node = Node::new(1, 1);
    let taken = node.payload(0, &vec![0; 1 << 20]);
    node.submit(0, 1, (0, 8), Operation::Read);
    node.engines[0].cancel_waiting(Owner(0), |_| true, &mut node.pools[0]);
    assert_eq!(node.finish().0.outcome, Outcome::Aborted);
    node.pools[0].give_back(taken);
    node.assert_all_returned();
}

#[test]
fn a_long_read_ends_while_short_ones_take_what_comes_back() {
    let mut node = Node::new(1, 1);
    let long = u32::MAX;
    (0..400).for_each(|tag| node.submit(0, tag, (0, 8), Operation::Read));
    node.run();
    node.submit(0, long, (0, SEAM / 2), Operation::Read);
    for tag in 400..2_000 {
        let answered = node.dice.below(node.answers.len());
        let (_, answer) = node.answers.swap_remove(answered);
        let Payload::Buffer(buffer) = answer.completion.payload else { panic!("a read failed") };
        node.pools[0].give_back(buffer);
        if answer.completion.tag == Tag(long) {
            return;
        }
        node.submit(0, tag, (0, 8), Operation::Read);
        node.run();
    }
    panic!("it never had room");
}

#[test]
fn a_device_has_no_more_requests_than_its_depth_and_volumes_and_hosts_take_turns() {
    let mut node = Node::new(1, 1);
    let flood = DEVICE_DEPTH + 1_000;
    let payload = |node: &mut Node| node.pools[0].lend(Foreign { region: 0, offset: 0, len: 4096 });
    let flooding = node.engines[0].accounts().open(Some("who floods"));
    for tag in 0..flood {
        let operation = Operation::ReadInto { buffer: payload(&mut node) };
        node.ask_as(flooding, tag, operation);
    }
    node.collect();
    assert_eq!(node.in_flight.len(), usize::try_from(DEVICE_DEPTH).unwrap());
    let account = node.engines[0].accounts().open(Some("who asks for little"));
    let operation = Operation::ReadInto { buffer: payload(&mut node) };
    node.ask_as(account, flood, operation);
    let mut ended = 0;
    while !node.answers.iter().any(|(_, answer)| answer.completion.tag == Tag(flood)) {
        let (_, request) = node.in_flight.remove(0);
        node.engines[0].handle_device(request.id, DeviceResult::Done, &mut node.pools[0]);
        node.collect();
        ended += 1;
    }
    // The requests that the device had, and a quantum.
    assert!(ended <= DEVICE_DEPTH + 18, "{ended}");
}

/// The pool's buffer comes back first, and the account only after the waiting requests were looked at.
#[test]
fn a_request_that_waits_for_its_hosts_share_begins_when_another_connection_gives_some_back() {
    let mut node = Node::new(1, 1);
    let len = ByteLen(512 << 10);
    let [holding, waiting] = [(); 2].map(|()| node.engines[0].accounts().open(Some("host")));
    let buffer = node.pools[0].take(len).unwrap();
    node.engines[0].accounts().charge(holding, len);
    // A connection that holds nothing would not wait.
    node.engines[0].accounts().charge(waiting, ByteLen(4096));
    node.ask_as(waiting, 1, Operation::Read);
    node.pools[0].give_back(buffer);
    node.collect();
    assert!(node.in_flight.is_empty(), "its host has used up its share");
    node.engines[0].accounts().give_back(holding, len);
    node.collect();
    assert_eq!(node.in_flight.len(), 1);
}

/// A write of a block that says who it is and, in a compare-and-write, what it replaces.
fn stamp(id: u32, expects: Option<u32>) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    block[..4].copy_from_slice(&id.to_le_bytes());
    block[4] = u8::from(expects.is_some());
    block[8..12].copy_from_slice(&expects.unwrap_or_default().to_le_bytes());
    block
}

fn id_of(block: &[u8]) -> u32 {
    u32::from_le_bytes(block[..4].try_into().unwrap())
}

/// No other write comes between the two halves of a compare-and-write, in any order of events.
fn check_compare_and_write_is_atomic(seed: u64, requests: u32) {
    let mut node = Node::new(2, seed);
    let mut contents = vec![vec![0u8; BLOCK]];
    let lba = SEAM;
    for tag in 1..=requests {
        let core = node.dice.below(2);
        let expected = contents[node.dice.below(contents.len())].clone();
        let is_fused = node.dice.below(2) == 0;
        let block = stamp(tag, is_fused.then(|| id_of(&expected)));
        let operation = if is_fused {
            let compare = node.payload(core, &expected);
            let write = node.payload(core, &block);
            Operation::CompareAndWrite { compare, write, force_unit_access: false }
        } else {
            let payload = node.payload(core, &block);
            Operation::Write { payload, force_unit_access: false }
        };
        contents.push(block);
        node.submit(core, tag, (lba, 1), operation);
        for _ in 0..node.dice.below(6) {
            step_checked(&mut node);
        }
    }
    while step_checked(&mut node) {}
    assert_eq!(node.answers.len(), usize::try_from(requests).unwrap(), "each is answered once");
    node.assert_all_returned();
}

fn step_checked(node: &mut Node) -> bool {
    node.step(&mut |before, write| {
        if write[4] == 1 {
            let expects = u32::from_le_bytes(write[8..12].try_into().unwrap());
            assert_eq!(id_of(before), expects, "something came between compare and write");
        }
    })
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Read,
    Write,
    Zero,
    Deallocate,
    Flush,
    Compare,
    CompareAndWrite,
}

fn any_step() -> impl Strategy<Value = (Step, u64, u64, u8)> {
    let step = prop_oneof![
        Just(Step::Read),
        Just(Step::Write),
        Just(Step::Zero),
        Just(Step::Deallocate),
        Just(Step::Flush),
        Just(Step::Compare),
        Just(Step::CompareAndWrite),
    ];
    (step, SEAM - 4..SEAM + 4, 1u64..5, any::<u8>())
}

proptest! {
    #[test]
    fn nothing_comes_between_compare_and_write(seed: u64) {
        check_compare_and_write_is_atomic(seed, 60);
    }

    /// One request at a time, a volume behaves as a plain array.
    #[test]
    fn a_volume_equals_an_array(seed: u64, steps in prop::collection::vec(any_step(), 1..60)) {
        let mut node = Node::new(2, seed);
        let mut model = vec![0u8; 2 << 20];
        for (tag, (step, start, count, fill)) in (0..).zip(steps) {
            let core = node.dice.below(2);
            let bytes = usize::try_from(start).unwrap() * BLOCK;
            let bytes = bytes..bytes + usize::try_from(count).unwrap() * BLOCK;
            let fresh = vec![fill; bytes.len()];
            let operation = match step {
                Step::Read => Operation::Read,
                Step::Write => {
                    Operation::Write { payload: node.payload(core, &fresh), force_unit_access: true }
                }
                Step::Zero => Operation::WriteZeroes { deallocate: fill > 128, force_unit_access: false },
                Step::Deallocate => {
                    let range = BlockRange { start: Lba(start), count: Blocks(count) };
                    Operation::Deallocate { ranges: [range].into(), zeroes: fill > 128 }
                }
                Step::Flush => Operation::Flush,
                Step::Compare => Operation::Compare { payload: node.payload(core, &fresh) },
                Step::CompareAndWrite => {
                    let mut compare = model[bytes.clone()].to_vec();
                    compare[0] ^= u8::from(fill > 128);
                    let compare = node.payload(core, &compare);
                    let write = node.payload(core, &fresh);
                    Operation::CompareAndWrite { compare, write, force_unit_access: false }
                }
            };
            node.submit(core, tag, (start, count), operation);
            let (completion, read) = node.finish();
            prop_assert_eq!(completion.tag, Tag(tag));
            let mut expected = Outcome::Success;
            match step {
                Step::Read => prop_assert_eq!(&read[..bytes.len()], &model[bytes]),
                Step::Write => model[bytes].copy_from_slice(&fresh),
                // A part of a block of the device stays as it is.
                Step::Deallocate if fill <= 128 => {
                    let end = bytes.end / node.unit * node.unit;
                    model[bytes.start.next_multiple_of(node.unit).min(end)..end].fill(0);
                }
                Step::Zero | Step::Deallocate => model[bytes].fill(0),
                Step::Flush => {}
                Step::Compare if model[bytes.clone()] == fresh[..] => {}
                Step::CompareAndWrite if fill <= 128 => model[bytes].copy_from_slice(&fresh),
                Step::Compare | Step::CompareAndWrite => expected = Outcome::Miscompare,
            }
            prop_assert_eq!(completion.outcome, expected);
        }
        node.assert_all_returned();
    }
}
