//! The hosts: operations at any node, and the judgement of their answers.

use nearflash_device::{DeviceId, DeviceOperation, DeviceRequest, DeviceResult, OperationId};
use nearflash_request::{BufferId, Outcome};
use nearflash_units::{ByteLen, ByteOffset, index};

use super::device::buffer_of;
use super::history::{End, Time};
use super::{
    At, BLOCK, BLOCKS, Event, FIRST, FORWARDED, LAST_OP, MICRO, MILLI, MIRRORS, NODES,
    REPLICA_NODES, Run,
};
use crate::{MirrorId, REDRIVE, Role};

/// The time after which nothing that a dead node has forwarded arrives. Its hosts must not write the same
/// blocks by another path before.
const GHOST: Time = 2_000 * MILLI;

/// The time after which the nodes go on without one whose core does not turn: three seconds, a lease, and the
/// change of the record.
const STALL_NOTED: Time = 5_000 * MILLI;

#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    at: At,
    life: u64,
    mirror: u32,
    operation: DeviceOperation,
    first: u64,
    len: u64,
    start: Time,
    /// When its node had it whole.
    came: Time,
    is_started: bool,
    is_over: bool,
}

impl Op {
    pub(super) fn is_open(&self) -> bool {
        !self.is_over
    }

    pub(super) fn is_on(&self, mirror: u32) -> bool {
        self.mirror == mirror
    }
}

impl Run {
    /// Begins an operation of a host.
    pub(super) fn next_op(&mut self) {
        if self.now > LAST_OP {
            return;
        }
        if self.ops.is_empty() {
            // Stamp 0 is what a block holds at first, so the first operation writes nothing.
            self.ops.push(self.idle_op());
        }
        let node = self.draw(NODES);
        if !self.nodes[node].is_up || self.nodes[node].is_closed {
            return self.later(self.now + 20 * MILLI, Event::NextOp);
        }
        let number = u32::try_from(self.ops.len()).expect("they are few");
        let core = self.draw(self.nodes[node].cores.len());
        if self.stalled_until((node, core)) > self.now && self.has_many_open_on((node, core)) {
            return self.later(self.now + MILLI, Event::NextOp);
        }
        let mirror = u32::try_from(self.random.below(MIRRORS.into())).expect("it is small");
        if self.nodes[node].gone.contains(&mirror) {
            return self.later(self.now + MILLI, Event::NextOp);
        }
        let first = self.random.below(BLOCKS);
        let len = 1 + self.random.below((BLOCKS - first).min(3));
        let (buffer, buffer_offset) = (BufferId(number), ByteLen(0));
        // Where only repairs are of interest, few blocks are written before them.
        let few = if self.tears && self.random.below(20) > 0 { 9 } else { 0 };
        let operation = match few + self.random.below(20 - few) {
            0..9 => DeviceOperation::Write { buffer, buffer_offset, durable: false },
            9..17 => DeviceOperation::Read { buffer: Some(buffer), buffer_offset },
            17..19 => DeviceOperation::Flush,
            _ => DeviceOperation::Deallocate,
        };
        let (at, start, came, life) = ((node, core), self.now, self.now, self.nodes[node].life);
        let (is_started, is_over) = (false, false);
        self.ops.push(Op {
            at,
            life,
            mirror,
            operation,
            first,
            len,
            start,
            came,
            is_started,
            is_over,
        });
        let blocks = index(u32::try_from(len).expect("it is small"));
        self.buffers.insert(number, vec![number.into(); blocks]);
        if let DeviceOperation::Write { .. } = operation {
            for block in first..first + len {
                self.blocks.entry((mirror, block)).or_default().write(number.into(), start);
            }
        }
        self.open += 1;
        let until = self.nodes[node].paused_until.max(self.stalled_until(at));
        if until > self.now {
            // It waits in the socket.
            let op = index(number);
            return self.later(until, Event::Submit(op));
        }
        self.submit(index(number));
    }

