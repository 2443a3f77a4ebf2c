//! How far this node has zeroed the new rows of volumes of the cluster.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nearflash::Volume;
use nearflash_units::{ByteLen, MIB, OneLine};
use uuid::Uuid;

/// The length that one request zeroes. A node must answer it before it counts as silent.
const STEP: u64 = 256 * MIB;

/// A part of a volume on another node, or on this one.
pub(super) trait Part {
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), String>;
    fn flush(&self) -> Result<(), String>;
    /// The connections that were lost and replaced.
    fn replaced_connections(&self) -> u64;
}

impl Part for Volume {
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), String> {
        Self::write_zeroes(self, offset, len).map_err(|error| OneLine(error).to_string())
    }

    fn flush(&self) -> Result<(), String> {
        Self::flush(self).map_err(|error| OneLine(error).to_string())
    }

    fn replaced_connections(&self) -> u64 {
        Self::replaced_connections(self)
    }
}

/// Zeroes a part, durably. The flush says nothing about what was zeroed over a connection that was lost: the
/// machine of the node may have lost it with its power.
pub(super) fn zero(part: &impl Part, len: ByteLen, zeroed: &Zeroed<'_>) -> Result<(), String> {
    let replaced = part.replaced_connections();
    let mut offset = 0;
    while offset < len.0 {
        let step = STEP.min(len.0 - offset);
        part.write_zeroes(offset, step)?;
        offset += step;
        zeroed.add(step);
    }
    part.flush()?;
    if part.replaced_connections() != replaced {
        return Err("the connection was lost meanwhile, and zeroes perhaps with it".to_owned());
    }
    Ok(())
}

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
    use std::cell::Cell;

    use super::*;

    /// A part whose node loses its power after so many steps. The connection is replaced silently.
    struct Failing {
        steps: Cell<u64>,
        fails_after: u64,
        unflushed: Cell<u64>,
        zeroes: Cell<u64>,
    }

    impl Part for Failing {
        fn write_zeroes(&self, _offset: u64, len: u64) -> Result<(), String> {
            self.steps.set(self.steps.get() + 1);
            if self.steps.get() == self.fails_after {
                self.unflushed.set(0);
            }
            self.unflushed.set(self.unflushed.get() + len);
            Ok(())
        }

        fn flush(&self) -> Result<(), String> {
            self.zeroes.set(self.zeroes.get() + self.unflushed.take());
            Ok(())
        }

        fn replaced_connections(&self) -> u64 {
            u64::from(self.steps.get() >= self.fails_after)
        }
    }

    #[test]
    fn a_part_counts_as_zeroed_only_if_no_power_was_lost_between_two_steps() {
        let (zeroing, len) = (Zeroing::default(), ByteLen(4 * STEP));
        for fails_after in 1..=6 {
            let part = Failing {
                steps: Cell::new(0),
                fails_after,
                unflushed: Cell::new(0),
                zeroes: Cell::new(0),
            };
            let zeroed = zero(&part, len, &zeroing.begin(Uuid::nil()));
            assert!(zeroed.is_err() || part.zeroes.get() == len.0, "after {fails_after}");
            assert_eq!(zeroed.is_ok(), fails_after > 4);
        }
    }

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
