//! Writes to a volume of another node that no flush has followed. All cores share the record.
//!
//! A node that loses its power may lose writes that it has answered. A host of that node sees its
//! connection break. A host of this node sees nothing, so its next flush must fail: the device becomes
//! suspect.

use std::sync::atomic::{AtomicU64, Ordering};

use nearflash_device::Health;

/// The record of one volume of another node.
#[derive(Debug, Default)]
pub struct Unflushed {
    /// The present start of the node: [`nearflash_direct::wire::HelloAnswer::boot`].
    boot: AtomicU64,
    /// The number of writes that were answered.
    written: AtomicU64,
    /// The number of these that a flush has followed.
    flushed: AtomicU64,
}

impl Unflushed {
    /// A connection is complete, and the node said this number. Returns whether writes may be lost.
    pub(super) fn connected(&self, boot: u64, health: &Health) -> bool {
        let was = self.boot.swap(boot, Ordering::SeqCst);
        if was == 0 || was == boot {
            return false;
        }
        let written = self.written.load(Ordering::SeqCst);
        let is_lost = self.flushed.fetch_max(written, Ordering::SeqCst) < written;
        if is_lost {
            health.note_failure();
        }
        is_lost
    }

    /// A write was answered over a connection whose node had said `boot`.
    pub(super) fn written(&self, boot: u64, health: &Health) {
        self.written.fetch_add(1, Ordering::SeqCst);
        // Another core knows already that the node has started again.
        if self.boot.load(Ordering::SeqCst) != boot {
            health.note_failure();
        }
    }

    /// The writes that a flush covers which is sent now.
    pub(super) fn covered(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    /// A flush that covers these writes was answered.
    pub(super) fn flushed(&self, covered: u64) {
        self.flushed.fetch_max(covered, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_fails_the_device_only_if_an_answered_write_was_not_flushed() {
        let (record, health) = (Unflushed::default(), Health::default());
        assert!(!record.connected(7, &health), "the first connection");
        record.written(7, &health);
        assert!(!record.connected(7, &health), "the same start");
        record.flushed(record.covered());
        assert!(!record.connected(8, &health), "all writes are flushed");
        record.written(8, &health);
        let covered = record.covered();
        record.written(8, &health);
        record.flushed(covered);
        assert!(!health.is_suspect());
        assert!(record.connected(9, &health), "the second write came after the flush had begun");
        assert!(health.is_suspect());
    }

    #[test]
    fn a_further_connection_to_the_same_start_flushes_nothing() {
        let (record, health) = (Unflushed::default(), Health::default());
        record.connected(7, &health);
        record.written(7, &health);
        record.connected(7, &health);
        assert!(record.connected(8, &health) && health.is_suspect());
    }

    #[test]
    fn a_late_answer_over_an_old_connection_fails_the_device() {
        let (record, health) = (Unflushed::default(), Health::default());
        record.connected(7, &health);
        record.connected(8, &health);
        record.written(7, &health);
        assert!(health.is_suspect());
    }
}
