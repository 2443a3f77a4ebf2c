//! The devices of the nodes, and the buffers of their operations.

use std::collections::BTreeMap;

use nearflash_device::{DeviceOperation, DeviceRequest, DeviceResult};
use nearflash_request::BufferId;
use nearflash_units::ByteLen;

use super::world::Random;
use super::{At, BLOCK, COPIES, Event, MICRO, MILLI, Run};
use crate::mutant::Mutant;
use crate::{Buffers, DigestKey, Submission};

/// The buffers of copies.
pub(super) struct CopyBuffers<'a> {
    pub(super) buffers: &'a mut BTreeMap<u32, Vec<u64>>,
    pub(super) next: &'a mut u32,
    pub(super) may_take: bool,
    pub(super) mutant: Option<Mutant>,
}

impl Buffers for CopyBuffers<'_> {
    fn take(&mut self, len: ByteLen) -> Option<BufferId> {
        if !self.may_take {
            return None;
        }
        *self.next += 1;
        let id = COPIES + *self.next;
        let blocks = len.0 / BLOCK;
        self.buffers.insert(id, vec![u64::MAX; usize::try_from(blocks).expect("they are few")]);
        Some(BufferId(id))
    }

    fn take_for_digests(&mut self, len: ByteLen) -> Option<BufferId> {
        self.take(len)
    }

    fn give(&mut self, buffer: BufferId) {
        self.buffers.remove(&buffer.0).expect("it was taken");
    }

    fn differing(
        &mut self,
        here: BufferId,
        there: BufferId,
        _: ByteLen,
        key: &DigestKey,
    ) -> Vec<std::ops::Range<u64>> {
        let digests = self.buffers[&here.0].iter().map(|stamp| digest(key, *stamp, self.mutant));
        let pairs = digests.zip(&self.buffers[&there.0]);
        let differing = (0..).zip(pairs).filter(|(_, (here, there))| here != *there);
        differing.map(|(block, _)| block * BLOCK..(block + 1) * BLOCK).collect()
    }
}

/// The digest of a block with this stamp.
pub(super) fn digest(key: &DigestKey, stamp: u64, mutant: Option<Mutant>) -> u64 {
    let (word, _) = key.split_first_chunk().expect("it has two words");
    let digest = Random::new(u64::from_le_bytes(*word) ^ stamp.rotate_left(32)).below(u64::MAX);
    if mutant == Some(Mutant::DigestsCollide) { digest % 2 } else { digest }
}

impl Run {
    pub(super) fn submission(&mut self, at: At, submission: Submission) {
        let request = submission.request;
        self.check_age(at, request.operation);
        if let Some(buffer) = buffer_of(request.operation) {
            *self.uses.entry(buffer.0).or_default() += 1;
        }
        if request.device != nearflash_device::DeviceId(0) {
            return self.transmit_new(at, submission);
        }
        let mut covered = Vec::new();
        match request.operation {
            DeviceOperation::Write { .. } => self.write_begins(at.0, blocks_of(&request)),
            DeviceOperation::Flush => covered = self.nodes[at.0].device.lengths(),
            DeviceOperation::Deallocate => self.wrong("a hint has reached a device".into()),
            _ => {}
        }
        let is_slow = self.random.permille(30);
        let longest = if is_slow { 8 * MILLI } else { 300 * MICRO };
        let longest = if self.random.permille(self.slow) { 1500 * MILLI } else { longest };
        let is_read = matches!(request.operation, DeviceOperation::Read { .. });
        let hangs = is_read && self.random.permille(self.slow / 5) && !self.is_calm();
        let longest = if hangs { 6000 * MILLI } else { longest };
        let time = self.now + 20 * MICRO + self.random.below(longest);
        if longest > 1000 * MILLI {
            self.tempt(at.0, false, 100, 5 * MILLI);
        }
        let (life, epoch) = (self.nodes[at.0].life, self.devices_epoch[at.0]);
        self.nodes[at.0].busy_until = self.nodes[at.0].busy_until.max(time);
        self.later(time, Event::Device(at, life, epoch, submission, covered));
    }

