//! How long a node that owes an answer has said nothing.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A node is asked whether it is there after this part of the patience.
const PING_PART: u32 = 2;

/// Counts the silence of a node, by a clock that costs nothing to look at and ticks every few
/// milliseconds.
#[derive(Debug)]
pub(super) struct Silence {
    max: Duration,
    since: Option<Duration>,
    pinged: bool,
}

impl Silence {
    pub(super) fn new(max: Duration) -> Self {
        Self { max, since: None, pinged: false }
    }

    /// The node said something, or owes nothing.
    #[inline]
    pub(super) fn broken(&mut self) {
        self.since = None;
    }

    /// Whether the node is to be asked whether it is there; once in a silence.
    #[inline]
    pub(super) fn is_ping_due(&mut self) -> bool {
        let now = now();
        let Some(since) = self.since else {
            (self.since, self.pinged) = (Some(now), false);
            return false;
        };
        !self.pinged && now.saturating_sub(since) >= self.max / PING_PART && {
            self.pinged = true;
            true
        }
    }

    /// For how many seconds it has lasted, if that is too long.
    #[inline]
    pub(super) fn is_over(&self) -> Option<u64> {
        let lasted = now().saturating_sub(self.since?);
        (lasted >= self.max).then_some(self.max.as_secs())
    }

    /// How long until something is due.
    pub(super) fn left(&self) -> Duration {
        let due = if self.pinged { self.max } else { self.max / PING_PART };
        self.since.map_or(due, |since| (since + due).saturating_sub(now()))
    }
}

#[inline]
fn now() -> Duration {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_node_is_asked_once_and_then_given_up() {
        let mut silence = Silence::new(Duration::ZERO);
        assert!(!silence.is_ping_due() && silence.is_over().is_some());
        let mut silence = Silence::new(Duration::from_secs(3600));
        assert!(!silence.is_ping_due() && silence.is_over().is_none());
        silence.since = silence.since.map(|_| now().saturating_sub(Duration::from_secs(1800)));
        assert!(silence.is_ping_due() && !silence.is_ping_due());
        assert!(silence.left() <= Duration::from_secs(1800) && silence.is_over().is_none());
        silence.since = Some(Duration::ZERO);
        silence.max = now();
        assert_eq!(silence.is_over(), Some(silence.max.as_secs()));
        silence.broken();
        assert_eq!(silence.is_over(), None);
    }
}
