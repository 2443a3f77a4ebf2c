//! Waits for the end of the requests that are older than a change, while other changes proceed.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Node;
use super::quiescing::Shrunk;
use crate::Ticket;
use crate::asker::Event;
use crate::error::NodeError;

/// The time for which a change of the control socket waits for older requests.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// The maximum number of changes that wait at a time: fewer than the control socket's connections,
/// so that it answers other requests while devices hang. A further change does not wait.
const WAITS_MAX: usize = 12;

impl Node {
    /// Frees the space that a volume has lost, once the ticket is over. Returns the number of this
    /// release.
    pub(super) fn give_back_after(&self, shrunk: Shrunk, ticket: &Ticket) -> u64 {
        let number = self.quiescing.next.fetch_add(1, Ordering::Relaxed);
        self.quiescing.shrunk().push((number, shrunk));
        let asker = self.asker.clone();
        ticket.when_over(move || asker.tell(Event::Freed(number)));
        number
    }

    /// Frees the space that a volume has lost: no request writes to it any more. A second call does
    /// nothing.
    pub(super) fn give_back(&self, number: u64) {
        let _one = self.one_change();
        let mut shrunk = self.quiescing.shrunk();
        let Some(place) = shrunk.iter().position(|(of, _)| *of == number) else { return };
        let (_, Shrunk { freed, .. }) = shrunk.swap_remove(place);
        self.served().recorded.space.give_back(&freed);
    }

    /// Waits until the requests that are older than a change have ended, for at most [`PATIENCE`].
    pub(super) fn wait_for(&self, ticket: &Ticket) -> Result<(), NodeError> {
        if ticket.is_over() {
            return Ok(());
        }
        let waits = self.quiescing.waits.fetch_add(1, Ordering::AcqRel);
        let is_over = waits < WAITS_MAX && ticket.wait(PATIENCE);
        self.quiescing.waits.fetch_sub(1, Ordering::AcqRel);
        if is_over { Ok(()) } else { Err(NodeError::NotQuiesced) }
    }
}
