//! All events of a run, as one number. Two runs of a seed have the same number, unless something
//! drew from outside.

use std::collections::BTreeMap;

use nearflash_units::Nanos;

/// A running hash of everything that happened: FNV-1a.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Trace {
    hash: u64,
    entries: u64,
    counts: BTreeMap<&'static str, u64>,
}

impl Default for Trace {
    fn default() -> Self {
        Self { hash: 0xCBF2_9CE4_8422_2325, entries: 0, counts: BTreeMap::new() }
    }
}

impl Trace {
    /// Adds an event.
    pub(crate) fn note(&mut self, at: Nanos, what: &'static str, details: &[u64]) {
        self.entries += 1;
        *self.counts.entry(what).or_default() += 1;
        let numbers = std::iter::once(&at.0).chain(details).flat_map(|number| number.to_le_bytes());
        for byte in what.bytes().chain(numbers) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }

    /// Adds bytes that were moved.
    pub(crate) fn note_bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.hash = (self.hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }

    /// The number.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The number of events of each name.
    pub fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }

    /// The number of events.
    pub fn entries(&self) -> u64 {
        self.entries
    }
}
