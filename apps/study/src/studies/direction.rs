//! Reads and writes of 4 KiB, one at a time.

use nearflash_bench::workload::Pattern;

use super::sweep::{Step, load};
use crate::published::ReadWrite;

/// Reads or writes.
#[derive(Clone, Copy)]
pub(super) struct Direction {
    pub(super) name: &'static str,
    /// Random operations.
    pub(super) pattern: Pattern,
    /// Its number in a paper's table.
    pub(super) of: fn(&ReadWrite) -> f64,
}

/// Both directions.
pub(super) const DIRECTIONS: [Direction; 2] = [
    Direction { name: "read", pattern: Pattern::RandRead, of: |pair| pair.read },
    Direction { name: "write", pattern: Pattern::RandWrite, of: |pair| pair.write },
];

impl Direction {
    /// One 4 KiB operation at a time.
    pub(super) fn step(self) -> Step {
        Step::new(0.0, format!("{}/4KiB", self.pattern.name()), load(self.pattern, 4096))
    }
}
