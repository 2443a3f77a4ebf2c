//! Received bytes that wait because a command in front of them waits.
//!
//! A core keeps a bounded number of them. Beyond it, the core receives little at a time, so that a
//! connection whose next bytes would free buffers can still proceed.

/// The leftover bytes of a core beyond which it receives `RECEIVE_LEN_MIN` bytes at a time.
pub const LEFTOVER_MAX: usize = 64 << 20;

/// The least number of bytes received at a time.
const RECEIVE_LEN_MIN: usize = 4096;

/// The leftover bytes of one connection.
#[derive(Debug, Default)]
pub(crate) struct Leftover {
    bytes: Vec<u8>,
    /// The number of bytes already taken.
    taken: usize,
}

impl Leftover {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }
}

/// The leftover bytes of all connections of a core.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    len: usize,
}

impl Leftovers {
    /// The maximum number of bytes to receive at once.
    #[inline]
    pub(crate) fn receive_len(&self, staging_len: usize) -> usize {
        LEFTOVER_MAX.saturating_sub(self.len).clamp(RECEIVE_LEN_MIN, staging_len)
    }

    /// Keeps received bytes that must wait.
    pub(crate) fn keep(&mut self, bytes: &[u8]) -> Leftover {
        self.len += bytes.len();
        Leftover { bytes: bytes.to_vec(), taken: 0 }
    }

    /// Marks all waiting bytes but the last `left` as taken. They stay where they are.
    pub(crate) fn keep_last(&mut self, leftover: Leftover, left: usize) -> Leftover {
        if left == 0 {
            self.leave(&leftover);
            return Leftover::default();
        }
        Leftover { taken: leftover.bytes.len() - left, ..leftover }
    }

    /// A connection arrives from another core, with its leftover bytes.
    pub(crate) fn adopt(&mut self, leftover: &Leftover) {
        self.len += leftover.bytes.len();
    }

    /// Leftover bytes are gone: taken, dropped, or with their connection to another core.
    pub(crate) fn leave(&mut self, leftover: &Leftover) {
        assert!(leftover.bytes.len() <= self.len, "what is left over is counted once");
        self.len -= leftover.bytes.len();
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
        leftovers.leave(&kept);
        assert_eq!(leftovers.len, 0);
    }
}
