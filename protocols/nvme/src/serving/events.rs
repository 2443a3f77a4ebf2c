//! The pending asynchronous events of a controller. NVMe Base 2.0, 5.2.
//!
//! A reported event is masked until the host reads the log page that clears it. That page includes
//! later changes. Invariant: at most one event of a kind is pending.

use crate::{AsyncEvent, Notices};

/// A bit that no notice uses, for an event that the configuration cannot disable.
const ALWAYS: u32 = 1;

/// The kinds of events, each with the bit that enables it.
const KINDS: [(AsyncEvent, u32); 4] = [
    (AsyncEvent::RESERVATION_CHANGED, ALWAYS),
    (AsyncEvent::NAMESPACE_CHANGED, Notices::NAMESPACE),
    (AsyncEvent::ANA_CHANGED, Notices::ANA),
    (AsyncEvent::DISCOVERY_CHANGED, Notices::DISCOVERY),
];

/// Pending and masked events, by their bits in [`Notices`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Events {
    waiting: u32,
    masked: u32,
}

impl Events {
    /// Makes the event pending, unless it is disabled or masked.
    pub(super) fn raise(&mut self, event: AsyncEvent, enabled: Notices) {
        let bit = bit(event);
        if (enabled.0 | ALWAYS) & bit != 0 && self.masked & bit == 0 {
            self.waiting |= bit;
        }
    }

    /// Takes the next pending event and masks it.
    pub(super) fn take(&mut self) -> Option<AsyncEvent> {
        let (event, bit) = KINDS.iter().find(|(_, bit)| self.waiting & bit != 0)?;
        self.waiting &= !bit;
        self.masked |= bit;
        Some(*event)
    }

    /// Clears the event: the host read its log page or disabled it.
    pub(super) fn clear(&mut self, event: AsyncEvent) {
        self.waiting &= !bit(event);
        self.masked &= !bit(event);
    }

    /// Drops the pending events that are no longer enabled.
    pub(super) fn retain(&mut self, enabled: Notices) {
        self.waiting &= enabled.0 | ALWAYS;
    }
}

fn bit(event: AsyncEvent) -> u32 {
    KINDS.iter().find(|(kind, _)| *kind == event).map_or(0, |(_, bit)| *bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGED: AsyncEvent = AsyncEvent::NAMESPACE_CHANGED;

    #[test]
    fn an_event_is_told_once_until_its_page_is_read() {
        let all = Notices(u32::MAX);
        let mut events = Events::default();
        events.raise(CHANGED, all);
        events.raise(CHANGED, all);
        assert_eq!(events.take(), Some(CHANGED));
        events.raise(CHANGED, all);
        assert_eq!(events.take(), None);
        events.clear(CHANGED);
        events.raise(CHANGED, all);
        assert_eq!(events.take(), Some(CHANGED));
    }

    #[test]
    fn an_event_that_nobody_wants_is_not_told() {
        let mut events = Events::default();
        events.raise(CHANGED, Notices(Notices::ANA));
        assert_eq!(events.take(), None);
        events.raise(CHANGED, Notices(Notices::NAMESPACE));
        events.retain(Notices(0));
        assert_eq!(events.take(), None);
    }
}
