//! Waits for the end of the requests that are older than a change, while other changes proceed.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nearflash_request::VolumeId;
use nearflash_space::{Extent, Space, Volume, truncate_extents};
use nearflash_units::ByteLen;

use super::Node;
use crate::Ticket;
use crate::error::NodeError;
use crate::runtime_face::Event;

/// The time for which a change of the control socket waits for older requests.
const PATIENCE: Duration = Duration::from_secs(30);

/// The maximum number of changes that wait at a time: fewer than the control socket's connections,
/// so that it answers other requests while devices hang. A further change does not wait.
const WAITS_MAX: usize = 12;

/// Blocks that a volume has lost, and that older requests may still write.
#[derive(Debug)]
pub(super) struct Shrunk {
    volume: VolumeId,
    pub(super) freed: Vec<Extent>,
}

/// The state of changes that wait for the end of older requests.
#[derive(Debug, Default)]
pub(super) struct Quiescing {
    waits: AtomicUsize,
    shrunk: Mutex<Vec<(u64, Shrunk)>>,
    next: AtomicU64,
}

impl Quiescing {
    /// Whether requests from before a volume was shrunk may still write.
    pub(super) fn is_shrinking(&self, volume: VolumeId) -> bool {
        self.shrunk().iter().any(|(_, shrunk)| shrunk.volume == volume)
    }

    fn shrunk(&self) -> MutexGuard<'_, Vec<(u64, Shrunk)>> {
        self.shrunk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The space that a change has freed, if it has shrunk or removed the volume.
pub(super) fn shrunk(before: &Space, after: &Space, volume: &Volume) -> Option<Shrunk> {
    let before = before.volumes().find(|old| old.id == volume.id)?;
    let after = after.volumes().find(|new| new.id == volume.id);
    let len = after.map_or(0, |after| after.extents.iter().map(|extent| extent.len.0).sum());
    let is_shorter = after.is_none_or(|after| after.blocks < before.blocks);
    let freed = truncate_extents(&mut before.extents.clone(), ByteLen(len));
    is_shorter.then_some(Shrunk { volume: volume.id, freed })
}

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
