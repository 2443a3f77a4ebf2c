//! Devices: operations that end in any order, late, in parts, or with an error.
//!
//! An operation takes effect block by block, at one moment or at two, between its submission and
//! its end. A block of the device is never torn while the power is on. Any blocks of a failed
//! operation may have taken effect. When a flush or a durable write fails for another reason than
//! lack of space, any part of the volatile data is lost, and the next flush succeeds.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use nearflash_device::{DeviceOperation, DeviceProperties, DeviceRequest, DeviceResult};
use nearflash_engine::CoreId;
use nearflash_units::{ByteLen, ByteOffset, Nanos};

use crate::Dice;
use crate::faults::{Betrayal, DiskFaults};
use crate::sectors::{SECTOR_LEN, Sectors};
use crate::stamp::{Stamp, Value};

/// An operation under way.
#[derive(Debug)]
pub(crate) struct DiskOperation {
    pub(crate) core: CoreId,
    pub(crate) request: DeviceRequest,
    /// The data to write, or the data read so far.
    pub(crate) bytes: Vec<u8>,
    pub(crate) result: DeviceResult,
    submitted_at: u64,
    /// Bit mask of the blocks that take effect first.
    first_blocks: u64,
    /// Bit mask of the blocks that take effect if the operation fails.
    failed_blocks: u64,
    /// Bit mask of the blocks that have taken effect.
    taken_blocks: u64,
}

/// The moments of an operation that was submitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moments {
    pub(crate) operation: u64,
    /// Some of its blocks take effect.
    pub(crate) part_at: Option<Nanos>,
    pub(crate) done_at: Nanos,
}

/// A device.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) properties: DeviceProperties,
    /// The length of a volume's block: stamps are as long.
    stamp_len: usize,
    pub(crate) faults: DiskFaults,
    dice: Dice,
    sectors: Sectors,
    operations: BTreeMap<u64, DiskOperation>,
    /// The offsets of blocks that cannot be read.
    unreadable: BTreeSet<usize>,
    /// Hung operations: unanswered until [`Self::recover`].
    hung: Vec<u64>,
    /// Counts submissions and completions.
    count: u64,
    /// Steps of counters that have taken effect, and what each replaced.
    pub(crate) replaced: Vec<(Stamp, Value)>,
}

impl Disk {
    /// With volumes whose blocks are so long.
    pub(crate) fn new(
        properties: DeviceProperties,
        stamp_len: usize,
        faults: DiskFaults,
        dice: Dice,
    ) -> Self {
        let sectors = Sectors::new(properties.len.to_usize());
        Self {
            properties,
            stamp_len,
            faults,
            dice,
            sectors,
            operations: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            hung: Vec::new(),
            count: 0,
            replaced: Vec::new(),
        }
    }

    /// The bytes that a read would see now.
    pub(crate) fn bytes(&self, offset: ByteOffset, len: ByteLen) -> &[u8] {
        let start = ByteLen(offset.0).to_usize();
        &self.sectors.visible()[start..start + len.to_usize()]
    }

    /// Whether an operation on any of these bytes is under way.
    pub(crate) fn is_busy_in(&self, bytes: &Range<u64>) -> bool {
        self.operations.values().any(|operation| touches(&operation.request, bytes))
    }

    /// Operations that were submitted and have not ended.
    pub(crate) fn in_flight(&self) -> usize {
        self.operations.len()
    }