    pub(super) fn device_done(
        &mut self,
        at: At,
        (life, epoch): (u64, u64),
        submission: Submission,
        covered: &[(u64, usize)],
    ) {
        if epoch != self.devices_epoch[at.0] {
            return;
        }
        let DeviceRequest { operation, .. } = submission.request;
        let blocks = blocks_of(&submission.request);
        let mut result = DeviceResult::Done;
        let is_alive = self.nodes[at.0].life == life && self.nodes[at.0].is_up;
        match operation {
            DeviceOperation::Write { .. }
                if self.random.permille(self.errors) && !self.is_calm() =>
            {
                self.count("device errors");
                self.tempt((at.0 + 1) % self.sharing(), false, 6, 4 * MILLI);
                result = DeviceResult::MediumError;
            }
            DeviceOperation::Write { buffer, buffer_offset, durable } => {
                if !is_alive {
                    self.count("writes of the dead");
                }
                let skip = usize::try_from(buffer_offset.0 / BLOCK).expect("they are few");
                let stamps = self.buffers[&buffer.0][skip..].to_vec();
                for (block, stamp) in blocks.zip(stamps) {
                    let device = &mut self.nodes[at.0].device;
                    device.scratched.remove(&block);
                    device.torn_by_power.remove(&block);
                    let cell = device.cell(block);
                    cell.log.push(stamp);
                    if durable {
                        cell.durable = cell.log.len();
                    }
                    let order = self.orders.entry(block).or_default();
                    if !order.contains(&stamp) {
                        order.push(stamp);
                    }
                }
            }
            DeviceOperation::Flush => {
                for (block, len) in covered {
                    let cell = self.nodes[at.0].device.cell(*block);
                    cell.durable = cell.durable.max(*len);
                }
            }
            DeviceOperation::Read { .. } if is_alive && self.is_scratched(at.0, &blocks) => {
                self.count("reads of scratched blocks");
                result = DeviceResult::MediumError;
            }
            DeviceOperation::Read { buffer: Some(buffer), .. } if is_alive => {
                let device = &mut self.nodes[at.0].device;
                let stamps = blocks.map(|block| device.cell(block).stamp()).collect();
                self.buffers.insert(buffer.0, stamps);
            }
            _ => {}
        }
        if is_alive {
            self.result(at, submission.request, result);
        }
    }

    /// A device begins to write blocks, of which it cannot read some.
    fn write_begins(&mut self, node: usize, blocks: std::ops::Range<u64>) {
        let device = &self.nodes[node].device;
        let unreadable: Vec<u64> = device.scratched.range(blocks).copied().collect();
        if self.tears && !unreadable.is_empty() && !self.is_calm() {
            self.nodes[node].device.torn_by_power.extend(unreadable);
            self.lose_power_soon(node);
        }
    }

    /// Whether a node cannot read these blocks. In the end, it can read all.
    fn is_scratched(&mut self, node: usize, blocks: &std::ops::Range<u64>) -> bool {
        let may_happen = self.scratched_only.is_none_or(|only| only == node);
        if may_happen && self.random.permille(self.scratches) && !self.is_calm() {
            self.nodes[node].device.scratched.insert(blocks.start);
        }
        let is_calm = self.is_calm();
        let scratched = &mut self.nodes[node].device.scratched;
        if is_calm {
            scratched.clear();
        }
        scratched.range(blocks.clone()).next().is_some()
    }

    /// Gives a core the result of one of its operations.
    pub(super) fn result(&mut self, at: At, request: DeviceRequest, result: DeviceResult) {
        let paused_until = self.nodes[at.0].paused_until.max(self.stalled_until(at));
        if paused_until > self.now {
            let life = self.nodes[at.0].life;
            return self.later(paused_until, Event::Result(at, life, request, result));
        }
        if let Some(buffer) = buffer_of(request.operation) {
            *self.uses.get_mut(&buffer.0).expect("it is in use") -= 1;
        }
        self.with_core(at, |core| core.handle_device(request.id, result));
    }
}

/// The blocks of an operation.
fn blocks_of(request: &DeviceRequest) -> std::ops::Range<u64> {
    request.offset.0 / BLOCK..(request.offset.0 + request.len.0) / BLOCK
}

/// The buffer that an operation uses.
pub(super) fn buffer_of(operation: DeviceOperation) -> Option<BufferId> {
    match operation {
        DeviceOperation::Write { buffer, .. } => Some(buffer),
        DeviceOperation::Read { buffer, .. } => buffer,
        _ => None,
    }
}
