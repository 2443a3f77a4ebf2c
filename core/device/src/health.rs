//! Whether a device can still be believed when it says that all is on stable media.
//!
//! Linux reports that it could not write something back once for each open file, and all cores
//! share one: the flush of one core takes an error that concerns what another core acknowledged,
//! and the next flush succeeds. So a failure is kept here, for all cores, until somebody who knows
//! what it means clears it.

use std::sync::atomic::{AtomicU64, Ordering};

/// What all cores know of one device together.
#[derive(Debug, Default)]
pub struct Health {
    /// Flushes and durable writes that failed.
    failures: AtomicU64,
    /// How many of them were cleared.
    cleared: AtomicU64,
}

impl Health {
    /// A flush or a durable write has failed: what was acknowledged before may be lost.
    pub fn note_failure(&self) {
        self.failures.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether a failure was not cleared: no flush and no durable write is to succeed.
    pub fn is_suspect(&self) -> bool {
        self.cleared.load(Ordering::SeqCst) != self.failures.load(Ordering::SeqCst)
    }

    /// Clears the failures so far; one that comes meanwhile stays. Returns whether there were any.
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
}
