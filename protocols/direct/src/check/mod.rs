//! Properties of both ends as functions, which the property tests and the fuzzers call.
//!
//! Each function panics if its property does not hold. The functions use a session in the same way
//! as a driver, so they are also the shortest examples of one.

mod client;
mod driver;
mod pair;
mod seal;
pub(crate) mod target;
#[cfg(test)]
mod tests;

pub use client::check_client_never_panics;
pub use pair::{PairScenario, check_pair};
pub use seal::check_seal;
pub use target::{
    EPOCH, NAME, check_segmentation_does_not_matter, check_target_never_panics, greeting_of,
    stream_of,
};

/// The node's time in these checks.
pub(crate) const NOW: nearflash_units::Nanos = nearflash_units::Nanos::from_secs(100);

/// A place as one of memory.
fn range(place: crate::serving::Place) -> std::ops::Range<usize> {
    let start = usize::try_from(place.offset).expect("the area is in memory");
    start..start + crate::length(place.len)
}