    /// Operations under way, by number.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = (u64, &DeviceRequest)> {
        self.operations.iter().map(|(number, operation)| (*number, &operation.request))
    }

    /// Whether an operation has not ended.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.operations.contains_key(&number)
    }

    /// The core that submitted the operation.
    pub(crate) fn core_of(&self, number: u64) -> CoreId {
        self.operations[&number].core
    }

    /// Whether the next operation ends during its submission.
    pub(crate) fn is_at_once(&mut self) -> bool {
        self.dice.permille(self.faults.at_once_permille) && self.faults.hung.is_none()
    }

    /// Takes an operation. `bytes` is the data of a write.
    pub(crate) fn submit(
        &mut self,
        now: Nanos,
        core: CoreId,
        request: DeviceRequest,
        bytes: Vec<u8>,
    ) -> Moments {
        self.check(&request);
        self.count += 1;
        let (faults, dice) = (&self.faults, &mut self.dice);
        let mut span = dice.span(faults.latency);
        if dice.permille(faults.slow_permille) {
            span = span.plus(Nanos(dice.between(0, faults.slow.0)));
        }
        let is_hung = faults.hung.is_some_and(|(start, end)| touches(&request, &(start..end)));
        let is_split = dice.permille(faults.split_permille) && !is_hung;
        let part_at = is_split.then(|| now.plus(Nanos(dice.between(0, span.0))));
        let start = ByteLen(request.offset.0).to_usize();
        let is_unreadable = faults.latent_permille > 0
            && matches!(request.operation, DeviceOperation::Read { .. })
            && self.unreadable.range(start..start + request.len.to_usize()).next().is_some();
        let result = draw_result(&request, faults, dice);
        let operation = DiskOperation {
            core,
            result: if is_unreadable { DeviceResult::MediumError } else { result },
            request,
            bytes,
            submitted_at: self.count,
            first_blocks: if is_split { dice.roll() } else { 0 },
            failed_blocks: dice.roll(),
            taken_blocks: 0,
        };
        let number = self.count;
        self.operations.insert(number, operation);
        if is_hung {
            self.hung.push(number);
        }
        let done_at = if is_hung { Nanos::NEVER } else { now.plus(span) };
        Moments { operation: number, part_at, done_at }
    }

    /// Whether an operation hangs.
    pub(crate) fn hangs(&self) -> bool {
        !self.hung.is_empty()
    }

    /// The device answers again. Returns the operations that hung.
    pub(crate) fn recover(&mut self) -> Vec<u64> {
        self.faults.hung = None;
        std::mem::take(&mut self.hung)
    }

    /// The control side durably zeroes a range that nobody else uses.
    ///
    /// # Panics
    /// When an operation on it is under way.
    pub(crate) fn zero(&mut self, offset: ByteOffset, len: ByteLen) {
        assert!(!self.is_busy_in(&(offset.0..offset.0 + len.0)), "nobody uses what is zeroed");
        self.count += 1;
        let start = ByteLen(offset.0).to_usize() / SECTOR_LEN;
        let sectors = start..start + len.to_usize() / SECTOR_LEN;
        for sector in sectors.clone() {
            self.sectors.put(self.count, sector, &[0; SECTOR_LEN]);
        }
        self.sectors.complete(self.count, sectors, self.count, true);
    }

    fn check(&self, request: &DeviceRequest) {
        let DeviceProperties { len, block_size, .. } = self.properties;
        let DeviceRequest { offset, len: request_len, operation, .. } = *request;
        if operation == DeviceOperation::Flush {
            return;
        }
        assert!(request_len.0 > 0, "an operation has a length");
        assert!(offset.0 + request_len.0 <= len.0, "an operation lies on its device");
        let is_whole = block_size.divides(ByteLen(offset.0)) && block_size.divides(request_len);
        assert!(is_whole, "an operation is of whole blocks: {request:?}");
    }

    /// Some blocks of an operation take effect.
    pub(crate) fn take_part(&mut self, number: u64) {
        if let Some(operation) = self.operations.get(&number) {
            let first = operation.first_blocks;
            self.take_effect(number, |bit| first & bit != 0);
        }
        if let Some(operation) = self.operations.get_mut(&number) {
            operation.taken_blocks = operation.first_blocks;
        }
    }

    /// The rest of an operation takes effect, and it ends.
    pub(crate) fn end(&mut self, number: u64) -> DiskOperation {
        let first = self.operations[&number].first_blocks;
        self.take_effect(number, |bit| first & bit == 0);
        self.count += 1;
        let operation = self.operations.remove(&number).expect("an operation ends once");
        let is_done = operation.result == DeviceResult::Done;
        if operation.request.operation.loses(operation.result) {
            self.sectors.forget_some(&mut self.dice);
        }
        match operation.request.operation {
            DeviceOperation::Read { .. } => {}
            DeviceOperation::Allocation if is_done => {
                let run = self.run(operation.request.offset, operation.request.len);
                return DiskOperation { result: run, ..operation };
            }
            DeviceOperation::Allocation => {}
            DeviceOperation::Flush if is_done => self.sectors.flush(operation.submitted_at),
            DeviceOperation::Flush => {}
            DeviceOperation::Write { durable, .. } => {
                self.complete(number, &operation.request, is_done && durable);
            }
            DeviceOperation::WriteZeroes { .. } | DeviceOperation::Deallocate => {
                self.complete(number, &operation.request, false);
            }
        }
        operation
    }

    /// Sectors of zeroes count as not allocated.
    fn run(&self, offset: ByteOffset, len: ByteLen) -> DeviceResult {
        let sectors = self.bytes(offset, len).chunks(SECTOR_LEN);
        let mut mapped = sectors.map(|sector| sector.iter().any(|byte| *byte != 0));
        let first = mapped.next().expect("an operation has a length");
        let same = mapped.take_while(|mapped| *mapped == first).count();
        DeviceResult::run(first, ByteLen::from_usize((1 + same) * SECTOR_LEN))
    }

    fn complete(&mut self, number: u64, request: &DeviceRequest, durable: bool) {
        let start = ByteLen(request.offset.0).to_usize() / SECTOR_LEN;
        let sectors = start..start + request.len.to_usize() / SECTOR_LEN;
        let durable = durable || !self.properties.volatile_cache;
        self.sectors.complete(number, sectors, self.count, durable);
    }

    /// The blocks whose bit `is_chosen` take effect. Beyond 64 blocks the bits repeat.
    fn take_effect(&mut self, number: u64, is_chosen: impl Fn(u64) -> bool) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        let block_len = ByteLen(u64::from(self.properties.block_size.bytes())).to_usize();
        let blocks = operation.request.len.to_usize() / block_len;
        let start = ByteLen(operation.request.offset.0).to_usize();
        let failed = operation.result != DeviceResult::Done;
        for block in 0..blocks {
            let bit = 1 << (block % 64);
            if !is_chosen(bit) || (failed && operation.failed_blocks & bit == 0) {
                continue;
            }
            let at = block * block_len;
            match operation.request.operation {
                DeviceOperation::Read { .. } => {
                    let seen = &self.sectors.visible()[start + at..start + at + block_len];
                    operation.bytes[at..at + block_len].copy_from_slice(seen);
                }
                // Deallocation is advice: a block is released or left as it is.
                DeviceOperation::Deallocate if self.dice.coin() => {}
                DeviceOperation::Flush | DeviceOperation::Allocation => {}
                _ => {
                    let fresh = &operation.bytes[at..at + block_len];
                    let before = &self.sectors.visible()[start + at..start + at + block_len];
                    self.replaced.extend(steps_of(before, fresh, self.stamp_len));
                    let place = start + at;
                    self.unreadable.remove(&place);
                    if chance(&mut self.dice, self.faults.latent_permille) {
                        self.unreadable.insert(place);
                    }
                    let betrayed = (&self.faults.betrayal, &mut self.dice);
                    let Some((place, fresh)) = landing(betrayed, place, fresh, self.sectors.len())
                    else {
                        continue;
                    };
                    for (index, sector) in fresh.chunks_exact(SECTOR_LEN).enumerate() {
                        self.sectors.put(number, place / SECTOR_LEN + index, sector);
                    }
                }
            }
        }
    }

    /// The power goes and comes back; operations under way never end.
    pub(crate) fn lose_power(&mut self) {
        let unfinished: Vec<u64> = self.operations.keys().copied().collect();
        for number in unfinished {
            // No block takes effect twice.
            let chosen = self.dice.roll() & !self.operations[&number].taken_blocks;
            self.take_effect(number, |bit| chosen & bit != 0);
        }
        self.operations.clear();
        self.hung.clear();
        self.sectors.lose_power(&mut self.dice);
    }
}

