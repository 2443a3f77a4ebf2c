//! Answered writes of a device on other machines that no flush has followed. All cores share the record.
//!
//! A node that loses its power may lose writes that it has answered. A host of that node sees its connection
//! break. A host of this node sees nothing, so its next flush must fail: the device becomes suspect.
//!
//! Writes belong to a *start* of the device: a number that changes when writes may have been lost. Of a
//! volume of another node, it is the number of that node's start. Of a mirror, it is the term since which no
//! answered write was lost, so a higher number is a later start.
//!
//! Invariant: a loss is a failure of the device before any core applies the new start. So a flush that
//! is sent after the loss ends when the failure is known.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::failures::Failures;

/// The counts of one device.
#[derive(Debug, Default)]
pub(crate) struct Unflushed {
    /// The present start; 0 before the first one is known.
    start: AtomicU64,
    /// The number of writes that were answered.
    written: AtomicU64,
    /// The number of these that a flush has followed.
    flushed: AtomicU64,
}

impl Unflushed {
    /// Whether writes were answered that no flush has followed.
    fn has_any(&self) -> bool {
        self.flushed.load(Ordering::SeqCst) < self.written.load(Ordering::SeqCst)
    }

    /// They are not counted any more.
    fn forget(&self) {
        self.flushed.fetch_max(self.written.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// See [`crate::Health::note_start`].
    pub(crate) fn note_start(&self, start: u64, failures: &Failures) -> bool {
        let was = self.start.load(Ordering::SeqCst);
        let is_lost = was != 0 && was != start && self.note_loss(failures);
        self.start.store(start, Ordering::SeqCst);
        is_lost
    }

    /// See [`crate::Health::note_later_start`].
    pub(crate) fn note_later_start(&self, start: u64, failures: &Failures) -> bool {
        let is_lost = self.start.load(Ordering::SeqCst) < start && self.note_loss(failures);
        self.start.fetch_max(start, Ordering::SeqCst);
        is_lost
    }

    fn note_loss(&self, failures: &Failures) -> bool {
        let is_lost = self.has_any();
        if is_lost {
            failures.note();
            self.forget();
        }
        is_lost
    }

    /// See [`crate::Health::note_written`].
    pub(crate) fn note_written(&self, start: u64, failures: &Failures) {
        self.written.fetch_add(1, Ordering::SeqCst);
        // Another core knows already that the device has started again.
        if self.start.load(Ordering::SeqCst) != start {
            failures.note();
        }
    }

    /// See [`crate::Health::covered`].
    pub(crate) fn covered(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    /// See [`crate::Health::note_flushed`].
    pub(crate) fn note_flushed(&self, covered: u64) {
        self.flushed.fetch_max(covered, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use crate::Health;

    #[test]
    fn a_restart_fails_the_device_only_if_an_answered_write_was_not_flushed() {
        let health = Health::default();
        assert!(!health.note_start(7), "the first connection");
        health.note_written(7);
        assert!(!health.note_start(7), "the same start");
        health.note_flushed(health.covered());
        assert!(!health.note_start(8), "all writes are flushed");
        health.note_written(8);
        let covered = health.covered();
        health.note_written(8);
        health.note_flushed(covered);
        assert!(!health.is_suspect());
        assert!(health.note_start(9), "the second write came after the flush had begun");
        assert!(health.is_suspect());
    }

    #[test]
    fn a_further_connection_to_the_same_start_flushes_nothing() {
        let health = Health::default();
        health.note_start(7);
        health.note_written(7);
        health.note_start(7);
        assert!(health.note_start(8) && health.is_suspect());
    }

    #[test]
    fn a_late_answer_over_an_old_connection_fails_the_device() {
        let health = Health::default();
        health.note_start(7);
        health.note_start(8);
        health.note_written(7);
        assert!(health.is_suspect());
    }

    #[test]
    fn a_core_that_hears_of_a_start_late_changes_nothing() {
        let health = Health::default();
        health.note_written(0);
        assert!(!health.note_later_start(0) && !health.is_suspect());
        assert!(health.note_later_start(3) && health.is_suspect());
        assert!(!health.note_later_start(3) && health.clear());
        health.note_written(3);
        assert!(!health.note_later_start(0) && !health.is_suspect());
        health.note_written(0);
        assert!(health.is_suspect(), "the answer of a core that knows the earlier start");
    }
}