    pub(super) fn submit(&mut self, number: usize) {
        let Op { at, life, mirror, operation, first, len, .. } = self.ops[number];
        if !self.nodes[at.0].is_up || self.nodes[at.0].life != life {
            return;
        }
        let io = u32::try_from(number).expect("they are few");
        let id = OperationId { io, op: 0, generation: 0 };
        let device = DeviceId(FIRST + mirror);
        let (offset, len) = (ByteOffset(first * BLOCK), ByteLen(len * BLOCK));
        self.ops[number].came = self.now;
        self.with_core(at, |core| {
            core.submit(MirrorId(mirror), DeviceRequest { id, device, operation, offset, len })
        });
    }

    fn idle_op(&self) -> Op {
        let operation = DeviceOperation::Deallocate;
        let (at, mirror, first, len, start, came, life) = ((0, 0), 0, 0, 0, 0, 0, 0);
        let (is_started, is_over) = (true, true);
        Op { at, life, mirror, operation, first, len, start, came, is_started, is_over }
    }

    /// No write of a host of this node is started when it is too old.
    pub(super) fn check_age(&mut self, at: At, operation: DeviceOperation) {
        let DeviceOperation::Write { buffer, .. } = operation else { return };
        let clock = self.nodes[at.0].clock(self.now);
        if buffer.0 >= FORWARDED {
            return;
        }
        let began = self.nodes[at.0].clock(self.ops[index(buffer.0)].came);
        let op = &mut self.ops[index(buffer.0)];
        if let DeviceOperation::Read { .. } = op.operation {
            // It is repaired.
            return;
        }
        let is_late = !op.is_started && clock > began.plus(REDRIVE);
        op.is_started = true;
        if is_late {
            self.wrong(format!("write {} was started late", buffer.0));
        }
    }

    /// A host has its answer.
    pub(super) fn ended(&mut self, number: usize, result: DeviceResult) {
        let op = self.ops[number];
        self.trace(|| format!("ended {number} {op:?} {result:?}"));
        self.ops[number].is_over = true;
        self.open -= 1;
        self.check_served(op, result);
        let buffer = buffer_of(op.operation).map(|buffer| buffer.0);
        if buffer.is_some_and(|buffer| self.uses.get(&buffer).is_some_and(|uses| *uses > 0)) {
            self.wrong(format!("operation {number} has ended, and its buffer is in use"));
        }
        match op.operation {
            DeviceOperation::Write { .. } => self.write_ended(number as u64, op, result),
            DeviceOperation::Read { .. } if result == DeviceResult::Done => {
                self.count("reads");
                let buffer = buffer.expect("a read has a buffer");
                let stamps = self.buffers.remove(&buffer).expect("it is there");
                for (block, stamp) in (op.first..).zip(stamps) {
                    self.check_seen(op, block, stamp);
                    let history = self.blocks.entry((op.mirror, block)).or_default();
                    if let Err(problem) = history.read(stamp, op.start, self.now) {
                        self.wrong(format!("mirror {} block {block}: {problem}", op.mirror));
                    }
                }
            }
            DeviceOperation::Read { .. } if result == DeviceResult::MediumError => {
                self.count("reads of scratched blocks that failed");
            }
            DeviceOperation::Read { .. } => self.count("reads that failed"),
            DeviceOperation::Flush if self.is_suspect(op) => {
                self.count("flushes that failed over lost writes");
            }
            DeviceOperation::Flush if result == DeviceResult::Done => self.flush_ended(op),
            _ => {}
        }
        self.think();
    }

    /// The other replica serves everything soon after a core of this node has ceased to turn. Others may hear
    /// of it late.
    fn check_served(&mut self, op: Op, result: DeviceResult) {
        let Some((node, stall)) = self.stall.clone() else { return };
        if op.at.0 == node || op.at.0 >= REPLICA_NODES || !stall.contains(&op.start) {
            return;
        }
        self.count("operations while a core does not turn");
        let noted = stall.start + STALL_NOTED;
        let has_failed = op.start >= noted && result != DeviceResult::Done;
        if has_failed || self.now > op.start.max(noted) + 1_000 * MILLI {
            self.wrong(format!("{op:?} ended with {result:?} while a core of node {node} hangs"));
        }
    }

