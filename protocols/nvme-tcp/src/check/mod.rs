//! Properties of both ends as functions, which the property tests and the fuzzers call.
//!
//! Each function panics if its property does not hold. The functions use a session in the same way
//! as a driver, so they are also the shortest examples of one.

#[cfg(test)]
pub(crate) mod describe;
mod host;
mod pair;
pub(crate) mod target;
#[cfg(test)]
mod tests;

pub use host::check_host_never_panics;
pub use pair::{PairScenario, check_pair};
pub use target::{Stage, check_segmentation_does_not_matter, check_target_never_panics, stream_of};
