//! Traffic counters of each volume: every core has its own, and any thread can read them at any
//! time.
//!
//! Invariant: each row has one writer, a core, and no reader waits for it. So a sum may lack
//! requests that are being counted at that moment.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::VolumeId;

/// The traffic counters of a volume.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Traffic {
    /// Reads and comparisons that succeeded.
    pub reads: u64,
    /// Writes of payload that succeeded.
    pub writes: u64,
    /// Bytes of those reads and comparisons.
    pub read_bytes: u64,
    /// Bytes of those writes.
    pub written_bytes: u64,
    /// Requests that the medium failed.
    pub media_errors: u64,
}

impl Traffic {
    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            reads: self.reads.saturating_add(other.reads),
            writes: self.writes.saturating_add(other.writes),
            read_bytes: self.read_bytes.saturating_add(other.read_bytes),
            written_bytes: self.written_bytes.saturating_add(other.written_bytes),
            media_errors: self.media_errors.saturating_add(other.media_errors),
        }
    }
}

/// Counters of one volume, by one core.
#[derive(Debug, Default)]
struct Cells {
    reads: AtomicU64,
    writes: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    media_errors: AtomicU64,
}

/// Volumes whose counters are taken from memory together, when the first of them is used.
const PAGE: u32 = 256;
/// As many as number all volumes of a run.
const PAGES: u32 = 256;

/// Pages of volumes, by number.
type Row = Box<[OnceLock<Box<[Cells]>>]>;

/// Counters of all volumes, by all cores of a node.
#[derive(Debug)]
pub struct Usage {
    /// By core, and one that holds what was done in earlier runs.
    rows: Box<[Row]>,
}

impl Usage {
    /// Of a node with so many cores, with nothing done yet.
    pub fn new(cores: u16) -> Self {
        let row = |_| (0..PAGES).map(|_| OnceLock::new()).collect();
        Self { rows: (0..=cores).map(row).collect() }
    }

    /// A core did this. Only that core counts so.
    #[inline]
    pub fn count(&self, core: u16, volume: VolumeId, done: Traffic) {
        self.add(usize::from(core), volume, done);
    }

    /// This was done in earlier runs. Called before anything is counted.
    pub fn restore(&self, volume: VolumeId, done: Traffic) {
        self.add(self.rows.len() - 1, volume, done);
    }

    /// All that was done with a volume.
    pub fn of(&self, volume: VolumeId) -> Traffic {
        let rows = self.rows.iter().filter_map(|row| cells_of(row, volume, OnceLock::get));
        rows.map(Cells::load).fold(Traffic::default(), Traffic::plus)
    }

    #[inline]
    fn add(&self, row: usize, volume: VolumeId, done: Traffic) {
        // A page is made once; from then on nothing allocates.
        let make = || (0..PAGE).map(|_| Cells::default()).collect();
        let cells = cells_of(&self.rows[row], volume, |page| Some(page.get_or_init(make)));
        cells.expect("a volume's number is below those of all pages").add(done);
    }
}

impl Default for Usage {
    fn default() -> Self {
        Self::new(1)
    }
}

#[inline]
fn cells_of<'a>(
    row: &'a Row,
    VolumeId(id): VolumeId,
    page: impl FnOnce(&'a OnceLock<Box<[Cells]>>) -> Option<&'a Box<[Cells]>>,
) -> Option<&'a Cells> {
    let index = |number: u32| usize::try_from(number).expect("usize is at least 32 bits wide");
    page(row.get(index(id / PAGE))?)?.get(index(id % PAGE))
}

impl Cells {
    #[inline]
    fn add(&self, done: Traffic) {
        let pairs = [
            (&self.reads, done.reads),
            (&self.writes, done.writes),
            (&self.read_bytes, done.read_bytes),
            (&self.written_bytes, done.written_bytes),
            (&self.media_errors, done.media_errors),
        ];
        for (cell, more) in pairs.into_iter().filter(|(_, more)| *more > 0) {
            // With one writer, no addition is lost between the two.
            cell.store(cell.load(Ordering::Relaxed).saturating_add(more), Ordering::Relaxed);
        }
    }

    fn load(&self) -> Traffic {
        let load = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        Traffic {
            reads: load(&self.reads),
            writes: load(&self.writes),
            read_bytes: load(&self.read_bytes),
            written_bytes: load(&self.written_bytes),
            media_errors: load(&self.media_errors),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cores_and_earlier_runs_count_and_each_volume_for_itself() {
        let usage = Usage::new(2);
        let (first, last) = (VolumeId(0), VolumeId(PAGE * PAGES - 1));
        let read = Traffic { reads: 1, read_bytes: 512, ..Traffic::default() };
        let write = Traffic { writes: 1, written_bytes: 4096, ..Traffic::default() };
        usage.restore(first, Traffic { media_errors: 3, ..read });
        usage.count(0, first, read);
        usage.count(1, first, write);
        usage.count(1, last, write);
        let expected =
            Traffic { reads: 2, writes: 1, read_bytes: 1024, written_bytes: 4096, media_errors: 3 };
        assert_eq!(usage.of(first), expected);
        assert_eq!(usage.of(last), write);
        assert_eq!(usage.of(VolumeId(PAGE)), Traffic::default());
    }
}