    /// Whether a core that does not turn has its share of the operations.
    fn has_many_open_on(&self, at: At) -> bool {
        self.ops.iter().filter(|op| !op.is_over && op.at == at).count() > 2
    }

    fn think(&mut self) {
        let span = if self.random.below(10) == 0 { 150 * MILLI } else { 8 * MILLI };
        let at = self.now + 100 * MICRO + self.random.below(span);
        self.later(at, Event::NextOp);
    }

    /// The replicas that count: in sync, in the incarnation that the record names.
    fn members(&self, mirror: u32) -> Vec<usize> {
        let record = &self.store.records[index(mirror)].record;
        let home = |replica| self.store.places[index(mirror)].homes[index(replica)];
        let members = record.in_sync.iter().map(|it| (home(it.replica), it.incarnation));
        members
            .filter(|(node, incarnation)| !self.nodes[*node].has_crashed_since(*incarnation))
            .map(|(node, _)| node)
            .collect()
    }

    /// Whether a replica has this write of a block or a later one, in the order in which the first
    /// replica applied them.
    fn has(&mut self, node: usize, place: u64, stamp: u64, is_durable: bool) -> bool {
        let order = self.orders.entry(place).or_default();
        let later = order.iter().position(|it| *it == stamp).map_or(&[][..], |at| &order[at..]);
        let cell = self.nodes[node].device.cell(place);
        let held = if is_durable { &cell.log[..cell.durable] } else { &cell.log[..] };
        held.contains(&stamp) || held.iter().any(|it| later.contains(it))
    }

    /// Every replica in sync has the bytes that a read returns, or has accepted them.
    fn check_seen(&mut self, op: Op, block: u64, stamp: u64) {
        let place = u64::from(op.mirror) * BLOCKS + block;
        for member in self.members(op.mirror).into_iter().filter(|_| stamp != 0) {
            let is_there = self.nodes[member].device.accepted.contains(&(stamp, place));
            if !is_there && !self.has(member, place, stamp, false) {
                self.wrong(format!("{stamp} was read, and node {member} has not accepted it"));
            }
        }
    }

    fn write_ended(&mut self, stamp: u64, op: Op, result: DeviceResult) {
        let end = match result {
            DeviceResult::Done => End::Acked(self.now),
            DeviceResult::Remote(Outcome::DeviceUnavailable) => End::Refused,
            _ => End::Unknown(self.now),
        };
        if result == DeviceResult::Remote(Outcome::PathLost) {
            self.count("paths lost");
        }
        self.count(match end {
            End::Acked(_) => "writes",
            End::Refused => "writes refused",
            _ => "writes unknown",
        });
        let members = self.members(op.mirror);
        for block in op.first..op.first + op.len {
            let is_acked = self.blocks.entry((op.mirror, block)).or_default().end(stamp, end);
            if let End::Acked(at) = end {
                let answered = self.answered.entry((op.at.0, op.mirror)).or_default();
                answered.push((stamp, block, at));
            }
            let place = u64::from(op.mirror) * BLOCKS + block;
            for member in members.iter().copied().filter(|_| is_acked) {
                if !self.has(member, place, stamp, false) {
                    self.wrong(format!("{stamp} was acknowledged, and node {member} has it not"));
                }
            }
        }
    }

    /// Whether answered writes of its node may be lost. Its host hears of that, and the operator clears it.
    fn is_suspect(&mut self, op: Op) -> bool {
        let is_suspect = self.nodes[op.at.0].health[index(op.mirror)].clear();
        if is_suspect {
            self.answered.remove(&(op.at.0, op.mirror));
        }
        is_suspect
    }

    /// A write that was answered over this node before a flush that succeeds there is durable, whatever was lost
    /// before.
    fn check_answered(&mut self, op: Op) {
        let answered = self.answered.entry((op.at.0, op.mirror)).or_default();
        let covered: Vec<_> = answered.extract_if(.., |(.., at)| *at < op.start).collect();
        let members = self.members(op.mirror);
        for (stamp, block, _) in covered {
            let place = u64::from(op.mirror) * BLOCKS + block;
            let is_kept = members.iter().all(|member| self.has(*member, place, stamp, true));
            if !is_kept {
                self.wrong(format!("a flush succeeds after {stamp} was answered and lost"));
            }
        }
    }

