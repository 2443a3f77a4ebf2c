//! A volume in memory, and an engine that answers one request at a time.

use nearflash_request::{
    BlockRange, BufferId, Completion, Operation, Outcome, Payload, Request, VolumeId,
};
use nearflash_units::BlockSize;

use nearflash_session::check::Memory;

/// The number of the only volume.
pub(crate) const VOLUME: VolumeId = VolumeId(7);

/// The volume's bytes.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) bytes: Vec<u8>,
    pub(crate) block_size: BlockSize,
}

impl Volume {
    pub(crate) fn new(len: usize, block_size: BlockSize) -> Self {
        Self { bytes: vec![0; len], block_size }
    }

    /// Executes a request, and returns the buffers that came with it, as the engine does.
    pub(crate) fn answer(&mut self, request: Request, memory: &mut Memory) -> Completion {
        let Request { tag, volume, range, operation, .. } = request;
        assert_eq!(volume, VOLUME);
        let mut payload = Payload::None;
        let outcome = match operation {
            Operation::Read => self.read(range, None, memory, &mut payload),
            Operation::ReadInto { buffer } => self.read(range, Some(buffer), memory, &mut payload),
            Operation::Write { payload, .. } => self.write(range, payload, None, memory),
            Operation::WriteBytes { payload, skip, len, .. } => {
                self.write(range, payload, Some((skip, len)), memory)
            }
            Operation::Flush => Outcome::Success,
            Operation::WriteZeroes { .. } => {
                let place = self.place(range).expect("the session has checked the range");
                self.bytes[place].fill(0);
                Outcome::Success
            }
            Operation::Deallocate { ranges, .. } => {
                for range in &ranges {
                    let place = self.place(*range).expect("the session has checked the range");
                    self.bytes[place].fill(0);
                }
                Outcome::Success
            }
            Operation::CompareAndSwap { word, expected, new, .. } => {
                let found = self.word(range, word);
                payload = Payload::Word(u64::from_le_bytes(*found));
                if u64::from_le_bytes(*found) == expected {
                    *found = new.to_le_bytes();
                    Outcome::Success
                } else {
                    Outcome::Miscompare
                }
            }
            Operation::FetchAdd { word, addend, .. } => {
                let found = self.word(range, word);
                let before = u64::from_le_bytes(*found);
                payload = Payload::Word(before);
                *found = before.wrapping_add(addend).to_le_bytes();
                Outcome::Success
            }
            other => panic!("a direct session asks no {other:?}"),
        };
        Completion { tag, outcome, payload }
    }

    fn place(&self, range: BlockRange) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(self.block_size.offset(range.start)?.0).ok()?;
        let len = usize::try_from(self.block_size.len(range.count)?.0).ok()?;
        let end = start.checked_add(len)?;
        (end <= self.bytes.len()).then_some(start..end)
    }

    fn word(&mut self, range: BlockRange, word: u32) -> &mut [u8; 8] {
        let place = self.place(range).expect("the session has checked the range");
        assert_eq!(range.count.0, 1, "a word lies in one block");
        self.bytes[place][crate::length(word)..].first_chunk_mut().expect("within the block")
    }

    fn read(
        &self,
        range: BlockRange,
        into: Option<BufferId>,
        memory: &mut Memory,
        payload: &mut Payload,
    ) -> Outcome {
        let place = self.place(range).expect("the session has checked the range");
        let found = &self.bytes[place];
        if into.is_none() && found.iter().all(|byte| *byte == 0) {
            *payload = Payload::Zeroes;
            return Outcome::Success;
        }
        let buffer = into.unwrap_or_else(|| memory.take(found.len()));
        memory.bytes_mut(buffer).copy_from_slice(found);
        *payload = Payload::Buffer(buffer);
        Outcome::Success
    }

    fn write(
        &mut self,
        range: BlockRange,
        buffer: BufferId,
        part: Option<(u32, u32)>,
        memory: &mut Memory,
    ) -> Outcome {
        let place = self.place(range).expect("the session has checked the range");
        let new = match part {
            None => 0..place.len(),
            Some((skip, len)) => crate::length(skip)..crate::length(skip) + crate::length(len),
        };
        assert!(!new.is_empty() && new.end <= place.len(), "the new bytes lie in the range");
        assert_eq!(memory.bytes(buffer).len(), place.len(), "a buffer of the range's length");
        self.bytes[place][new.clone()].copy_from_slice(&memory.bytes(buffer)[new]);
        memory.give_back(buffer);
        Outcome::Success
    }
}
