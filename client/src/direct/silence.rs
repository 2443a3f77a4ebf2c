//! The silence of a node that owes an answer.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The PING is due after this fraction of the time-out.
const PING_PART: u32 = 2;

/// Measures the silence of a node with a coarse clock, which is cheap to read and ticks every few
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

    /// Ends the silence: the node has sent data, or owes no answer.
    #[inline]
    pub(super) fn broken(&mut self) {
        self.since = None;
    }

    /// Whether a PING is due; once in a silence.
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

    /// The time-out, if the silence has lasted that long.
    #[inline]
    pub(super) fn is_over(&self) -> Option<Duration> {
        let lasted = now().saturating_sub(self.since?);
        (lasted >= self.max).then_some(self.max)
    }

    /// The time until the PING or the time-out is due.
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
        // The clock counts from the boot of the machine, which may have been a minute ago.
        let max = now() / PING_PART * PING_PART;
        let mut silence = Silence::new(max);
        assert!(!silence.is_ping_due() && silence.is_over().is_none());
        silence.since = silence.since.map(|_| now().saturating_sub(max / PING_PART));
        assert!(silence.is_ping_due() && !silence.is_ping_due());
        assert!(silence.left() <= max / PING_PART && silence.is_over().is_none());
        silence.since = Some(Duration::ZERO);
        silence.max = now();
        assert_eq!(silence.is_over(), Some(silence.max));
        silence.broken();
        assert_eq!(silence.is_over(), None);
    }
}
