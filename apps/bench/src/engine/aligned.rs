//! One buffer per slot, aligned for O_DIRECT.

use nearflash_units::ByteLen;

use super::Slot;

/// Alignment of every buffer: a page, which is enough for every device.
const ALIGNMENT: usize = 4096;

/// Equal buffers in one allocation.
pub(super) struct SlotBuffers {
    memory: Vec<u8>,
    start: usize,
    stride: usize,
    len: usize,
}

impl SlotBuffers {
    pub(super) fn new(count: usize, len: ByteLen) -> Self {
        let len = len.to_usize();
        let stride = len.next_multiple_of(ALIGNMENT);
        // Touches all pages now, so that no operation pays for a page fault.
        let memory = vec![0x5A; count * stride + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Self { memory, start, stride, len }
    }

    pub(super) fn get(&self, slot: Slot) -> &[u8] {
        let start = self.start + slot * self.stride;
        &self.memory[start..start + self.len]
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut [u8] {
        let start = self.start + slot * self.stride;
        &mut self.memory[start..start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_buffer_is_page_aligned_and_its_own() {
        let mut buffers = SlotBuffers::new(3, ByteLen(6000));
        for slot in 0..3 {
            buffers.get_mut(slot).fill(u8::try_from(slot).unwrap());
        }
        for slot in 0..3 {
            let buffer = buffers.get(slot);
            assert_eq!(buffer.as_ptr().align_offset(ALIGNMENT), 0);
            assert_eq!(buffer, vec![u8::try_from(slot).unwrap(); 6000]);
        }
    }
}
