//! Whether a device can still be believed when it says that all is on stable media.
//!
//! A failure to make something durable is reported once: by Linux to one of those who have the file
//! open, by a block device to the flush that it answers so. It may concern what another core has
//! acknowledged, and the next flush succeeds. So a failure is kept here, for all cores, until
//! somebody who knows what it means clears it.
//!
//! A success is not believed at once either: another operation may have failed before it, and its
//! core may not know yet. So a success counts when every operation has ended that was under way when
//! it was reported. Operations belong to epochs. Invariant: what is under way belongs to the current
//! epoch or to the one before; so what was under way in one epoch has ended two epochs later.

use std::sync::atomic::{AtomicU32, Ordering};

use nearflash_units::Nanos;

/// How long a success waits for other operations. A core takes the failure of an operation within a
/// turn, which is far shorter: an operation that takes longer has not failed before the success, it
/// hangs, and does not hold up what other volumes of its device do.
pub const DOUBT_MAX: Nanos = Nanos::from_millis(250);

/// What all cores know of one device together.
#[derive(Debug, Default)]
pub struct Health {
    /// Flushes and durable writes that failed.
    failures: AtomicU32,
    /// How many of them were cleared.
    cleared: AtomicU32,
    epoch: AtomicU32,
    /// Flushes and durable writes under way, of even epochs and of odd ones.
    under_way: [AtomicU32; 2],
}

/// A flush or a durable write under way.
#[derive(Clone, Copy, Debug)]
pub struct Promise {
    /// How many had failed before it.
    failures: u32,
    is_odd: bool,
}

/// One that the device says has succeeded.
#[derive(Clone, Copy, Debug)]
pub struct Success {
    failures: u32,
    epoch: u32,
}

impl Health {
    /// A flush or a durable write is about to be submitted.
    pub fn begin(&self) -> Promise {
        let failures = self.failures.load(Ordering::SeqCst);
        loop {
            let epoch = self.epoch.load(Ordering::SeqCst);
            self.of_epoch(epoch).fetch_add(1, Ordering::SeqCst);
            if self.epoch.load(Ordering::SeqCst) == epoch {
                return Promise { failures, is_odd: epoch % 2 == 1 };
            }
            self.of_epoch(epoch).fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// It has failed, and what was acknowledged before may be lost.
    pub fn fail(&self, promise: Promise) {
        self.note_failure();
        self.end(promise);
    }

    /// It has ended, and nothing was lost by it: what the device says of it is to be judged.
    pub fn end(&self, promise: Promise) -> Success {
        let before = self.of_epoch(promise.is_odd.into()).fetch_sub(1, Ordering::SeqCst);
        assert!(before > 0, "an operation ends once");
        Success { failures: promise.failures, epoch: self.epoch.load(Ordering::SeqCst) }
    }

    /// Whether a success is to be believed; `None` while others may have failed before it.
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
            // Whoever else was faster has done the same.
            let _ = self.epoch.compare_exchange(epoch, next, Ordering::SeqCst, Ordering::SeqCst);
        }
    }

    /// Whether a success that has waited for [`DOUBT_MAX`] can be believed.
    pub fn judge_overdue(&self, success: Success) -> bool {
        self.failures.load(Ordering::SeqCst) == success.failures && !self.is_suspect()
    }

    /// What is under way of this epoch, and of none that is two or more away.
    fn of_epoch(&self, epoch: u32) -> &AtomicU32 {
        &self.under_way[usize::from(epoch % 2 == 1)]
    }

    /// A flush or a durable write has failed: what was acknowledged before may be lost.
    pub fn note_failure(&self) {
        self.failures.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether a failure was not cleared: no flush and no durable write is to succeed.
    pub fn is_suspect(&self) -> bool {
        self.cleared.load(Ordering::SeqCst) != self.failures.load(Ordering::SeqCst)
    }

    /// Clears the failures so far; one that comes meanwhile stays, and so does what was under way when
    /// one came. Returns whether there were any.
    pub fn clear(&self) -> bool {
        let failures = self.failures.load(Ordering::SeqCst);
        self.cleared.swap(failures, Ordering::SeqCst) != failures
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
            // What begins later is nothing to it.
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
