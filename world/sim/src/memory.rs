//! A simulated host's buffers.

use std::collections::BTreeMap;

use nearflash_request::BufferId;
use nearflash_session::Chunk;

/// Buffers by number. A number is not used twice.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    buffers: BTreeMap<BufferId, Vec<u8>>,
    count: u32,
}

impl Memory {
    /// A buffer of that length, filled with bytes that belong to nobody.
    pub(crate) fn take(&mut self, len: usize) -> BufferId {
        self.hold(vec![0xC3; len])
    }

    pub(crate) fn hold(&mut self, bytes: Vec<u8>) -> BufferId {
        self.count += 1;
        let buffer = BufferId(self.count);
        self.buffers.insert(buffer, bytes);
        buffer
    }

    pub(crate) fn give_back(&mut self, buffer: BufferId) -> Vec<u8> {
        self.buffers.remove(&buffer).expect("a buffer is given back once")
    }

    pub(crate) fn bytes(&self, buffer: BufferId) -> &[u8] {
        self.buffers.get(&buffer).expect("the buffer is taken")
    }

    pub(crate) fn bytes_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        self.buffers.get_mut(&buffer).expect("the buffer is taken")
    }

    /// Appends a chunk's bytes to `stream`.
    pub(crate) fn append(&self, stream: &mut Vec<u8>, chunk: Chunk<'_>) {
        match chunk {
            Chunk::Bytes(bytes) => stream.extend_from_slice(bytes),
            Chunk::Buffer { buffer, offset, len } => {
                stream.extend_from_slice(&self.bytes(buffer)[offset..offset + len]);
            }
            Chunk::Zeroes(len) => stream.resize(stream.len() + len, 0),
        }
    }
}
