//! Memory that detects a buffer that is lost or returned twice.

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

    /// Copies payload of a stream into a buffer, as far as it belongs there. Returns that part.
    pub(super) fn receive<'a>(
        &mut self,
        (buffer, offset, len): (BufferId, usize, usize),
        bytes: &'a [u8],
    ) -> &'a [u8] {
        let part = &bytes[..len.min(bytes.len())];
        self.bytes_mut(buffer)[offset..offset + part.len()].copy_from_slice(part);
        part
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
