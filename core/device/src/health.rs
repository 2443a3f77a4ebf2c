//! Whether a device's reports that data is on stable media can be trusted.
//!
//! A failure to make data durable is reported once: by Linux to one of the open files, by a block
//! device to one flush. It may concern writes that another core has acknowledged, and the next
//! flush succeeds. So all cores share a record of the failure, which stays until an operator clears
//! it.
//!
//! A success is not trusted at once either: another operation may have failed before it, and that
//! operation's core may not have processed the failure yet. So a success counts once every
//! operation has ended that was under way when the success was reported. Operations belong to
//! epochs. Invariant: every operation under way belongs to the current epoch or to the previous
//! one; so the operations that were under way in one epoch have ended two epochs later.

use std::sync::atomic::{AtomicU32, Ordering};

use nearflash_units::Nanos;

use crate::failures::Failures;
use crate::unflushed::Unflushed;

/// The maximum time for which a success waits for other operations. A core processes the failure of
/// an operation within a turn, which is far shorter. An operation that takes longer has not failed
/// before the success: it hangs, and must not delay other volumes of its device.
pub const DOUBT_MAX: Nanos = Nanos::from_millis(250);

/// The durability record of one device, shared by all cores.
#[derive(Debug, Default)]
pub struct Health {
    failures: Failures,
    epoch: AtomicU32,
    /// Flushes and durable writes under way, of even and of odd epochs.
    under_way: [AtomicU32; 2],
    /// Answered writes that the machine of the device may lose.
    unflushed: Unflushed,
}

/// A flush or a durable write under way.
#[derive(Clone, Copy, Debug)]
pub struct Promise {
    /// The number of failures when it began.
    failures: u32,
    is_odd: bool,
}

/// A flush or a durable write that ended without losing data.
#[derive(Clone, Copy, Debug)]
pub struct Success {
    failures: u32,
    epoch: u32,
}

impl Health {
    /// Registers a flush or a durable write that is about to be submitted.
    pub fn begin(&self) -> Promise {
        let failures = self.failures.count();
        loop {
            let epoch = self.epoch.load(Ordering::SeqCst);
            self.of_epoch(epoch).fetch_add(1, Ordering::SeqCst);
            if self.epoch.load(Ordering::SeqCst) == epoch {
                return Promise { failures, is_odd: epoch % 2 == 1 };
            }
            self.of_epoch(epoch).fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Ends it with a failure: data acknowledged earlier may be lost.
    pub fn fail(&self, promise: Promise) {
        self.note_failure();
        self.end(promise);
    }

    /// Ends it without loss of data. [`Self::judge`] reports whether its success can be trusted.
    pub fn end(&self, promise: Promise) -> Success {
        let before = self.of_epoch(promise.is_odd.into()).fetch_sub(1, Ordering::SeqCst);
        assert!(before > 0, "an operation ends once");
        Success { failures: promise.failures, epoch: self.epoch.load(Ordering::SeqCst) }
    }

    /// Whether a success can be trusted; `None` while operations before it are under way.
    pub fn judge(&self, success: Success) -> Option<bool> {
        loop {
            let epoch = self.epoch.load(Ordering::SeqCst);
            if epoch.wrapping_sub(success.epoch) >= 2 {
                return Some(self.judge_overdue(success));
            }
            let next = epoch.wrapping_add(1);
            if self.of_epoch(next).load(Ordering::SeqCst) > 0 {
                return None;
            }
            // If the exchange fails, another core has advanced the epoch.
            let _ = self.epoch.compare_exchange(epoch, next, Ordering::SeqCst, Ordering::SeqCst);
        }
    }

    /// Whether a success that has waited for [`DOUBT_MAX`] can be believed.
    pub fn judge_overdue(&self, success: Success) -> bool {
        self.failures.count() == success.failures && !self.is_suspect()
    }

    /// The number of operations under way of this epoch, and of all others of the same parity.
    fn of_epoch(&self, epoch: u32) -> &AtomicU32 {
        &self.under_way[usize::from(epoch % 2 == 1)]
    }

    /// Records that a flush or a durable write failed: data acknowledged earlier may be lost.
    pub fn note_failure(&self) {
        self.failures.note();
    }

    /// Whether a failure is not cleared. Until it is, no flush and no durable write may succeed.
    pub fn is_suspect(&self) -> bool {
        self.failures.has_any()
    }

    /// Clears the failures so far; a concurrent later failure stays. Operations that were under way
    /// during a cleared failure still do not succeed. Returns whether there were failures to clear.
    pub fn clear(&self) -> bool {
        self.failures.clear()
    }

    /// The device is at this start, which may be another one than before. Returns whether answered writes
    /// may be lost.
    pub fn note_start(&self, start: u64) -> bool {
        self.unflushed.note_start(start, &self.failures)
    }

    /// Notes the start of a device whose starts have growing numbers, of which 0 is the first one. A core that knows
    /// an earlier start changes nothing.
    pub fn note_later_start(&self, start: u64) -> bool {
        self.unflushed.note_later_start(start, &self.failures)
    }

    /// A write is answered that was done in this start of the device, and not durably.
    pub fn note_written(&self, start: u64) {
        self.unflushed.note_written(start, &self.failures);
    }

    /// The writes that a flush covers which is sent now.
    pub fn covered(&self) -> u64 {
        self.unflushed.covered()
    }

    /// A flush that covers these writes was answered.
    pub fn note_flushed(&self, covered: u64) {
        self.unflushed.note_flushed(covered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_stays_until_it_is_cleared_and_a_later_one_is_a_new_one() {
        let health = Health::default();
        assert!(!health.is_suspect() && !health.clear());
        health.note_failure();
        assert!(health.is_suspect() && health.clear());
        assert!(!health.is_suspect() && !health.clear());
        health.note_failure();
        assert!(health.is_suspect());
    }

    #[test]
    fn a_success_is_believed_when_all_has_ended_that_was_under_way_when_it_came() {
        for fails in [false, true] {
            let health = Health::default();
            let (one, other) = (health.begin(), health.begin());
            let success = health.end(one);
            assert_eq!(health.judge(success), None);
            // Operations that begin later do not matter to it.
            let (_later, last) = (health.begin(), health.begin());
            if fails {
                health.fail(other);
            } else {
                health.end(other);
            }
            assert_eq!(health.judge(success), Some(!fails));
            health.end(last);
        }
    }

    #[test]
    fn a_success_of_what_was_under_way_at_a_failure_is_not_believed_after_that_is_cleared() {
        let health = Health::default();
        let (one, other) = (health.begin(), health.begin());
        health.fail(other);
        assert!(health.clear());
        let success = health.end(one);
        assert_eq!(health.judge(success), Some(false));
        let success = health.end(health.begin());
        assert_eq!(health.judge(success), Some(true));
    }
}
