//! The failures of a device to make data durable, until an operator clears them. All cores share the count.

use std::sync::atomic::{AtomicU32, Ordering};

/// Flushes and durable writes that failed.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    count: AtomicU32,
    /// The value of `count` when they were last cleared.
    cleared: AtomicU32,
}

impl Failures {
    /// Their number so far.
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::SeqCst)
    }

    /// One more.
    pub(crate) fn note(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether one is not cleared.
    pub(crate) fn has_any(&self) -> bool {
        self.cleared.load(Ordering::SeqCst) != self.count()
    }

    /// Clears the failures so far; a concurrent later failure stays. Returns whether there were any.
    pub(crate) fn clear(&self) -> bool {
        let count = self.count();
        self.cleared.swap(count, Ordering::SeqCst) != count
    }
}
