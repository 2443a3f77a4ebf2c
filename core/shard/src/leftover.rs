//! Bytes that were received, and wait because what stands in front of them does.
//!
//! A core keeps a bounded number of them. Past that it receives little at a time, so that a connection
//! whose next bytes would free buffers still goes on.

/// Bytes that a core keeps so, after which it receives `RECEIVE_LEN_MIN` at a time.
pub const LEFTOVER_MAX: usize = 64 << 20;

/// What is received at a time at least.
const RECEIVE_LEN_MIN: usize = 4096;

/// A connection's.
#[derive(Debug, Default)]
pub(crate) struct Leftover {
    bytes: Vec<u8>,
    /// How many of them are taken.
    taken: usize,
}

impl Leftover {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// What was fed but for its last `left` bytes is taken.
    fn keep_last(mut self, left: usize) -> Self {
        self.taken = self.bytes.len() - left;
        self
    }
}

/// What all connections of a core have left over.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    len: usize,
}

impl Leftovers {
    /// How much may be received at once.
    #[inline]
    pub(crate) fn receive_len(&self, staging_len: usize) -> usize {
        LEFTOVER_MAX.saturating_sub(self.len).clamp(RECEIVE_LEN_MIN, staging_len)
    }

    /// Received bytes have to wait.
    pub(crate) fn keep(&mut self, bytes: &[u8]) -> Leftover {
        self.len += bytes.len();
        Leftover { bytes: bytes.to_vec(), taken: 0 }
    }

    /// Bytes that waited were taken, but for the last `left`. They stay where they are.
    pub(crate) fn keep_last(&mut self, leftover: Leftover, left: usize) -> Leftover {
        if left == 0 {
            self.forget(leftover);
            return Leftover::default();
        }
        leftover.keep_last(left)
    }

    /// A connection comes from another core, with what it has left over.
    pub(crate) fn adopt(&mut self, leftover: &Leftover) {
        self.len += leftover.bytes.len();
    }

    /// A connection goes to another core, with what it has left over.
    pub(crate) fn leave(&mut self, leftover: &Leftover) {
        assert!(leftover.bytes.len() <= self.len, "what is left over is counted once");
        self.len -= leftover.bytes.len();
    }

    /// Nobody takes these any more.
    pub(crate) fn forget(&mut self, leftover: Leftover) {
        self.leave(&leftover);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn past_the_bound_little_is_received_and_all_again_when_it_is_taken() {
        let mut leftovers = Leftovers::default();
        assert_eq!(leftovers.receive_len(1 << 18), 1 << 18);
        let kept = leftovers.keep(&vec![0; LEFTOVER_MAX]);
        assert_eq!(leftovers.receive_len(1 << 18), RECEIVE_LEN_MIN);
        let kept = leftovers.keep_last(kept, 10);
        assert_eq!(kept.as_slice().len(), 10);
        assert_eq!(leftovers.receive_len(1 << 18), RECEIVE_LEN_MIN);
        assert!(leftovers.keep_last(kept, 0).is_empty());
        assert_eq!(leftovers.receive_len(1 << 18), 1 << 18);
    }

    #[test]
    fn what_is_taken_in_parts_is_in_order() {
        let mut leftovers = Leftovers::default();
        let kept = leftovers.keep(b"abcdef");
        let kept = leftovers.keep_last(kept, 4);
        assert_eq!(kept.as_slice(), b"cdef");
        let kept = leftovers.keep_last(kept, 1);
        assert_eq!(kept.as_slice(), b"f");
        leftovers.forget(kept);
        assert_eq!(leftovers.len, 0);
    }
}
