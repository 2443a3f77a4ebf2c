//! How far this node has zeroed the new rows of volumes of the cluster.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

/// The bytes of each volume that have been zeroed beyond its complete rows.
#[derive(Debug, Default)]
pub(super) struct Zeroing(Mutex<BTreeMap<Uuid, u64>>);

/// A volume that is being zeroed. It is forgotten when this is dropped.
#[derive(Debug)]
pub(super) struct Zeroed<'a> {
    all: &'a Zeroing,
    volume: Uuid,
}

impl Zeroing {
    pub(super) fn begin(&self, volume: Uuid) -> Zeroed<'_> {
        self.lock().insert(volume, 0);
        Zeroed { all: self, volume }
    }

    /// The bytes that have been zeroed; 0 if this node does not zero the volume.
    pub(super) fn of(&self, volume: Uuid) -> u64 {
        self.lock().get(&volume).copied().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Uuid, u64>> {
        // No code panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Zeroed<'_> {
    pub(super) fn add(&self, bytes: u64) {
        if let Some(zeroed) = self.all.lock().get_mut(&self.volume) {
            *zeroed = zeroed.saturating_add(bytes);
        }
    }
}

impl Drop for Zeroed<'_> {
    fn drop(&mut self) {
        self.all.lock().remove(&self.volume);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_volume_add_up_until_its_zeroing_ends() {
        let (zeroing, volume) = (Zeroing::default(), Uuid::from_u128(7));
        let zeroed = zeroing.begin(volume);
        std::thread::scope(|scope| {
            for part in 1..=3 {
                let zeroed = &zeroed;
                scope.spawn(move || zeroed.add(part));
            }
        });
        assert_eq!((zeroing.of(volume), zeroing.of(Uuid::nil())), (6, 0));
        drop(zeroed);
        assert_eq!(zeroing.of(volume), 0);
    }
}
