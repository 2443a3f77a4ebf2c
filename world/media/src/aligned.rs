//! Memory on a page boundary, as direct I/O requires it.

use std::ops::{Deref, DerefMut};

/// A multiple of every block size and memory alignment that a device requires.
const ALIGNMENT: usize = 65_536;

/// Zeroed bytes on a boundary of 64 KiB.
#[derive(Debug)]
pub(crate) struct Aligned {
    memory: Box<[u8]>,
    start: usize,
    len: usize,
}

impl Aligned {
    pub(crate) fn new(len: usize) -> Self {
        let memory = vec![0; len + ALIGNMENT].into_boxed_slice();
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Self { memory, start, len }
    }
}

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}
