//! A volume in memory, which completes each request immediately and as a whole, like an engine.

use nearflash_request::{BlockRange, BufferId, Completion, Operation, Outcome, Payload, Request};
use nearflash_units::{BlockSize, Blocks};

use nearflash_session::check::Memory;

/// Logical blocks of the volume.
pub(crate) const BLOCK_SIZE: BlockSize = BlockSize::B512;

#[derive(Debug)]
pub(crate) struct Volume {
    bytes: Vec<u8>,
}

impl Volume {
    pub(crate) fn new(len: usize) -> Self {
        Self { bytes: vec![0; len] }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    #[cfg(test)]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Answers a request. Its buffers go back, a read's is taken.
    pub(crate) fn complete(&mut self, request: Request, memory: &mut Memory) -> Completion {
        let Request { tag, range, operation, .. } = request;
        let mut payload = Payload::None;
        let outcome = match operation {
            Operation::Flush | Operation::Admit(_) => Outcome::Success,
            Operation::Read => self.read(range, memory, &mut payload),
            Operation::Write { payload, .. } | Operation::WriteAndVerify { payload, .. } => {
                self.change(range, payload, memory, |_, new| new)
            }
            Operation::WriteBytes { payload, skip: 0, len, .. } => {
                self.change_bytes(range, payload, len, memory)
            }
            Operation::OrWrite { payload, .. } => {
                self.change(range, payload, memory, |old, new| old | new)
            }
            Operation::WriteSame { payload, .. } => {
                self.change(range, payload, memory, |_, new| new)
            }
            Operation::Copy { from, .. } => self.copy(from, range),
            Operation::WriteZeroes { .. } => self.clear(range),
            Operation::Deallocate { ranges, .. } => {
                let outcomes = ranges.iter().map(|range| self.clear(*range));
                outcomes.fold(Outcome::Success, |worst, one| match worst {
                    Outcome::Success => one,
                    _ => worst,
                })
            }
            Operation::Verify => {
                self.place(range).map_or(Outcome::OutOfRange, |_| Outcome::Success)
            }
            Operation::Allocation => {
                let blocks = Blocks(range.count.0.max(1));
                payload = Payload::Allocation { mapped: true, blocks };
                Outcome::Success
            }
            Operation::Compare { payload: buffer } | Operation::CompareSame { payload: buffer } => {
                self.compare(range, buffer, memory, &mut payload)
            }
            Operation::CompareAndWrite { compare, write, .. } => {
                match self.compare(range, compare, memory, &mut payload) {
                    Outcome::Success => self.change(range, write, memory, |_, new| new),
                    failed => {
                        memory.give_back(write);
                        failed
                    }
                }
            }
            other => unreachable!("no SCSI command asks for {other:?}"),
        };
        Completion { tag, outcome, payload }
    }

    fn place(&self, range: BlockRange) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(BLOCK_SIZE.offset(range.start)?.0).ok()?;
        let len = usize::try_from(BLOCK_SIZE.len(range.count)?.0).ok()?;
        let end = start.checked_add(len)?;
        (end <= self.bytes.len()).then_some(start..end)
    }

    fn read(&self, range: BlockRange, memory: &mut Memory, payload: &mut Payload) -> Outcome {
        let Some(place) = self.place(range) else { return Outcome::OutOfRange };
        let found = &self.bytes[place];
        *payload = if found.iter().all(|byte| *byte == 0) {
            Payload::Zeroes
        } else {
            let buffer = memory.take(found.len());
            memory.bytes_mut(buffer).copy_from_slice(found);
            Payload::Buffer(buffer)
        };
        Outcome::Success
    }

    /// A buffer shorter than the range is repeated.
    fn change(
        &mut self,
        range: BlockRange,
        buffer: BufferId,
        memory: &mut Memory,
        of: impl Fn(u8, u8) -> u8,
    ) -> Outcome {
        let outcome = match self.place(range) {
            Some(place) => {
                let new = memory.bytes(buffer).iter().cycle();
                for (old, new) in self.bytes[place].iter_mut().zip(new) {
                    *old = of(*old, *new);
                }
                Outcome::Success
            }
            None => Outcome::OutOfRange,
        };
        memory.give_back(buffer);
        outcome
    }

    /// The range's first `len` bytes become the buffer's.
    fn change_bytes(
        &mut self,
        range: BlockRange,
        buffer: BufferId,
        len: u32,
        memory: &mut Memory,
    ) -> Outcome {
        let len = crate::length(len);
        let outcome = match self.place(range) {
            Some(place) => {
                self.bytes[place][..len].copy_from_slice(&memory.bytes(buffer)[..len]);
                Outcome::Success
            }
            None => Outcome::OutOfRange,
        };
        memory.give_back(buffer);
        outcome
    }

    fn compare(
        &self,
        range: BlockRange,
        buffer: BufferId,
        memory: &mut Memory,
        payload: &mut Payload,
    ) -> Outcome {
        let outcome = match self.place(range) {
            Some(place) => {
                let expected = memory.bytes(buffer).iter().cycle();
                let differs = self.bytes[place].iter().zip(expected).position(|(a, b)| a != b);
                match differs.and_then(|offset| u64::try_from(offset).ok()) {
                    Some(offset) => {
                        *payload = Payload::Differs(offset);
                        Outcome::Miscompare
                    }
                    None => Outcome::Success,
                }
            }
            None => Outcome::OutOfRange,
        };
        memory.give_back(buffer);
        outcome
    }

    fn copy(&mut self, from: BlockRange, to: BlockRange) -> Outcome {
        let (Some(from), Some(to)) = (self.place(from), self.place(to)) else {
            return Outcome::OutOfRange;
        };
        self.bytes.copy_within(from, to.start);
        Outcome::Success
    }

    fn clear(&mut self, range: BlockRange) -> Outcome {
        let Some(place) = self.place(range) else { return Outcome::OutOfRange };
        self.bytes[place].fill(0);
        Outcome::Success
    }
}
