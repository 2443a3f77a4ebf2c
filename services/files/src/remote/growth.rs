//! The bytes that open files lose with their owner.
//!
//! An owner that starts again has the files as of its last commit. A file that had grown is then shorter, and
//! one that was cut has its former bytes. A program that has it open may go on after its fsync(2) has failed,
//! and must not take lost bytes for absent ones: see [`crate::lost_range`]. The client therefore remembers how
//! far it has extended and cut each open file since its last sync.

use std::collections::HashMap;
use std::ops::Range;

use nearflash_files::InodeNumber;

use crate::lost_range::LostRange;

/// The sizes that a file has had since its last sync.
#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    /// The end of the last byte.
    end: u64,
    /// The smallest size that the file was cut to.
    smallest: Option<u64>,
}

/// The changes of sizes that nobody has synchronised, and the lost bytes of files that are open.
#[derive(Debug, Default)]
pub(super) struct Growth {
    sizes: HashMap<InodeNumber, Sizes>,
    lost: HashMap<InodeNumber, LostRange>,
}

impl Growth {
    /// Bytes up to `end` were given to a file, and those of `written` with contents.
    pub(super) fn wrote(&mut self, number: InodeNumber, written: &Range<u64>) {
        let sizes = self.sizes.entry(number).or_default();
        sizes.end = sizes.end.max(written.end);
        if let Some(lost) = self.lost.get(&number) {
            lost.fill(written);
        }
    }

    /// A file was cut or extended to this size, and had another one.
    pub(super) fn resized(&mut self, number: InodeNumber, size: u64) {
        let sizes = self.sizes.entry(number).or_default();
        sizes.end = size;
        sizes.smallest = Some(sizes.smallest.map_or(size, |smallest| smallest.min(size)));
        if let Some(lost) = self.lost.get(&number) {
            lost.cut(size);
        }
    }

    /// Everything up to now is durable.
    pub(super) fn synced(&mut self, number: InodeNumber) {
        self.sizes.remove(&number);
    }

    /// As [`Self::synced`], of the files for which `is_synced` holds.
    pub(super) fn synced_all(&mut self, is_synced: impl Fn(InodeNumber) -> bool) {
        self.sizes.retain(|number, _| !is_synced(*number));
    }

    /// The open files whose sizes nobody has synchronised.
    pub(super) fn unsynced(&self) -> Vec<InodeNumber> {
        self.sizes.keys().copied().collect()
    }

    /// Another owner has the file with this size.
    pub(super) fn went_back(&mut self, number: InodeNumber, size: u64) {
        let Some(sizes) = self.sizes.remove(&number) else { return };
        let was_cut = sizes.smallest.is_some_and(|smallest| smallest < size);
        let start = sizes.smallest.map_or(size, |smallest| smallest.min(size));
        let end = if was_cut { sizes.end.max(size) } else { sizes.end };
        self.lost.entry(number).or_default().add(start..end);
    }

    /// These bytes were given to an owner that has ended.
    pub(super) fn lose(&mut self, number: InodeNumber, written: &Range<u64>) {
        self.lost.entry(number).or_default().add(written.clone());
    }

    /// The file is closed.
    pub(super) fn forget(&mut self, number: InodeNumber) {
        self.sizes.remove(&number);
        self.lost.remove(&number);
    }

    /// Whether an open file has lost bytes.
    pub(super) fn has_any_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Whether some bytes of a file are lost.
    pub(super) fn has_lost(&self, number: InodeNumber) -> bool {
        self.lost.get(&number).is_some_and(|lost| !lost.is_empty())
    }

    /// The end of the lost bytes, or 0.
    pub(super) fn end(&self, number: InodeNumber) -> u64 {
        self.lost.get(&number).map_or(0, LostRange::end)
    }

    /// The length of the part of `asked` that can be read at once; `None` if its first byte is lost.
    pub(super) fn readable(&self, number: InodeNumber, asked: &Range<u64>) -> Option<u64> {
        match self.lost.get(&number) {
            Some(lost) => lost.readable(asked),
            None => Some(asked.end - asked.start),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: InodeNumber = InodeNumber(7);

    #[test]
    fn a_file_that_has_grown_loses_what_is_behind_its_former_size() {
        let mut growth = Growth::default();
        growth.wrote(FILE, &(100..200));
        growth.went_back(FILE, 150);
        assert_eq!(growth.readable(FILE, &(0..200)), Some(150));
        assert_eq!((growth.readable(FILE, &(150..151)), growth.end(FILE)), (None, 200));
        growth.wrote(FILE, &(150..180));
        assert_eq!(growth.readable(FILE, &(100..180)), Some(80));
        growth.wrote(FILE, &(180..300));
        assert!(!growth.has_lost(FILE));
    }

    #[test]
    fn a_file_that_was_cut_does_not_show_its_former_bytes() {
        let mut growth = Growth::default();
        growth.resized(FILE, 10);
        growth.wrote(FILE, &(10..20));
        growth.went_back(FILE, 500);
        assert_eq!(growth.readable(FILE, &(0..500)), Some(10));
        assert_eq!((growth.readable(FILE, &(499..500)), growth.end(FILE)), (None, 500));
        growth.resized(FILE, 0);
        assert!(!growth.has_lost(FILE));
    }

    #[test]
    fn a_file_that_was_synchronised_or_closed_loses_nothing() {
        let mut growth = Growth::default();
        growth.wrote(FILE, &(0..9));
        growth.synced(FILE);
        growth.went_back(FILE, 0);
        assert!(!growth.has_lost(FILE));
        growth.wrote(FILE, &(0..9));
        growth.went_back(FILE, 0);
        growth.forget(FILE);
        assert_eq!(growth.readable(FILE, &(3..5)), Some(2));
    }
}
