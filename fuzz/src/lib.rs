//! What the fuzz targets share. The properties of one crate stand in that crate, in its `check`
//! module; here are those that need several, and a bound on memory for all of them.

mod control;
mod memory;
pub mod on_disk;
pub mod shard;
pub mod structures;
pub mod texts;
mod world;

pub use libfuzzer_sys::fuzz_target;
