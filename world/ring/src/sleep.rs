//! The sleep of one end and its wake-up by the other, without a lost wake-up.
//!
//! An end that is about to sleep announces that, and then checks the ring once more; an end that
//! has published checks whether the other sleeps. Both put a full fence between their two steps, so
//! that one of them sees the other's first step.

use crate::memory::Memory;
use crate::sync::{Ordering, fence};

/// Wakes the other side.
pub(crate) trait Ring {
    /// Wakes the other side, or shortens its next sleep.
    fn ring(&self);
}

/// Rings the bell if the other side has announced its sleep. The other side sees the entries
/// published before: either in its last check, or because this call finds its announcement.
#[inline]
pub(crate) fn wake(memory: &Memory, sleeps_at: usize, bell: &impl Ring) {
    fence(Ordering::SeqCst);
    let sleeps = memory.word(sleeps_at);
    if sleeps.load(Ordering::Relaxed) != 0 && sleeps.swap(0, Ordering::Relaxed) != 0 {
        bell.ring();
    }
}

/// Announces that this side sleeps, before its last check.
pub(crate) fn say_sleeping(memory: &Memory, sleeps_at: usize) {
    memory.word(sleeps_at).store(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}
