//! The content of a disk: the bytes that reads see, and those that survive a loss of power.
//!
//! The difference between the two consists of versions: a completed write is volatile unless it was
//! durable itself, until a flush completes that was submitted after the write completed. When the
//! power goes, each volatile write is kept, dropped, or torn between sectors of 512 bytes,
//! independently of the others.
//!
//! When a flush fails, any part of the volatile data is forgotten, as by Linux: reads see it as
//! long as the power is on, and no later flush saves it.
//!
//! Invariant: of two writes to a sector, the one that took effect later is never lost to the
//! earlier one.

use std::collections::{BTreeMap, VecDeque};

use crate::Dice;

/// The unit that a medium writes atomically.
pub(crate) const SECTOR_LEN: usize = 512;

type Sector = [u8; SECTOR_LEN];

/// One write's part in a sector, not known to be on stable media.
#[derive(Clone, Debug)]
struct Version {
    write: u64,
    bytes: Sector,
    /// When the write completed, on the disk's own count.
    completed_at: Option<u64>,
}

/// The fate of a volatile write when the power goes.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Kept,
    Dropped,
    Torn,
}

#[derive(Debug)]
pub(crate) struct Sectors {
    visible: Vec<u8>,
    stable: Vec<u8>,
    /// In the order in which they took effect; the last one is visible.
    versions: BTreeMap<usize, VecDeque<Version>>,
}

impl Sectors {
    pub(crate) fn new(len: usize) -> Self {
        Self { visible: vec![0; len], stable: vec![0; len], versions: BTreeMap::new() }
    }

    /// The length of the disk.
    pub(crate) fn len(&self) -> usize {
        self.visible.len()
    }

    /// The bytes that a read sees.
    pub(crate) fn visible(&self) -> &[u8] {
        &self.visible
    }

    /// The content after a loss of power now, except for sectors in doubt.
    #[cfg(test)]
    pub(crate) fn stable(&self) -> &[u8] {
        &self.stable
    }

    /// A write takes effect on a sector.
    pub(crate) fn put(&mut self, write: u64, sector: usize, bytes: &[u8]) {
        let start = sector * SECTOR_LEN;
        self.visible[start..start + SECTOR_LEN].copy_from_slice(bytes);
        let bytes = bytes.try_into().expect("a sector's bytes");
        let version = Version { write, bytes, completed_at: None };
        self.versions.entry(sector).or_default().push_back(version);
    }

    /// A write has completed at `now`; `durable` makes it stable.
    pub(crate) fn complete(
        &mut self,
        write: u64,
        sectors: std::ops::Range<usize>,
        now: u64,
        durable: bool,
    ) {
        for sector in sectors {
            let Some(versions) = self.versions.get_mut(&sector) else { continue };
            for version in versions.iter_mut().filter(|version| version.write == write) {
                version.completed_at = Some(now);
            }
            if durable {
                self.settle(sector, |version| version.write == write);
            }
        }
    }

    /// All writes completed by `until` are stable.
    pub(crate) fn flush(&mut self, until: u64) {
        let sectors: Vec<usize> = self.versions.keys().copied().collect();
        for sector in sectors {
            self.settle(sector, |version| version.completed_at.is_some_and(|at| at <= until));
        }
    }

    /// Some completed volatile writes will never be stable.
    pub(crate) fn forget_some(&mut self, dice: &mut Dice) {
        for versions in self.versions.values_mut() {
            versions.retain(|version| version.completed_at.is_none() || dice.coin());
        }
        self.versions.retain(|_, versions| !versions.is_empty());
    }

    /// The last version that meets the condition becomes stable, and all earlier ones are dropped.
    fn settle(&mut self, sector: usize, is_meant: impl Fn(&Version) -> bool) {
        let Some(versions) = self.versions.get_mut(&sector) else { return };
        let Some(last) = versions.iter().rposition(is_meant) else { return };
        let start = sector * SECTOR_LEN;
        self.stable[start..start + SECTOR_LEN].copy_from_slice(&versions[last].bytes);
        versions.drain(..=last);
        if versions.is_empty() {
            self.versions.remove(&sector);
        }
    }

    /// The power goes, and comes back.
    pub(crate) fn lose_power(&mut self, dice: &mut Dice) {
        let mut fates = BTreeMap::new();
        for (sector, versions) in std::mem::take(&mut self.versions) {
            let start = sector * SECTOR_LEN;
            for version in versions {
                let draw = || dice.pick(&[Fate::Kept, Fate::Dropped, Fate::Torn]);
                let fate = *fates.entry(version.write).or_insert_with(draw);
                let is_kept = match fate {
                    Fate::Kept => true,
                    Fate::Dropped => false,
                    Fate::Torn => dice.coin(),
                };
                if is_kept {
                    self.stable[start..start + SECTOR_LEN].copy_from_slice(&version.bytes);
                }
            }
        }
        self.visible.copy_from_slice(&self.stable);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: [u8; SECTOR_LEN] = [1; SECTOR_LEN];
    const TWO: [u8; SECTOR_LEN] = [2; SECTOR_LEN];

    #[test]
    fn a_flush_saves_what_had_completed_when_it_was_submitted_and_nothing_else() {
        for seed in 0..50 {
            let mut disk = Sectors::new(4 * SECTOR_LEN);
            disk.put(1, 0, &ONE);
            disk.complete(1, 0..1, 10, false);
            disk.put(2, 1, &ONE);
            disk.complete(2, 1..2, 12, false);
            disk.flush(11);
            assert_eq!(disk.stable()[0], 1);
            assert_eq!(disk.stable()[SECTOR_LEN], 0);
            disk.lose_power(&mut Dice::new(seed));
            assert_eq!(disk.visible()[0], 1);
        }
    }

    #[test]
    fn no_flush_saves_what_an_earlier_one_forgot() {
        let mut lost = 0;
        for seed in 0..50 {
            let mut disk = Sectors::new(SECTOR_LEN);
            disk.put(1, 0, &ONE);
            disk.complete(1, 0..1, 1, false);
            disk.forget_some(&mut Dice::new(seed));
            assert_eq!(disk.visible()[0], 1, "reads see it as long as the power is on");
            disk.flush(2);
            disk.lose_power(&mut Dice::new(seed));
            lost += usize::from(disk.visible()[0] == 0);
        }
        assert!((10..40).contains(&lost), "{lost}");
    }

    #[test]
    fn a_durable_write_is_not_lost_to_an_older_one_in_the_cache() {
        for seed in 0..50 {
            let mut disk = Sectors::new(SECTOR_LEN);
            disk.put(1, 0, &ONE);
            disk.complete(1, 0..1, 1, false);
            disk.put(2, 0, &TWO);
            disk.complete(2, 0..1, 2, true);
            disk.lose_power(&mut Dice::new(seed));
            assert_eq!(disk.visible()[0], 2);
        }
    }

    #[test]
    fn a_volatile_write_may_be_kept_dropped_or_torn() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let mut disk = Sectors::new(2 * SECTOR_LEN);
            disk.put(1, 0, &ONE);
            disk.put(1, 1, &ONE);
            disk.complete(1, 0..2, 1, false);
            disk.lose_power(&mut Dice::new(seed));
            seen.insert((disk.visible()[0], disk.visible()[SECTOR_LEN]));
        }
        assert_eq!(seen.len(), 4, "{seen:?}");
    }
}
