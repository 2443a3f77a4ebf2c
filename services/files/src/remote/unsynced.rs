//! The inodes with changes that nobody has synchronised.

use std::collections::HashMap;

use nearflash_files::InodeNumber;

/// A change of an inode.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// The life of the owner that has made the first of its changes that are not synchronised.
    life: u64,
    /// The number of the last change.
    last: u64,
}

/// The inodes with changes that nobody has synchronised.
#[derive(Debug, Default)]
pub(super) struct Unsynced {
    marks: HashMap<InodeNumber, Mark>,
    count: u64,
}

impl Unsynced {
    pub(super) fn changed(&mut self, number: InodeNumber, life: u64) {
        self.count += 1;
        let last = self.count;
        self.marks.entry(number).or_insert(Mark { life, last }).last = last;
    }

    /// Whether an inode has changes that are not durable.
    pub(super) fn has(&self, number: InodeNumber) -> bool {
        self.marks.contains_key(&number)
    }

    /// The number of the last change so far: a sync covers it.
    pub(super) fn now(&self) -> u64 {
        self.count
    }

    /// The changes of an inode up to `covered` are durable, in this life of the owner. Returns whether that
    /// is so: it is not if some were made in another life.
    pub(super) fn synced(&mut self, number: InodeNumber, covered: u64, life: u64) -> bool {
        let Some(mark) = self.marks.get_mut(&number) else { return true };
        let is_whole = mark.life == life;
        if mark.last <= covered {
            self.marks.remove(&number);
        } else {
            mark.life = life;
        }
        is_whole
    }

    /// Removes the marks of all inodes up to here. Those with changes of other lives stay, for the next sync of each.
    pub(super) fn synced_all(&mut self, covered: u64, life: u64) -> bool {
        self.marks.retain(|_, mark| mark.life != life || mark.last > covered);
        self.marks.values().all(|mark| mark.life == life)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: InodeNumber = InodeNumber(1);
    const TWO: InodeNumber = InodeNumber(2);

    #[test]
    fn changes_of_another_life_are_reported_by_the_next_sync_of_their_inode_once() {
        let mut unsynced = Unsynced::default();
        unsynced.changed(ONE, 1);
        unsynced.changed(ONE, 2);
        unsynced.changed(TWO, 2);
        let now = unsynced.now();
        assert!(!unsynced.synced_all(now, 2));
        assert!(unsynced.synced(TWO, now, 2));
        assert!(!unsynced.synced(ONE, now, 2));
        assert!(unsynced.synced(ONE, now, 2) && unsynced.synced_all(now, 2));
    }

    #[test]
    fn a_change_during_a_sync_is_not_covered_by_it() {
        let mut unsynced = Unsynced::default();
        unsynced.changed(ONE, 1);
        let now = unsynced.now();
        unsynced.changed(ONE, 1);
        unsynced.changed(TWO, 1);
        assert!(unsynced.synced(ONE, now, 1) && unsynced.synced_all(now, 1));
        assert!(!unsynced.synced(ONE, unsynced.now(), 2) && !unsynced.synced(TWO, now + 9, 2));
    }
}