/// The steps of counters in the blocks of volumes that a block of the device holds, and what each
/// replaces.
fn steps_of(before: &[u8], fresh: &[u8], len: usize) -> impl Iterator<Item = (Stamp, Value)> {
    let blocks = before.chunks_exact(len).zip(fresh.chunks_exact(len));
    blocks.filter_map(|(before, fresh)| match Value::of(fresh) {
        Value::Written(stamp) if stamp.count > 0 => Some((stamp, Value::of(before))),
        _ => None,
    })
}

/// Draws only if the rate is above zero, so that a fault that is switched off does not change other
/// draws.
fn chance(dice: &mut Dice, permille: u32) -> bool {
    permille > 0 && dice.permille(permille)
}

/// The place and content that a block written to `place` really gets; `None` if the write is lost.
fn landing(
    (betrayal, dice): (&Betrayal, &mut Dice),
    place: usize,
    block: &[u8],
    disk_len: usize,
) -> Option<(usize, Vec<u8>)> {
    let mut block = block.to_vec();
    if chance(dice, betrayal.lost_permille) {
        return None;
    }
    if chance(dice, betrayal.corrupt_permille) {
        let byte = dice.index(block.len());
        block[byte] ^= 1 << dice.between(0, 7);
    }
    let is_misdirected = chance(dice, betrayal.misdirected_permille);
    let blocks_off = if is_misdirected { 1 + dice.index(7) } else { 0 };
    Some(((place + blocks_off * block.len()) % disk_len, block))
}

/// Whether an operation touches any of these bytes.
pub(crate) fn touches(request: &DeviceRequest, bytes: &Range<u64>) -> bool {
    let end = request.offset.0 + request.len.0;
    request.offset.0 < bytes.end && bytes.start < end
}

fn draw_result(request: &DeviceRequest, faults: &DiskFaults, dice: &mut Dice) -> DeviceResult {
    if dice.permille(faults.gone_permille) {
        return DeviceResult::Gone;
    }
    let is_read =
        matches!(request.operation, DeviceOperation::Read { .. } | DeviceOperation::Allocation);
    let is_flush = request.operation == DeviceOperation::Flush;
    let error = if is_read { faults.read_error_permille } else { faults.write_error_permille };
    if dice.permille(error) {
        return DeviceResult::MediumError;
    }
    if !is_read && !is_flush && dice.permille(faults.no_space_permille) {
        return DeviceResult::NoSpace;
    }
    DeviceResult::Done
}
