//! Buffers as a pool would give them, and none lost.

use nearflash_request::BufferId;
use nearflash_session::Chunk;

/// The buffers taken, by number.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    buffers: Vec<Option<Vec<u8>>>,
}

impl Memory {
    /// A buffer of that length, full of what no one put there.
    pub(crate) fn take(&mut self, len: usize) -> BufferId {
        let free = self.buffers.iter().position(Option::is_none);
        let index = free.unwrap_or(self.buffers.len());
        if index == self.buffers.len() {
            self.buffers.push(None);
        }
        self.buffers[index] = Some(vec![0xA5; len]);
        BufferId(u32::try_from(index).expect("few buffers"))
    }

    pub(crate) fn give_back(&mut self, buffer: BufferId) {
        let taken = self.buffers[index(buffer)].take();
        assert!(taken.is_some(), "{buffer:?} is given back once");
    }

    pub(crate) fn bytes(&self, buffer: BufferId) -> &[u8] {
        self.buffers[index(buffer)].as_ref().expect("the buffer is taken")
    }

    pub(crate) fn bytes_mut(&mut self, buffer: BufferId) -> &mut Vec<u8> {
        self.buffers[index(buffer)].as_mut().expect("the buffer is taken")
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

fn index(buffer: BufferId) -> usize {
    usize::try_from(buffer.0).expect("usize is at least 32 bits wide")
}
