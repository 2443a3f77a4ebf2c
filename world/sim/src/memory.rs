//! A simulated host's buffers.

use std::collections::BTreeMap;

use nearflash_request::BufferId;
use nearflash_session::Chunk;

/// The maximum number of bytes offered in one send.
const SEND_LEN_MAX: usize = 64 * 1024;

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
}

/// The next bytes of a stream: those of `chunks`, whose buffers have the bytes `bytes_of`, but no more
/// than `room`, so that a narrow network does not cost a copy of all output for each piece of it.
pub(crate) fn gather<'a, 'b>(
    chunks: impl Iterator<Item = Chunk<'a>>,
    room: usize,
    bytes_of: impl Fn(BufferId) -> &'b [u8],
) -> Vec<u8> {
    let len_max = room.min(SEND_LEN_MAX);
    let mut stream = Vec::new();
    for chunk in chunks {
        let left = len_max - stream.len();
        if left == 0 {
            break;
        }
        let len = chunk.len().min(left);
        match chunk {
            Chunk::Bytes(bytes) => stream.extend_from_slice(&bytes[..len]),
            Chunk::Buffer { buffer, offset, .. } => {
                stream.extend_from_slice(&bytes_of(buffer)[offset..offset + len]);
            }
            Chunk::Zeroes(_) => stream.resize(stream.len() + len, 0),
        }
    }
    stream
}
