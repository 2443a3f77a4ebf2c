//! The run of one seed: hosts, cores, devices and connections.

use std::collections::BTreeMap;
use std::sync::Arc;

use nearflash_device::{DeviceId, DeviceOperation, DeviceRequest, DeviceResult, OperationId};
use nearflash_request::{BufferId, Outcome};
use nearflash_units::{ByteLen, ByteOffset, Nanos, index};

use super::Counts;
use super::history::{Block, End, Time};
use super::operator::{Plan, Record};
use super::wire::{Link, LinkKey, Sent};
use super::world::{Device, Random};
use crate::mutant::Mutant;
use crate::{Core, MirrorId, MirrorMessage, MirrorTable, Mirrors, REDRIVE, Submission};

pub(super) const NODES: usize = 3;
pub(super) const MIRRORS: u32 = 3;
/// So few that writes overlap often.
pub(super) const BLOCKS: u64 = 6;
pub(super) const BLOCK: u64 = 4096;
const OPS: usize = 300;
/// Devices: the node's own, replica faces, primary faces, mirrors.
pub(super) const REPLICA_FACES: u32 = 100;
pub(super) const PRIMARY_FACES: u32 = 200;
pub(super) const FIRST: u32 = 1000;
/// Ids of forwarded operations at the primary; those of hosts are smaller.
pub(super) const FORWARDED: u32 = 1 << 20;
pub(super) const MICRO: Time = 1000;
/// The longest run, which no sound one reaches.
const TIME_MAX: Time = 120_000_000_000;

pub(super) type At = (usize, usize);
#[derive(Debug)]
pub(super) enum Event {
    Timeout(At),
    Mail(At, MirrorMessage),
    Table(At, Arc<MirrorTable>, u64),
    Device(At, Submission, Vec<(u64, usize)>),
    Arrive(usize),
    Back(usize, Option<DeviceResult>),
    Claimed(LinkKey),
    Operator(u32),
}

#[derive(Clone, Copy, Debug)]
struct Op {
    at: At,
    mirror: u32,
    operation: DeviceOperation,
    first: u64,
    len: u64,
    start: Time,
    is_started: bool,
}

pub(super) struct Run {
    pub(super) random: Random,
    pub(super) now: Time,
    agenda: BTreeMap<(Time, u64), Event>,
    events: u64,
    pub(super) nodes: Vec<Vec<Mirrors>>,
    pub(super) tables: Vec<MirrorTable>,
    pub(super) versions: Vec<Vec<(u64, Time)>>,
    timeouts: BTreeMap<At, Time>,
    mail: BTreeMap<(usize, usize, usize), Time>,
    pub(super) devices: Vec<Device>,
    pub(super) links: BTreeMap<LinkKey, Link>,
    pub(super) sent: Vec<Sent>,
    ops: Vec<Op>,
    buffers: Vec<Vec<u64>>,
    /// Operations under way with each buffer.
    uses: BTreeMap<BufferId, usize>,
    open: usize,
    blocks: BTreeMap<(u32, u64), Block>,
    /// Reads under way at each node's device, by mirror.
    pub(super) reads: BTreeMap<(usize, u32), usize>,
    pub(super) records: Vec<Record>,
    pub(super) plans: Vec<Plan>,
    pub(super) counts: Counts,
    problem: Option<String>,
    pub(super) lossy: u64,
}

impl Run {
    pub(super) fn new(seed: u64, mutant: Option<Mutant>) -> Self {
        let mut random = Random::new(seed);
        let table = MirrorTable::new();
        let shared = Arc::new(table.clone());
        let mut node = |_| {
            let cores = 1 + u16::try_from(random.below(3)).expect("it is small");
            let core = |core| {
                let mut mirrors = Mirrors::new(Core(core), shared.clone());
                mirrors.mutant = mutant;
                mirrors
            };
            (0..cores).map(core).collect::<Vec<_>>()
        };
        let nodes: Vec<_> = (0..NODES).map(&mut node).collect();
        let versions = nodes.iter().map(|cores| vec![(0, 0); cores.len()]).collect();
        let lossy = if random.below(3) == 0 { 0 } else { 1 + random.below(40) };
        Self {
            random,
            now: 0,
            agenda: BTreeMap::new(),
            events: 0,
            nodes,
            tables: vec![table; NODES],
            versions,
            timeouts: BTreeMap::new(),
            mail: BTreeMap::new(),
            devices: (0..NODES).map(|_| Device::default()).collect(),
            links: BTreeMap::new(),
            sent: Vec::new(),
            ops: Vec::new(),
            buffers: Vec::new(),
            uses: BTreeMap::new(),
            open: 0,
            blocks: BTreeMap::new(),
            reads: BTreeMap::new(),
            records: Vec::new(),
            plans: Vec::new(),
            counts: Counts::new(),
            problem: None,
            lossy,
        }
    }

