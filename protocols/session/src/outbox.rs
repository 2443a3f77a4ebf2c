//! The sending side of a serving end: the output to send, and the buffers that will not be sent.
//!
//! Invariant: each buffer given to an outbox is passed to `released` exactly once.

use std::ops::{Deref, DerefMut};

use nearflash_request::{BufferId, Payload};

use crate::output::Output;

/// An [`Output`], and the buffers of commands that are answered without them.
#[derive(Debug, Default)]
pub struct Outbox {
    output: Output,
    /// Given back by the next [`Self::advance`], even if nothing is sent.
    orphans: Vec<BufferId>,
}

impl Outbox {
    /// The buffer is no longer needed.
    #[inline]
    pub fn orphan(&mut self, buffer: BufferId) {
        self.orphans.push(buffer);
    }

    /// Gives back several buffers.
    #[inline]
    pub fn orphan_all(&mut self, buffers: impl IntoIterator<Item = BufferId>) {
        self.orphans.extend(buffers);
    }

    /// Takes a completion's buffer that will not be sent.
    #[inline]
    pub fn orphan_payload(&mut self, payload: Payload) {
        if let Payload::Buffer(buffer) = payload {
            self.orphans.push(buffer);
        }
    }

    /// Records that `sent` bytes were sent, perhaps none. Passes buffers that are no longer needed to
    /// `released`.
    ///
    /// # Panics
    /// When more was sent than there is.
    #[inline]
    pub fn advance(&mut self, sent: usize, released: &mut impl FnMut(BufferId)) {
        self.output.advance(sent, released);
        if !self.orphans.is_empty() {
            self.release_orphans(released);
        }
    }

    /// Passes on the buffers that will not be sent.
    pub fn release_orphans(&mut self, released: &mut impl FnMut(BufferId)) {
        self.orphans.drain(..).for_each(released);
    }

    /// Drops everything, and passes every buffer to `released`.
    pub fn release_all(&mut self, released: &mut impl FnMut(BufferId)) {
        self.output.clear(released);
        self.release_orphans(released);
    }

    /// Whether the output exceeds these bounds. A peer that reads stays far below them.
    #[inline]
    pub fn exceeds(&self, parts_max: usize, bytes_max: usize) -> bool {
        self.output.part_count() > parts_max || self.output.bytes_len() > bytes_max
    }
}

impl Deref for Outbox {
    type Target = Output;

    fn deref(&self) -> &Output {
        &self.output
    }
}

impl DerefMut for Outbox {
    fn deref_mut(&mut self) -> &mut Output {
        &mut self.output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_buffer_comes_back_once_sent_or_not() {
        for is_sent in [false, true] {
            let mut outbox = Outbox::default();
            outbox.push_buffer(BufferId(1), 0, 10);
            outbox.orphan(BufferId(2));
            outbox.orphan_payload(Payload::Buffer(BufferId(3)));
            outbox.orphan_payload(Payload::Zeroes);
            let mut back = Vec::new();
            if is_sent {
                outbox.advance(10, &mut |buffer| back.push(buffer));
            }
            outbox.release_all(&mut |buffer| back.push(buffer));
            assert_eq!(back, [1, 2, 3].map(BufferId));
        }
    }
}
