//! The memory behind a pool.

use std::fmt;
use std::ops::Range;

/// The length of the smallest buffer, and the alignment of all, in bytes.
pub const PAGE_LEN: usize = 4096;

/// The memory of a pool, which belongs to the world: devices and the kernel write to parts of it.
///
/// Ranges are in bytes from its start, and each is the range of one taken buffer, so that no
/// reference reaches into another buffer. The bytes of a buffer are not accessed while a device
/// operation on it is in flight.
pub trait Arena: fmt::Debug {
    /// The bytes of a buffer.
    fn bytes(&self, range: Range<usize>) -> &[u8];

    /// The bytes of a buffer, to fill.
    fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8];

    /// The bytes of two buffers, the first of them to fill.
    ///
    /// # Panics
    /// If the two ranges overlap. This is a bug in the caller.
    fn pair_mut(&mut self, filled: Range<usize>, other: Range<usize>) -> (&mut [u8], &[u8]);
}

/// An arena that no kernel reaches: simulators' and tests'.
#[derive(Debug)]
pub(crate) struct Heap {
    /// One page longer than the arena, so that the arena can begin on a page boundary.
    memory: Box<[u8]>,
    start: usize,
}

impl Heap {
    pub(crate) fn new(len: usize) -> Self {
        let memory = vec![0u8; len + PAGE_LEN].into_boxed_slice();
        let start = memory.as_ptr().align_offset(PAGE_LEN);
        Self { memory, start }
    }
}

impl Arena for Heap {
    fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.memory[self.start..][range]
    }

    fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self.memory[self.start..][range]
    }

    fn pair_mut(&mut self, filled: Range<usize>, other: Range<usize>) -> (&mut [u8], &[u8]) {
        assert!(filled.end <= other.start || other.end <= filled.start, "two buffers");
        let (low, high) = self.memory[self.start..].split_at_mut(filled.start.max(other.start));
        if other.start < filled.start {
            (&mut high[..filled.len()], &low[other])
        } else {
            (&mut low[filled], &high[..other.len()])
        }
    }
}