    pub(super) fn run(mut self) -> Result<Counts, String> {
        self.begin_operator();
        while let Some(((time, _), event)) = self.agenda.pop_first() {
            self.now = time;
            if self.ops.is_empty() && self.has_begun() {
                (0..12).for_each(|_| self.next_op());
            }
            self.handle(event);
            if let Some(problem) = self.problem.take() {
                return Err(format!("at {time}: {problem}"));
            }
            if time > TIME_MAX {
                return Err(format!("{} operations never end", self.open));
            }
        }
        self.check_rest()?;
        Ok(self.counts)
    }

    pub(super) fn count(&mut self, name: &'static str) {
        *self.counts.entry(name).or_default() += 1;
    }

    pub(super) fn wrong(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
    }

    pub(super) fn later(&mut self, time: Time, event: Event) {
        self.events += 1;
        self.agenda.insert((time, self.events), event);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Timeout(at) => {
                self.timeouts.remove(&at);
                self.with_core(at, Mirrors::handle_timeout);
            }
            Event::Mail(at, message) => self.with_core(at, |core| core.handle_message(message)),
            Event::Table(at, table, version) => {
                self.versions[at.0][at.1].0 = version;
                self.with_core(at, |core| core.set_table(table));
            }
            Event::Device(at, submission, covered) => self.device_done(at, submission, &covered),
            Event::Arrive(sent) => self.arrive(sent),
            Event::Back(sent, result) => self.back(sent, result),
            Event::Claimed(link) => self.claimed(link),
            Event::Operator(mirror) => self.operate(mirror),
        }
    }

    /// Lets a core do something, and takes all that results.
    pub(super) fn with_core(&mut self, at: At, act: impl FnOnce(&mut Mirrors)) {
        let core = &mut self.nodes[at.0][at.1];
        core.set_now(Nanos(self.now));
        act(core);
        while let Some(submission) = self.nodes[at.0][at.1].poll_device() {
            self.submission(at, submission);
        }
        while let Some((Core(to), message)) = self.nodes[at.0][at.1].poll_message() {
            let delay = self.random.below(20 * MICRO);
            let last = self.mail.entry((at.0, at.1, to.into())).or_default();
            *last = (self.now + delay).max(*last + 1);
            let time = *last;
            self.count("messages between cores");
            if matches!(message, MirrorMessage::Locked { is_held: false, .. }) {
                self.count("locks that waited");
            }
            self.later(time, Event::Mail((at.0, to.into()), message));
        }
        while self.nodes[at.0][at.1].poll_failure().is_some() {
            self.count("parts that failed");
        }
        while let Some((token, result)) = self.nodes[at.0][at.1].poll_replica() {
            self.answer(usize::try_from(token).expect("it is an index"), result);
        }
        while let Some((id, result)) = self.nodes[at.0][at.1].poll_ended() {
            match id.io.checked_sub(FORWARDED) {
                Some(sent) => self.answer(index(sent), result),
                None => self.ended(index(id.io), result),
            }
        }
        let Some(time) = self.nodes[at.0][at.1].poll_timeout().map(|at| at.0) else { return };
        if self.timeouts.get(&at).is_none_or(|known| *known > time) {
            self.timeouts.insert(at, time);
            self.later(time.max(self.now), Event::Timeout(at));
        }
    }

    fn submission(&mut self, at: At, submission: Submission) {
        let request = submission.request;
        if let Some(buffer) = buffer_of(request.operation) {
            *self.uses.entry(buffer).or_default() += 1;
        }
        if let DeviceOperation::Write { buffer, .. } = request.operation {
            let op = &mut self.ops[index(buffer.0)];
            let age = self.now - op.start;
            let is_late = !op.is_started && op.at == at && age > REDRIVE.0;
            op.is_started = true;
            if is_late {
                self.wrong(format!("a write was started when it was {age} ns old"));
            }
        }
        if request.device != DeviceId(0) {
            return self.transmit_new(at, submission);
        }
        let mut covered = Vec::new();
        match request.operation {
            DeviceOperation::Flush => covered = self.devices[at.0].lengths(),
            DeviceOperation::Read { .. } => {
                *self.reads.entry((at.0, submission.mirror.0)).or_default() += 1;
            }
            DeviceOperation::Deallocate => self.wrong("a hint has reached a device".into()),
            _ => {}
        }
        let is_slow = self.random.permille(30);
        let longest = if is_slow { 8000 * MICRO } else { 300 * MICRO };
        let delay = 20 * MICRO + self.random.below(longest);
        self.later(self.now + delay, Event::Device(at, submission, covered));
    }

    fn device_done(&mut self, at: At, submission: Submission, covered: &[(u64, usize)]) {
        let DeviceRequest { operation, offset, len, .. } = submission.request;
        let blocks = offset.0 / BLOCK..(offset.0 + len.0) / BLOCK;
        let mut result = DeviceResult::Done;
        match operation {
            DeviceOperation::Write { .. } if self.random.permille(5) => {
                self.count("device errors");
                result = DeviceResult::MediumError;
            }
            DeviceOperation::Write { buffer, .. } => {
                for block in blocks {
                    self.devices[at.0].cell(block).log.push(buffer.0.into());
                }
            }
            DeviceOperation::Flush => {
                for (block, len) in covered {
                    let cell = self.devices[at.0].cell(*block);
                    cell.durable = cell.durable.max(*len);
                }
            }
            DeviceOperation::Read { buffer: Some(buffer), .. } => {
                *self.reads.get_mut(&(at.0, submission.mirror.0)).expect("it has begun") -= 1;
                self.read_done(at.0, submission.mirror, buffer, blocks);
            }
            _ => {}
        }
        self.result(at, submission.request, result);
    }

    /// Gives a core the result of one of its operations.
    pub(super) fn result(&mut self, at: At, request: DeviceRequest, result: DeviceResult) {
        if let Some(buffer) = buffer_of(request.operation) {
            *self.uses.get_mut(&buffer).expect("it is in use") -= 1;
        }
        self.with_core(at, |core| core.handle_device(request.id, result));
    }

    /// Every replica in sync has the bytes that the primary reads, or has accepted them.
    fn read_done(
        &mut self,
        node: usize,
        mirror: MirrorId,
        buffer: BufferId,
        blocks: std::ops::Range<u64>,
    ) {
        let members = self.records[index(mirror.0)].members.clone();
        let mut stamps = Vec::new();
        for block in blocks {
            let stamp = self.devices[node].cell(block).stamp();
            stamps.push(stamp);
            for member in members.iter().copied().filter(|_| stamp != 0) {
                let device = &mut self.devices[member];
                let is_there = device.accepted.contains(&(stamp, block));
                if !is_there && !device.cell(block).log.contains(&stamp) {
                    self.wrong(format!("{stamp} was read, and node {member} has not accepted it"));
                }
            }
        }
        self.buffers[index(buffer.0)] = stamps;
    }

    fn next_op(&mut self) {
        if self.ops.len() >= OPS {
            return;
        }
        let number = u32::try_from(self.ops.len()).expect("they are few");
        if self.ops.is_empty() {
            // Stamp 0 is what a block holds at first, so the first operation writes nothing.
            self.ops.push(self.idle_op());
            self.buffers.push(Vec::new());
            return self.next_op();
        }
        let node = index(u32::try_from(self.random.below(NODES as u64)).expect("it is small"));
        let cores = self.nodes[node].len() as u64;
        let core = index(u32::try_from(self.random.below(cores)).expect("it is small"));
        let mirror = u32::try_from(self.random.below(MIRRORS.into())).expect("it is small");
        let first = self.random.below(BLOCKS);
        let len = 1 + self.random.below((BLOCKS - first).min(3));
        let (buffer, buffer_offset) = (BufferId(number), ByteLen(0));
        let operation = match self.random.below(20) {
            0..9 => DeviceOperation::Write { buffer, buffer_offset, durable: false },
            9..17 => DeviceOperation::Read { buffer: Some(buffer), buffer_offset },
            17..19 => DeviceOperation::Flush,
            _ => DeviceOperation::Deallocate,
        };
        let (at, start, is_started) = ((node, core), self.now, false);
        self.ops.push(Op { at, mirror, operation, first, len, start, is_started });
        self.buffers.push(Vec::new());
        if let DeviceOperation::Write { .. } = operation {
            for block in first..first + len {
                self.blocks.entry((mirror, block)).or_default().write(number.into(), start);
            }
        }
        self.open += 1;
        let id = OperationId { io: number, op: 0, generation: 0 };
        let device = DeviceId(FIRST + mirror);
        let (offset, len) = (ByteOffset(first * BLOCK), ByteLen(len * BLOCK));
        self.with_core(at, |core| {
            core.submit(MirrorId(mirror), DeviceRequest { id, device, operation, offset, len })
        });
    }

    fn idle_op(&self) -> Op {
        let operation = DeviceOperation::Deallocate;
        Op { at: (0, 0), mirror: 0, operation, first: 0, len: 0, start: self.now, is_started: true }
    }

    /// A host has its answer.
    fn ended(&mut self, number: usize, result: DeviceResult) {
        let op = self.ops[number];
        self.open -= 1;
        if buffer_of(op.operation)
            .is_some_and(|buffer| self.uses.get(&buffer).is_some_and(|uses| *uses > 0))
        {
            self.wrong(format!("operation {number} has ended, and its buffer is in use"));
        }
        match op.operation {
            DeviceOperation::Write { .. } => self.write_ended(number as u64, op, result),
            DeviceOperation::Read { .. } if result == DeviceResult::Done => {
                self.count("reads");
                let stamps = std::mem::take(&mut self.buffers[number]);
                for (block, stamp) in (op.first..).zip(stamps) {
                    let history = self.blocks.entry((op.mirror, block)).or_default();
                    if let Err(problem) = history.read(stamp, op.start, self.now) {
                        self.wrong(problem);
                    }
                }
            }
            DeviceOperation::Flush if result == DeviceResult::Done => self.flush_ended(op),
            _ => {}
        }
        self.next_op();
    }

    fn write_ended(&mut self, stamp: u64, op: Op, result: DeviceResult) {
        let end = match result {
            DeviceResult::Done => End::Acked(self.now),
            DeviceResult::Remote(Outcome::DeviceUnavailable) => End::Refused,
            _ => End::Unknown(self.now),
        };
        self.count(match end {
            End::Acked(_) => "writes",
            End::Refused => "writes refused",
            _ => "writes unknown",
        });
        let members = self.records[index(op.mirror)].members.clone();
        for block in op.first..op.first + op.len {
            self.blocks.entry((op.mirror, block)).or_default().end(stamp, end);
            let place = u64::from(op.mirror) * BLOCKS + block;
            for member in members.iter().copied().filter(|_| result == DeviceResult::Done) {
                if !self.devices[member].cell(place).log.contains(&stamp) {
                    self.wrong(format!("{stamp} was acknowledged, and node {member} has it not"));
                }
            }
        }
    }

    fn flush_ended(&mut self, op: Op) {
        self.count("flushes");
        let members = self.records[index(op.mirror)].members.clone();
        for block in 0..BLOCKS {
            let Some(history) = self.blocks.get(&(op.mirror, block)) else { continue };
            let is_before = |end: End| matches!(end, End::Acked(at) if at < op.start);
            let acked: Vec<u64> = history
                .writes
                .iter()
                .filter(|(_, w)| is_before(w.end))
                .map(|(stamp, _)| *stamp)
                .collect();
            let place = u64::from(op.mirror) * BLOCKS + block;
            for (stamp, member) in acked.iter().flat_map(|s| members.iter().map(move |m| (*s, *m)))
            {
                if !self.devices[member].cell(place).is_durable(stamp) {
                    self.wrong(format!("{stamp} was flushed, and is not durable at node {member}"));
                }
            }
        }
    }

    fn check_rest(&mut self) -> Result<(), String> {
        if self.open > 0 || self.ops.len() < OPS {
            return Err(format!("{} operations hang", self.open));
        }
        for (node, cores) in self.nodes.iter().enumerate() {
            if !cores.iter().all(Mirrors::is_idle) {
                return Err(format!("node {node} is not idle at rest: {cores:?}"));
            }
        }
        for (mirror, record) in (0_u64..).zip(&self.records) {
            for block in mirror * BLOCKS..(mirror + 1) * BLOCKS {
                let stamps: Vec<u64> =
                    record.members.iter().map(|m| self.devices[*m].cell(block).stamp()).collect();
                if stamps.windows(2).any(|pair| pair[0] != pair[1]) {
                    return Err(format!("replicas differ at rest in block {block}: {stamps:?}"));
                }
            }
        }
        Ok(())
    }
}

fn buffer_of(operation: DeviceOperation) -> Option<BufferId> {
    match operation {
        DeviceOperation::Write { buffer, .. } => Some(buffer),
        DeviceOperation::Read { buffer, .. } => buffer,
        _ => None,
    }
}
