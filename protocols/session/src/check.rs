//! Tools for the property checks of every protocol's sessions: memory that detects a buffer that is
//! lost or returned twice, and numbers from a seed.

use std::ops::Range;

use nearflash_request::BufferId;

use crate::length;
use crate::output::Chunk;

#[derive(Debug)]
enum Buffer {
    Own(Vec<u8>),
    /// A part of the data area.
    Foreign(Range<usize>),
}

/// The taken buffers by number, and a data area that rings share.
#[derive(Debug, Default)]
pub struct Memory {
    buffers: Vec<Option<Buffer>>,
    /// The data area.
    pub area: Vec<u8>,
}

impl Memory {
    /// A buffer of that length, filled with bytes that no session wrote.
    pub fn take(&mut self, len: usize) -> BufferId {
        self.put(Buffer::Own(vec![0xA5; len]))
    }

    /// A buffer that is a part of the data area.
    pub fn lend(&mut self, place: Range<usize>) -> BufferId {
        self.put(Buffer::Foreign(place))
    }

    fn put(&mut self, buffer: Buffer) -> BufferId {
        let free = self.buffers.iter().position(Option::is_none);
        let index = free.unwrap_or(self.buffers.len());
        if index == self.buffers.len() {
            self.buffers.push(None);
        }
        self.buffers[index] = Some(buffer);
        BufferId(u32::try_from(index).expect("few buffers"))
    }

    /// Returns a buffer.
    ///
    /// # Panics
    /// When it was not taken.
    pub fn give_back(&mut self, buffer: BufferId) {
        let taken = self.buffers[length(buffer.0)].take();
        assert!(taken.is_some(), "{buffer:?} is given back once");
    }

    /// The bytes of a buffer that is taken.
    pub fn bytes(&self, buffer: BufferId) -> &[u8] {
        match self.buffers[length(buffer.0)].as_ref().expect("the buffer is taken") {
            Buffer::Own(bytes) => bytes,
            Buffer::Foreign(place) => &self.area[place.clone()],
        }
    }

    /// The bytes of a buffer, to be changed.
    pub fn bytes_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        match self.buffers[length(buffer.0)].as_mut().expect("the buffer is taken") {
            Buffer::Own(bytes) => bytes,
            Buffer::Foreign(place) => &mut self.area[place.clone()],
        }
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        self.buffers.iter().flatten().count()
    }

    /// Appends a chunk's bytes to `stream`.
    pub fn append(&self, stream: &mut Vec<u8>, chunk: Chunk<'_>) {
        match chunk {
            Chunk::Bytes(bytes) => stream.extend_from_slice(bytes),
            Chunk::Buffer { buffer, offset, len } => {
                stream.extend_from_slice(&self.bytes(buffer)[offset..offset + len]);
            }
            Chunk::Zeroes(len) => stream.extend(std::iter::repeat_n(0, len)),
        }
    }
}

/// Numbers from a seed, for choices that only need to differ: splitmix64.
#[derive(Clone, Debug)]
pub struct Choices(u64);

impl Choices {
    /// Choices that depend on the seed alone.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub const fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("usize is at most 64 bits wide");
        usize::try_from(self.any() % end).expect("below a usize")
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}
