//! A volume in memory, which completes each request immediately and as a whole, like an engine.

use std::ops::Range;

use nearflash_request::{BlockRange, BufferId, Completion, Operation, Outcome, Payload, Request};
use nearflash_units::{BlockSize, Blocks};

use super::Memory;
use crate::length;

/// The outcome of a request, and the payload of its completion.
type Done = (Outcome, Payload);

const SUCCESS: Done = (Outcome::Success, Payload::None);
const OUT_OF_RANGE: Done = (Outcome::OutOfRange, Payload::None);

/// The volume's bytes.
#[derive(Debug)]
pub struct Volume {
    bytes: Vec<u8>,
    block_size: BlockSize,
    is_asked: fn(&Operation) -> bool,
}

impl Volume {
    /// A volume of zeroes. A protocol asks for no operation but those of `is_asked`.
    pub fn new(len: usize, block_size: BlockSize, is_asked: fn(&Operation) -> bool) -> Self {
        Self { bytes: vec![0; len], block_size, is_asked }
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All bytes, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// The length of a block.
    pub const fn block_size(&self) -> BlockSize {
        self.block_size
    }

    /// Completes a request. Its buffers are returned, and the one of a read is taken.
    ///
    /// # Panics
    /// When no command of the protocol asks for it, or the length of a buffer is wrong.
    pub fn complete(&mut self, request: Request, memory: &mut Memory) -> Completion {
        let Request { tag, range, operation, .. } = request;
        assert!((self.is_asked)(&operation), "no command asks for {operation:?}");
        let given: Vec<BufferId> = buffers_of(&operation).into_iter().flatten().collect();
        let (outcome, payload) = match operation {
            Operation::Flush | Operation::Admit(_) => SUCCESS,
            Operation::Deallocate { ranges, .. } => self.deallocate(&ranges),
            operation => match self.place(range) {
                Some(place) => self.run(place, range, &operation, memory),
                None => OUT_OF_RANGE,
            },
        };
        given.into_iter().for_each(|buffer| memory.give_back(buffer));
        Completion { tag, outcome, payload }
    }

    fn run(
        &mut self,
        place: Range<usize>,
        range: BlockRange,
        operation: &Operation,
        memory: &mut Memory,
    ) -> Done {
        match *operation {
            Operation::Read => return self.read(place, None, memory),
            Operation::ReadInto { buffer } => return self.read(place, Some(buffer), memory),
            Operation::Write { payload, .. } | Operation::WriteAndVerify { payload, .. } => {
                self.bytes[place].copy_from_slice(memory.bytes(payload));
            }
            Operation::WriteBytes { payload, skip, len, .. } => {
                assert_eq!(memory.bytes(payload).len(), place.len(), "a buffer of the range");
                let new = length(skip)..length(skip) + length(len);
                assert!(!new.is_empty(), "something is written");
                self.bytes[place][new.clone()].copy_from_slice(&memory.bytes(payload)[new]);
            }
            Operation::WriteSame { payload, .. } => {
                let new = memory.bytes(payload).iter().cycle();
                self.bytes[place].iter_mut().zip(new).for_each(|(old, new)| *old = *new);
            }
            Operation::OrWrite { payload, .. } => {
                let new = memory.bytes(payload);
                assert_eq!(new.len(), place.len(), "a buffer of the range");
                self.bytes[place].iter_mut().zip(new).for_each(|(old, new)| *old |= new);
            }
            Operation::WriteZeroes { .. } => self.bytes[place].fill(0),
            Operation::Copy { from, .. } => {
                let Some(from) = self.place(from) else { return OUT_OF_RANGE };
                self.bytes.copy_within(from, place.start);
            }
            Operation::Verify => {}
            Operation::Allocation => {
                let blocks = Blocks(range.count.0.max(1));
                return (Outcome::Success, Payload::Allocation { mapped: true, blocks });
            }
            Operation::Compare { payload } => {
                assert_eq!(memory.bytes(payload).len(), place.len(), "a buffer of the range");
                return self.compare(place, payload, memory);
            }
            Operation::CompareSame { payload } => return self.compare(place, payload, memory),
            Operation::CompareAndWrite { compare, write, .. } => {
                let done = self.compare(place.clone(), compare, memory);
                if done.0 == Outcome::Success {
                    self.bytes[place].copy_from_slice(memory.bytes(write));
                }
                return done;
            }
            Operation::CompareAndSwap { word, expected, new, .. } => {
                return self.swap(place, word, |found| (found == expected).then_some(new));
            }
            Operation::FetchAdd { word, addend, .. } => {
                return self.swap(place, word, |found| Some(found.wrapping_add(addend)));
            }
            ref other => unreachable!("{other:?} needs no place"),
        }
        SUCCESS
    }

    fn place(&self, range: BlockRange) -> Option<Range<usize>> {
        let start = usize::try_from(self.block_size.offset(range.start)?.0).ok()?;
        let len = usize::try_from(self.block_size.len(range.count)?.0).ok()?;
        let end = start.checked_add(len)?;
        (end <= self.bytes.len()).then_some(start..end)
    }

    fn read(&self, place: Range<usize>, into: Option<BufferId>, memory: &mut Memory) -> Done {
        let found = &self.bytes[place];
        if into.is_none() && found.iter().all(|byte| *byte == 0) {
            return (Outcome::Success, Payload::Zeroes);
        }
        let buffer = into.unwrap_or_else(|| memory.take(found.len()));
        memory.bytes_mut(buffer).copy_from_slice(found);
        (Outcome::Success, Payload::Buffer(buffer))
    }

    /// A buffer shorter than the range is repeated.
    fn compare(&self, place: Range<usize>, buffer: BufferId, memory: &Memory) -> Done {
        let expected = memory.bytes(buffer).iter().cycle();
        let differs = self.bytes[place].iter().zip(expected).position(|(a, b)| a != b);
        match differs.and_then(|offset| u64::try_from(offset).ok()) {
            Some(offset) => (Outcome::Miscompare, Payload::Differs(offset)),
            None => SUCCESS,
        }
    }

    /// Changes a word, or leaves it if `change` returns `None`.
    fn swap(
        &mut self,
        place: Range<usize>,
        word: u32,
        change: impl Fn(u64) -> Option<u64>,
    ) -> Done {
        let block_len = u64::from(self.block_size.bytes());
        assert_eq!(u64::try_from(place.len()), Ok(block_len), "a word lies in one block");
        let word = self.bytes[place][length(word)..].first_chunk_mut().expect("within the block");
        let before = u64::from_le_bytes(*word);
        let changed = change(before);
        *word = changed.unwrap_or(before).to_le_bytes();
        let outcome = if changed.is_some() { Outcome::Success } else { Outcome::Miscompare };
        (outcome, Payload::Word(before))
    }

    fn deallocate(&mut self, ranges: &[BlockRange]) -> Done {
        let mut done = SUCCESS;
        for range in ranges {
            match self.place(*range) {
                Some(place) => self.bytes[place].fill(0),
                None => done = OUT_OF_RANGE,
            }
        }
        done
    }
}

/// The buffers that an operation brings, and that return to the pool with its completion.
const fn buffers_of(operation: &Operation) -> [Option<BufferId>; 2] {
    match *operation {
        Operation::Write { payload, .. }
        | Operation::WriteBytes { payload, .. }
        | Operation::WriteSame { payload, .. }
        | Operation::WriteAndVerify { payload, .. }
        | Operation::OrWrite { payload, .. }
        | Operation::Compare { payload }
        | Operation::CompareSame { payload } => [Some(payload), None],
        Operation::CompareAndWrite { compare, write, .. } => [Some(compare), Some(write)],
        _ => [None, None],
    }
}
