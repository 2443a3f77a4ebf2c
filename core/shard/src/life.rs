//! The keep-alive timer of a controller, as the cores with its I/O queues see it.
//!
//! NVMe Base 2.0, 3.9: when the timer has expired, the controller processes no further commands. The first core
//! has the timer. The queues of the controller lie on any core, and each of them looks at this copy before it
//! takes input, so that no message has to arrive first.

use std::sync::atomic::{AtomicU64, Ordering};

use nearflash_units::Nanos;

#[derive(Debug)]
pub(crate) struct Life {
    expires_at: AtomicU64,
    /// KATO.
    span: AtomicU64,
}

impl Default for Life {
    fn default() -> Self {
        Self { expires_at: AtomicU64::new(u64::MAX), span: AtomicU64::new(u64::MAX) }
    }
}

impl Life {
    /// The timer was started again, or is off. Only the first core calls this.
    pub(crate) fn set(&self, timer: Option<(Nanos, Nanos)>) {
        let (span, expires_at) = timer.unwrap_or((Nanos::NEVER, Nanos::NEVER));
        self.span.store(span.0, Ordering::Relaxed);
        self.expires_at.store(expires_at.0, Ordering::Relaxed);
    }

    /// The controller has ended.
    pub(crate) fn end(&self) {
        self.expires_at.store(0, Ordering::Relaxed);
    }

    /// Whether it has expired.
    #[inline]
    pub(crate) fn is_over(&self, now: Nanos) -> bool {
        self.expires_at.load(Ordering::Relaxed) <= now.0
    }

    /// Half of KATO: a host that hears nothing gives the controller up after that at the earliest.
    #[inline]
    pub(crate) fn half(&self) -> Nanos {
        match self.span.load(Ordering::Relaxed) {
            u64::MAX => Nanos::NEVER,
            span => Nanos(span / 2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_ends_when_its_timer_expires_and_without_a_timer_never() {
        let life = Life::default();
        assert!(!life.is_over(Nanos(u64::MAX - 1)) && life.half() == Nanos::NEVER);
        life.set(Some((Nanos(10), Nanos(100))));
        assert!(!life.is_over(Nanos(99)) && life.is_over(Nanos(100)));
        assert_eq!(life.half(), Nanos(5));
        life.set(None);
        assert!(!life.is_over(Nanos(100)));
    }
}
