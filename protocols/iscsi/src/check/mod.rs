//! Properties of both ends as functions, which the property tests and the fuzzers call.
//!
//! Each panics when its property does not hold. Knows what a driver knows of a session, and no
//! more: these are also the shortest examples of one.

pub(crate) mod initiator;
pub(crate) mod login;
pub(crate) mod memory;
#[cfg(test)]
mod tests;

pub use initiator::check_initiator_never_panics;
pub use login::{check_initiator_login_never_panics, check_login_never_panics};

pub use crate::text::check_pairs;
