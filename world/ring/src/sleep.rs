//! How one end sleeps and the other wakes it, without a lost wake-up.
//!
//! Who is about to sleep says so and looks at the ring once more; who has shown something looks whether
//! the other sleeps. A full fence stands between the two steps of each, so that one of them sees the other's
//! first step.

use crate::memory::Memory;
use crate::sync::{Ordering, fence};

/// What wakes the other side.
pub(crate) trait Ring {
    /// Wakes it, or makes its next sleep a short one.
    fn ring(&self);
}

/// Rings the bell if the other side said that it sleeps. It sees what was published before: either when
/// it looks once more, or because its word is found here.
#[inline]
pub(crate) fn wake(memory: &Memory, sleeps_at: usize, bell: &impl Ring) {
    fence(Ordering::SeqCst);
    let sleeps = memory.word(sleeps_at);
    if sleeps.load(Ordering::Relaxed) != 0 && sleeps.swap(0, Ordering::Relaxed) != 0 {
        bell.ring();
    }
}

/// Says that this side sleeps, before it looks for the last time.
pub(crate) fn say_sleeping(memory: &Memory, sleeps_at: usize) {
    memory.word(sleeps_at).store(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}
