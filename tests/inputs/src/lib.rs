//! The properties of all outside input, as [`TARGETS`]: each takes any bytes and panics when a
//! property does not hold. `fuzz` generates the bytes; the test `corpus` replays those in
//! `fuzz/corpus`.
//!
//! The properties of a single crate are in its `check` module. The modules here hold the properties
//! that need several crates.

pub mod cluster;
mod control;
pub mod files;
pub mod on_disk;
pub mod shard;
pub mod structures;
mod targets;
pub mod texts;
mod world;

pub use targets::{TARGETS, Target};
