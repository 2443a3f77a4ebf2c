//! Facts and figures printed in the papers, each with its place.
//!
//! Most of the papers' figures have no numbers, so these are from their tables and text. Where a
//! paper contradicts itself, both numbers are here, and the study that uses them says so.

pub mod disaggregation;
pub mod flashnet;
pub mod networked_flash;
pub mod nvme_of_arm;
pub mod quicksan;
pub mod solid_state;
pub mod start_gap;

#[cfg(test)]
mod tests;

/// A paper.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Paper {
    /// Its short name in reports.
    pub name: &'static str,
    /// Its authors.
    pub authors: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Venue and year.
    pub published: &'static str,
    /// The machines that it measured.
    pub hardware: &'static str,
}

/// A number that a paper states.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stated {
    /// The quantity.
    pub what: &'static str,
    /// The value.
    pub value: f64,
    /// The unit.
    pub unit: &'static str,
    /// The place in the paper.
    pub place: &'static str,
}

impl Stated {
    const fn new(what: &'static str, value: f64, unit: &'static str, place: &'static str) -> Self {
        Self { what, value, unit, place }
    }
}

/// Numbers for reads and for writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadWrite {
    /// For reads.
    pub read: f64,
    /// For writes.
    pub write: f64,
}
