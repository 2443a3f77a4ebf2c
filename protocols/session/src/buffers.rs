//! Commands that request their data only when they have a buffer.

use std::collections::VecDeque;

use nearflash_units::ByteLen;

/// The queue of them, oldest first.
#[derive(Debug)]
pub struct BufferQueue<T> {
    waiting: VecDeque<(T, ByteLen)>,
}

impl<T> Default for BufferQueue<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new() }
    }
}

impl<T: Copy> BufferQueue<T> {
    /// A queue with room for this many items, so that no item allocates.
    pub fn reserve(&mut self, count: usize) {
        self.waiting.reserve(count);
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// `item` waits for a buffer of at least `len`.
    #[inline]
    pub fn push(&mut self, item: T, len: ByteLen) {
        self.waiting.push_back((item, len));
    }

    /// The oldest item, and the length of the buffer that it waits for.
    #[inline]
    pub fn first(&self) -> Option<(T, ByteLen)> {
        self.waiting.front().copied()
    }

    /// The oldest has what it waited for.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        self.waiting.pop_front().map(|(item, _)| item)
    }

    /// Removes the items for which `is_meant` is true.
    pub fn cancel(&mut self, is_meant: impl Fn(T) -> bool) {
        self.waiting.retain(|(item, _)| !is_meant(*item));
    }

    /// Nothing waits any more.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }
}
