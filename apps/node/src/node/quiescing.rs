//! The state of changes that wait for the end of older requests.

use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nearflash_request::VolumeId;
use nearflash_space::{Extent, Space, Volume, truncate_extents};
use nearflash_units::ByteLen;

/// Blocks that a volume has lost, and that older requests may still write.
#[derive(Debug)]
pub(super) struct Shrunk {
    volume: VolumeId,
    pub(super) freed: Vec<Extent>,
}

/// The state of changes that wait for the end of older requests.
#[derive(Debug, Default)]
pub(super) struct Quiescing {
    pub(super) waits: AtomicUsize,
    pub(super) shrunk: Mutex<Vec<(u64, Shrunk)>>,
    pub(super) next: AtomicU64,
}

impl Quiescing {
    /// Whether requests from before a volume was shrunk may still write.
    pub(super) fn is_shrinking(&self, volume: VolumeId) -> bool {
        self.shrunk().iter().any(|(_, shrunk)| shrunk.volume == volume)
    }

    pub(super) fn shrunk(&self) -> MutexGuard<'_, Vec<(u64, Shrunk)>> {
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
