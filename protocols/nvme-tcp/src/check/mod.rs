//! Properties of both ends as functions, which the property tests and the fuzzers call.
//!
//! Each panics when its property does not hold. Knows what a driver knows of a session, and no
//! more: these are also the shortest examples of one.

#[cfg(test)]
pub(crate) mod describe;
mod host;
mod pair;
pub(crate) mod target;
#[cfg(test)]
mod tests;
mod volume;

pub use host::check_host_never_panics;
pub use pair::{PairScenario, check_pair};
pub use target::{Stage, check_segmentation_does_not_matter, check_target_never_panics, stream_of};
