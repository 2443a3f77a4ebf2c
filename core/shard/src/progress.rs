//! Detects peers that make no progress while something waits for them.
//!
//! A peer that moves no bytes for the stall timeout is given up. So is one that holds buffers of
//! the pool and moves fewer bytes than a minimum rate: others wait for those buffers.

use nearflash_units::{ByteLen, Nanos};

/// The minimum rate in bytes per second, over the stall timeout, of a peer that holds as many bytes
/// of the pool.
pub const PROGRESS_MIN: ByteLen = ByteLen(64 * 1024);

/// The bytes moved between a connection and its peer.
#[derive(Debug)]
pub(crate) struct Progress {
    /// When anything last moved, either way.
    moved_at: Nanos,
    /// Bytes, since the start.
    moved: u64,
    /// The present stretch of waiting, at most as long as the stall timeout.
    waits: Option<Waits>,
}

#[derive(Clone, Copy, Debug)]
struct Waits {
    since: Nanos,
    /// The bytes moved before this stretch.
    moved: u64,
    /// The pool bytes held at its start.
    held: ByteLen,
}

impl Progress {
    pub(crate) fn new(now: Nanos) -> Self {
        Self { moved_at: now, moved: 0, waits: None }
    }

    /// Bytes were received or sent.
    #[inline]
    pub(crate) fn note(&mut self, now: Nanos, len: usize) {
        self.moved_at = now;
        self.moved += ByteLen::from_usize(len).0;
    }

    /// The peer waited for us until now.
    pub(crate) fn begins(&mut self, now: Nanos) {
        self.note(now, 0);
        self.waits = None;
    }

    /// Nothing waits for the peer.
    pub(crate) fn rests(&mut self) {
        self.waits = None;
    }

    /// Records that progress depends on the peer, which holds `held` bytes. Returns whether it has
    /// done so for too long.
    pub(crate) fn is_stalled(&mut self, now: Nanos, patience: Nanos, held: ByteLen) -> bool {
        let fresh = Waits { since: now, moved: self.moved, held };
        let waits = *self.waits.get_or_insert(fresh);
        if now.since(waits.since.max(self.moved_at)) > patience {
            return true;
        }
        if now.since(waits.since) <= patience {
            return false;
        }
        self.waits = Some(fresh);
        let enough = PROGRESS_MIN.0.saturating_mul(patience.0) / Nanos::from_secs(1).0;
        // All that it held at first has moved, or enough has.
        let least = waits.held.0.min(enough);
        self.moved - waits.moved < least && held.0 > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Nanos = Nanos::from_secs(30);
    const HELD: ByteLen = ByteLen(8 << 20);

    /// Whether a peer that moves `len` bytes every second is given up within two minutes.
    fn is_given_up(len: usize, held: ByteLen) -> bool {
        let mut progress = Progress::new(Nanos(0));
        (1..120).map(Nanos::from_secs).any(|now| {
            if len > 0 {
                progress.note(now, len);
            }
            progress.is_stalled(now, PATIENCE, held)
        })
    }

    #[test]
    fn a_peer_that_moves_nothing_is_given_up() {
        assert!(is_given_up(0, HELD) && is_given_up(0, ByteLen(0)));
    }

    #[test]
    fn a_peer_that_moves_next_to_nothing_of_what_it_holds_is_given_up() {
        assert!(is_given_up(1, HELD) && is_given_up(60_000, HELD));
        assert!(!is_given_up(70_000, HELD));
    }

    #[test]
    fn the_minimum_rate_counts_parts_of_a_second_too() {
        let patience = Nanos::from_millis(1_900);
        let mut progress = Progress::new(Nanos(0));
        let is_given_up = (1..120).map(Nanos::from_secs).any(|now| {
            // Less than 64 KiB a second, but more than 64 KiB in each stretch.
            progress.note(now, 50_000);
            progress.is_stalled(now, patience, HELD)
        });
        assert!(is_given_up);
    }

    #[test]
    fn a_slow_peer_that_holds_little_is_waited_for() {
        assert!(!is_given_up(1, ByteLen(0)));
        assert!(!is_given_up(200, ByteLen(4096)));
    }

    #[test]
    fn a_peer_that_something_waits_for_now_and_then_is_not_given_up() {
        let mut progress = Progress::new(Nanos(0));
        for now in (1..120).map(Nanos::from_secs) {
            progress.note(now, 1);
            assert!(!progress.is_stalled(now, PATIENCE, HELD));
            if now.0.is_multiple_of(Nanos::from_secs(20).0) {
                progress.rests();
            }
        }
    }
}
