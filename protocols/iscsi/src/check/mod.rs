//! Properties of both ends as functions, which the property tests and the fuzzers call.
//!
//! Each panics when its property does not hold. Knows what a driver knows of a session, and no
//! more: these are also the shortest examples of one.

pub(crate) mod initiator;
pub(crate) mod login;
pub(crate) mod memory;
mod pair;
mod streams;
pub(crate) mod target;
#[cfg(test)]
mod tests;
pub(crate) mod volume;

pub use initiator::check_initiator_never_panics;
pub use login::{check_initiator_login_never_panics, check_login_never_panics};
pub use pair::{PairScenario, check_pair};
pub use streams::{commands_in, stream_after, stream_of};
pub use target::{
    Setup, Stage, TARGET, check_segmentation_does_not_matter, check_target_never_panics, login_of,
};

pub use crate::text::check_pairs;

/// Numbers from a seed, for choices that only need to differ: splitmix64.
#[derive(Clone, Debug)]
pub(crate) struct Choices(u64);

impl Choices {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("usize is at most 64 bits wide");
        usize::try_from(self.next() % end).expect("below a usize")
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}
