//! What the papers printed: facts and figures, each with its place.
//!
//! Most of the papers' pictures give no numbers; here is what their tables and their text give. Where
//! a paper contradicts itself, both numbers stand here, and the study that shows them says so.

pub mod disaggregation;
pub mod networked_flash;
pub mod nvme_of_arm;
pub mod quicksan;
pub mod solid_state;

#[cfg(test)]
mod tests;

/// A paper.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Paper {
    /// As it is called here.
    pub name: &'static str,
    /// Its authors.
    pub authors: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Where and when.
    pub published: &'static str,
    /// The machines it was measured on.
    pub hardware: &'static str,
}

/// A number that a paper states.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stated {
    /// Of what.
    pub what: &'static str,
    /// How much.
    pub value: f64,
    /// Of which unit.
    pub unit: &'static str,
    /// Where in the paper.
    pub place: &'static str,
}

impl Stated {
    const fn new(what: &'static str, value: f64, unit: &'static str, place: &'static str) -> Self {
        Self { what, value, unit, place }
    }
}

/// A pair of numbers, for reads and for writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadWrite {
    /// Of reads.
    pub read: f64,
    /// Of writes.
    pub write: f64,
}
