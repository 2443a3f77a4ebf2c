//! Workloads: operations, their order, and their intended starts. Pure, and deterministic for a
//! seed.
//!
//! Does not depend on devices, clocks or threads. [`Workload`] yields offsets, [`RateSchedule`]
//! yields times; the job combines both.

mod permutation;
mod rate;
mod sequence;

pub use permutation::Permutation;
pub use rate::{Rate, RateSchedule};
pub use sequence::{Direction, Op, Pattern, Workload, WorkloadError, WorkloadSpec};

/// The next number of a splitmix64 generator, which is fast and random enough for offsets.
pub(crate) fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mix(*state)
}

/// A bijection of 64-bit numbers that destroys patterns.
pub(crate) const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}