    fn flush_ended(&mut self, op: Op) {
        self.count("flushes");
        self.check_answered(op);
        let members = self.members(op.mirror);
        for block in 0..BLOCKS {
            let Some(history) = self.blocks.get_mut(&(op.mirror, block)) else { continue };
            let acked = history.flush(op.start);
            let place = u64::from(op.mirror) * BLOCKS + block;
            for (stamp, member) in acked.iter().flat_map(|s| members.iter().map(move |m| (*s, *m)))
            {
                if !self.has(member, place, stamp, true) {
                    self.wrong(format!("{stamp} was flushed, and is not durable at node {member}"));
                }
            }
        }
    }

    pub(super) fn has_open_ops(&self, node: usize) -> bool {
        let life = self.nodes[node].life;
        self.ops.iter().any(|op| !op.is_over && op.at.0 == node && op.life == life)
    }

    /// The process of a node has died, and with it the connections of its hosts.
    pub(super) fn hosts_lose(&mut self, node: usize) {
        let life = self.nodes[node].life;
        for number in 0..self.ops.len() {
            let op = self.ops[number];
            if op.is_over || op.at.0 != node || op.life != life {
                continue;
            }
            self.ops[number].is_over = true;
            self.open -= 1;
            if let DeviceOperation::Write { .. } = op.operation {
                self.count("writes of hosts that lost their node");
                for block in op.first..op.first + op.len {
                    let history = self.blocks.entry((op.mirror, block)).or_default();
                    history.end(number as u64, End::Unknown(self.now + GHOST));
                }
            }
            self.think();
        }
    }

    /// When all that is in sync has crashed, or has lost its power, some of what was promised may be
    /// lost, as on one disk.
    pub(super) fn excuse(&mut self) {
        for mirror in 0..MIRRORS {
            let record = self.store.records[index(mirror)].record.clone();
            let homes = &self.store.places[index(mirror)].homes;
            let node = |replica: u32| &self.nodes[homes[index(replica)]];
            let has_crashed = |incarnation, replica| node(replica).has_crashed_since(incarnation);
            let has_lost = |incarnation, replica| node(replica).has_lost_power_since(incarnation);
            let all_crashed =
                record.in_sync.iter().all(|it| has_crashed(it.incarnation, it.replica));
            let all_lost = record.in_sync.iter().all(|it| has_lost(it.incarnation, it.replica));
            let primary = record.element(record.primary);
            let primary_lost = primary.is_some_and(|it| has_lost(it.incarnation, it.replica));
            if !(all_lost || all_crashed && primary_lost) {
                continue;
            }
            self.count("excuses");
            for block in 0..BLOCKS {
                if let Some(history) = self.blocks.get_mut(&(mirror, block)) {
                    history.excuse(self.now, all_lost);
                }
            }
        }
    }

    /// A replica that enters has what the primary has, but for writes that are under way.
    pub(super) fn check_equal(&mut self, mirror: u32, new: usize, primary: usize) {
        for block in 0..BLOCKS {
            let place = u64::from(mirror) * BLOCKS + block;
            let stamps = [new, primary].map(|node| self.nodes[node].device.cell(place).stamp());
            let is_under_way = self.ops.iter().any(|op| {
                let is_here = op.mirror == mirror && (op.first..op.first + op.len).contains(&block);
                let is_write = matches!(op.operation, DeviceOperation::Write { .. });
                is_write && is_here && op.start + 15_000 * MILLI > self.now
            });
            if stamps[0] != stamps[1] && !is_under_way {
                self.wrong(format!("a replica that differs enters: block {block}, {stamps:?}"));
            }
        }
    }

    /// Whether a node is primary in a later term than that.
    pub(super) fn is_open_later(&self, node: usize, mirror: u32, term: crate::Term) -> bool {
        let id = MirrorId(mirror);
        self.nodes[node].cores.iter().any(|core| {
            core.role(id).is_some_and(|(role, now)| role == Role::Primary && now > term)
        })
    }
}
