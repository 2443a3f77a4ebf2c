//! Devices and random numbers.

use std::collections::BTreeMap;

use crate::membership::Note;

/// Random numbers from a seed.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5851_F42D_4C95_7F2D)
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }

    pub(super) fn permille(&mut self, chance: u64) -> bool {
        self.below(1000) < chance
    }
}

/// The contents of a torn block.
const TORN: u64 = 1 << 41;

/// The stamps that a block of a device has held, in order, and how many of them are durable.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    pub(super) log: Vec<u64>,
    pub(super) durable: usize,
}

impl Cell {
    pub(super) fn stamp(&self) -> u64 {
        self.log.last().copied().unwrap_or(0)
    }

    /// Destroys the contents, without an error.
    pub(super) fn tear(&mut self) {
        (self.log, self.durable) = (vec![TORN], 1);
    }
}

/// A device with a volatile cache.
#[derive(Debug, Default)]
pub(super) struct Device {
    pub(super) blocks: BTreeMap<u64, Cell>,
    /// The writes that it has accepted for other nodes, applied or not.
    pub(super) accepted: std::collections::BTreeSet<(u64, u64)>,
    /// The blocks that it cannot read until they are written.
    pub(super) scratched: std::collections::BTreeSet<u64>,
    /// Those of them of which a write is under way: a loss of power tears them.
    pub(super) torn_by_power: std::collections::BTreeSet<u64>,
    /// Its notes of the mirrors, durably.
    pub(super) notes: BTreeMap<u32, Note>,
}

/// A copy of a device, made while a process used it.
#[derive(Debug)]
pub(super) struct Copy {
    /// The incarnation of that time.
    pub(super) incarnation: u64,
    stamps: BTreeMap<u64, u64>,
    notes: BTreeMap<u32, Note>,
}

impl Device {
    pub(super) fn cell(&mut self, block: u64) -> &mut Cell {
        self.blocks.entry(block).or_default()
    }

    pub(super) fn copy(&self, incarnation: u64) -> Copy {
        let stamps = self.blocks.iter().map(|(block, cell)| (*block, cell.stamp())).collect();
        Copy { incarnation, stamps, notes: self.notes.clone() }
    }

    /// Puts the bytes of a copy in the place of those that are there. Returns whether they differ.
    pub(super) fn restore(&mut self, copy: &Copy) -> bool {
        let differs = |(block, cell): (&u64, &Cell)| {
            copy.stamps.get(block).copied().unwrap_or(0) != cell.stamp()
        };
        let is_other = self.blocks.iter().any(differs);
        let cell = |stamp: &u64| Cell { log: vec![*stamp], durable: 1 };
        self.blocks = copy.stamps.iter().map(|(block, stamp)| (*block, cell(stamp))).collect();
        self.notes.clone_from(&copy.notes);
        is_other
    }

    /// How long each log is: what a flush that begins now covers.
    pub(super) fn lengths(&self) -> Vec<(u64, usize)> {
        self.blocks.iter().map(|(block, cell)| (*block, cell.log.len())).collect()
    }
}
