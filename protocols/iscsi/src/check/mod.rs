//! Properties of both ends as functions, which the property tests and the fuzzers call.
//!
//! Each panics when its property does not hold. They use only the interface that a session has for
//! its driver, so they are also the shortest examples of a driver.

mod asking;
pub(crate) mod initiator;
pub(crate) mod login;
mod pair;
mod pdus;
mod streams;
pub(crate) mod target;
#[cfg(test)]
mod tests;

pub use initiator::check_initiator_never_panics;
pub use login::{check_initiator_login_never_panics, check_login_never_panics};
pub use pair::{PairScenario, check_pair};
pub use streams::{commands_in, stream_after, stream_of};
pub use target::{
    Setup, Stage, TARGET, check_segmentation_does_not_matter, check_target_never_panics, login_of,
};

pub use crate::text::check_pairs;
