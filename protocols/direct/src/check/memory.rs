//! Buffers as a pool would give them, and none lost; and the memory that rings share.

use nearflash_request::BufferId;
use nearflash_session::Chunk;

use crate::serving::Place;

#[derive(Debug)]
enum Buffer {
    Own(Vec<u8>),
    /// A part of the data area.
    Foreign(Place),
}

/// The buffers taken, by number, and a data area.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    buffers: Vec<Option<Buffer>>,
    pub(crate) area: Vec<u8>,
}

impl Memory {
    /// A buffer of that length, full of what no one put there.
    pub(crate) fn take(&mut self, len: usize) -> BufferId {
        self.put(Buffer::Own(vec![0xA5; len]))
    }

    /// A buffer that is a part of the data area.
    pub(crate) fn lend(&mut self, place: Place) -> BufferId {
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

    pub(crate) fn give_back(&mut self, buffer: BufferId) {
        let taken = self.buffers[index(buffer)].take();
        assert!(taken.is_some(), "{buffer:?} is given back once");
    }

    pub(crate) fn bytes(&self, buffer: BufferId) -> &[u8] {
        match self.buffers[index(buffer)].as_ref().expect("the buffer is taken") {
            Buffer::Own(bytes) => bytes,
            Buffer::Foreign(place) => &self.area[range(*place)],
        }
    }

    pub(crate) fn bytes_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        match self.buffers[index(buffer)].as_mut().expect("the buffer is taken") {
            Buffer::Own(bytes) => bytes,
            Buffer::Foreign(place) => &mut self.area[range(*place)],
        }
    }

    /// How many are taken.
    pub(crate) fn taken(&self) -> usize {
        self.buffers.iter().flatten().count()
    }

    /// A chunk's bytes onto the end of `stream`.
    pub(crate) fn append(&self, stream: &mut Vec<u8>, chunk: Chunk<'_>) {
        match chunk {
            Chunk::Bytes(bytes) => stream.extend_from_slice(bytes),
            Chunk::Buffer { buffer, offset, len } => {
                stream.extend_from_slice(&self.bytes(buffer)[offset..offset + len]);
            }
            Chunk::Zeroes(len) => stream.extend(std::iter::repeat_n(0, len)),
        }
    }
}

/// A place as one of memory.
pub(crate) fn range(place: Place) -> std::ops::Range<usize> {
    let start = usize::try_from(place.offset).expect("the area is in memory");
    start..start + crate::length(place.len)
}

fn index(buffer: BufferId) -> usize {
    usize::try_from(buffer.0).expect("usize is at least 32 bits wide")
}
