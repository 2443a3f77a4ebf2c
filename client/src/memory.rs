//! The memory of a connection's payload: page-aligned buffers of equal length in one allocation.

use nearflash_request::BufferId;
use nearflash_units::ByteLen;

use crate::stream;

/// The alignment of every buffer: a page, as devices require it of an application that passes a
/// buffer on.
const ALIGNMENT: usize = 4096;

/// The buffers. A buffer's number is its index.
pub(crate) struct Memory {
    bytes: Vec<u8>,
    start: usize,
    stride: usize,
    free: Vec<u32>,
    taken: Box<[bool]>,
}

impl Memory {
    /// Reserves `count` buffers of at least `len` bytes, without touching their pages.
    pub(crate) fn new(count: u32, len: ByteLen) -> Self {
        let stride = len.to_usize().next_multiple_of(ALIGNMENT).max(ALIGNMENT);
        let bytes = vec![0; index(count) * stride + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        let taken = vec![false; index(count)].into_boxed_slice();
        Self { bytes, start, stride, free: (0..count).rev().collect(), taken }
    }

    pub(crate) fn take(&mut self, len: ByteLen) -> Option<BufferId> {
        if len.to_usize() > self.stride {
            return None;
        }
        let buffer = self.free.pop()?;
        self.taken[index(buffer)] = true;
        Some(BufferId(buffer))
    }

    /// # Panics
    /// When the buffer is not taken: it would then be given out twice.
    pub(crate) fn give_back(&mut self, buffer: BufferId) {
        let taken = std::mem::take(&mut self.taken[index(buffer.0)]);
        assert!(taken, "buffer {buffer:?} is given back once");
        self.free.push(buffer.0);
    }
}

impl stream::Memory for Memory {
    #[inline]
    fn bytes(&self, buffer: BufferId) -> &[u8] {
        &self.bytes[self.start + index(buffer.0) * self.stride..][..self.stride]
    }

    #[inline]
    fn bytes_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        &mut self.bytes[self.start + index(buffer.0) * self.stride..][..self.stride]
    }

    #[inline]
    fn all_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let end = self.start + self.taken.len() * self.stride;
        self.bytes[self.start..end].chunks_exact_mut(self.stride)
    }
}

#[inline]
pub(crate) fn index(raw: u32) -> usize {
    usize::try_from(raw).expect("usize is at least 32 bits wide")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Memory as _;

    #[test]
    fn buffers_are_page_aligned_and_never_overlap() {
        let mut memory = Memory::new(3, ByteLen(5000));
        let buffers: Vec<BufferId> = (0..3).map(|_| memory.take(ByteLen(5000)).unwrap()).collect();
        assert_eq!(memory.take(ByteLen(1)), None, "all are taken");
        for buffer in &buffers {
            memory.bytes_mut(*buffer).fill(u8::try_from(buffer.0).unwrap());
        }
        for (buffer, bytes) in (0..3).zip(memory.all_mut()) {
            assert_eq!(bytes.as_ptr().align_offset(ALIGNMENT), 0);
            assert!(bytes.len() >= 5000 && bytes.iter().all(|byte| *byte == buffer));
        }
        memory.give_back(buffers[1]);
        assert_eq!(memory.take(ByteLen(1)), Some(buffers[1]));
    }

    #[test]
    fn a_buffer_larger_than_all_is_refused() {
        assert_eq!(Memory::new(1, ByteLen(4096)).take(ByteLen(4097)), None);
    }

    #[test]
    #[should_panic(expected = "given back once")]
    fn giving_a_buffer_back_twice_is_caught() {
        let mut memory = Memory::new(1, ByteLen(1));
        let buffer = memory.take(ByteLen(1)).unwrap();
        memory.give_back(buffer);
        memory.give_back(buffer);
    }
}
