//! The memory of one operation's payload.
//!
//! A buffer belongs to the caller or, from post to completion, to the queue pair: it is moved, so
//! the two cannot access it at the same time.

use std::fmt;
use std::ops::{Deref, DerefMut};

use nearflash_ring::{Area, Slice};

/// The alignment of buffers on the heap: a page, as devices require it of an application that
/// passes the memory on.
const ALIGNMENT: usize = 4096;

/// Bytes to read into or to write from. It dereferences to them.
pub struct Buffer {
    memory: Memory,
    len: usize,
}

/// The location of the bytes.
enum Memory {
    /// On this process's heap.
    Heap(Heap),
    /// In memory shared with a node on this machine.
    Shared(Slice),
    /// In flight: the ring holds the slice.
    Lent,
}

struct Heap {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    /// A page-aligned buffer of zeroes on the heap. [`super::QueuePair::buffer`] allocates from
    /// shared memory, if there is any, which saves a copy.
    pub fn new(len: usize) -> Self {
        let bytes = vec![0; len + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        Self { memory: Memory::Heap(Heap { bytes, start }), len }
    }

    /// The largest length of the buffer.
    pub fn capacity(&self) -> usize {
        match &self.memory {
            Memory::Heap(heap) => heap.bytes.len() - heap.start,
            Memory::Shared(slice) => slice.capacity(),
            Memory::Lent => self.len,
        }
    }

    /// Sets the length, within the capacity; an operation uses the whole length. Bytes that become
    /// visible are zeroes or the previous contents.
    ///
    /// # Panics
    /// When `len` exceeds [`Self::capacity`].
    pub fn set_len(&mut self, len: usize) {
        let capacity = self.capacity();
        assert!(len <= capacity, "a buffer of {capacity} bytes cannot be made {len} long");
        if let Memory::Shared(slice) = &mut self.memory {
            slice.set_len(len);
        }
        self.len = len;
    }

    /// A buffer in memory that is shared with a node.
    pub(super) fn shared(slice: Slice) -> Self {
        let len = slice.len();
        Self { memory: Memory::Shared(slice), len }
    }

    /// Lends the buffer's slice to an operation; `None` when it is not a slice of this area.
    #[inline]
    pub(super) fn lend(&mut self, area: &Area) -> Option<Slice> {
        match std::mem::replace(&mut self.memory, Memory::Lent) {
            Memory::Shared(slice) if slice.is_of(area) => Some(slice),
            other => {
                self.memory = other;
                None
            }
        }
    }

    /// Takes back the lent slice after the operation. Any other slice returns to its area.
    #[inline]
    pub(super) fn returned(&mut self, slice: Slice) {
        if self.is_lent() {
            self.memory = Memory::Shared(slice);
        }
    }

    /// Whether the ring holds the buffer's slice.
    pub(super) fn is_lent(&self) -> bool {
        matches!(self.memory, Memory::Lent)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.memory {
            Memory::Heap(heap) => &heap.bytes[heap.start..][..self.len],
            Memory::Shared(slice) => slice,
            Memory::Lent => &[],
        }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Heap(heap) => &mut heap.bytes[heap.start..][..self.len],
            Memory::Shared(slice) => slice,
            Memory::Lent => &mut [],
        }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

/// Takes the vector's memory, without alignment.
impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        let len = bytes.len();
        Self { memory: Memory::Heap(Heap { bytes, start: 0 }), len }
    }
}

impl From<&[u8]> for Buffer {
    fn from(bytes: &[u8]) -> Self {
        let mut buffer = Self::new(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }
}

/// Shows the length only: the contents are the application's data.
impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_page_aligned_zeroes() {
        let buffer = Buffer::new(5000);
        assert_eq!(buffer.as_ptr().align_offset(ALIGNMENT), 0);
        assert_eq!(*buffer, [0; 5000]);
    }

    #[test]
    fn a_buffer_is_shortened_and_lengthened_within_its_capacity() {
        let mut buffer = Buffer::from(&b"flash"[..]);
        buffer.set_len(2);
        assert_eq!(*buffer, *b"fl");
        buffer.set_len(5);
        assert_eq!(*buffer, *b"flash");
    }

    #[test]
    #[should_panic(expected = "cannot be made 6 long")]
    fn a_buffer_does_not_grow_beyond_its_capacity() {
        Buffer::from(vec![0; 5]).set_len(6);
    }
}
