//! A volume in memory, which completes each request immediately like an engine.

use nearflash_request::{BlockRange, BufferId, Completion, Operation, Outcome, Payload, Request};
use nearflash_units::BlockSize;

use nearflash_session::check::Memory;

/// The logical block size of the volume.
pub(super) const BLOCK_SIZE: BlockSize = BlockSize::B512;

#[derive(Debug)]
pub(super) struct Volume {
    bytes: Vec<u8>,
}

impl Volume {
    pub(super) fn new(len: usize) -> Self {
        Self { bytes: vec![0; len] }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Completes a request. The buffers of a write are returned, and a read takes a new one.
    pub(super) fn complete(&mut self, request: Request, memory: &mut Memory) -> Completion {
        let Request { tag, range, operation, .. } = request;
        let mut payload = Payload::None;
        let outcome = match operation {
            Operation::Flush => Outcome::Success,
            Operation::Read => self.read(range, memory, &mut payload),
            Operation::Write { payload, .. } => self.write(range, payload, memory),
            Operation::WriteZeroes { .. } => self.clear(range),
            Operation::Deallocate { ranges, .. } => {
                ranges.iter().map(|range| self.clear(*range)).fold(
                    Outcome::Success,
                    |worst, one| if one == Outcome::Success { worst } else { one },
                )
            }
            Operation::Compare { payload } => self.compare(range, payload, memory),
            Operation::CompareAndWrite { compare, write, .. } => {
                match self.compare(range, compare, memory) {
                    Outcome::Success => self.write(range, write, memory),
                    failed => {
                        memory.give_back(write);
                        failed
                    }
                }
            }
            other => unreachable!("no NVMe command asks for {other:?}"),
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

    fn write(&mut self, range: BlockRange, buffer: BufferId, memory: &mut Memory) -> Outcome {
        let place = self.place(range);
        let outcome = match place {
            Some(place) => {
                self.bytes[place].copy_from_slice(memory.bytes(buffer));
                Outcome::Success
            }
            None => Outcome::OutOfRange,
        };
        memory.give_back(buffer);
        outcome
    }

    fn compare(&self, range: BlockRange, buffer: BufferId, memory: &mut Memory) -> Outcome {
        let outcome = match self.place(range) {
            Some(place) if self.bytes[place.clone()] == *memory.bytes(buffer) => Outcome::Success,
            Some(_) => Outcome::Miscompare,
            None => Outcome::OutOfRange,
        };
        memory.give_back(buffer);
        outcome
    }

    fn clear(&mut self, range: BlockRange) -> Outcome {
        let Some(place) = self.place(range) else { return Outcome::OutOfRange };
        self.bytes[place].fill(0);
        Outcome::Success
    }
}
