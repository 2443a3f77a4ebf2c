//! Models of non-volatile memory: a flash translation layer, the time that flash takes, and wear
//! levelling by start-gap. Pure.
//!
//! - [`ftl`] maps logical pages to physical ones, collects garbage and counts erases. It does not
//!   depend on time.
//! - [`steady_state`] has its write amplification, simulated and in closed form.
//! - [`timing`] adds dies to it, each with a queue. Answers are moments.
//! - [`model`] has flash and phase-change memory as devices see them: ranges of bytes.
//! - [`start_gap`] maps the lines of a memory that is written in place, such as phase-change
//!   memory.
//! - [`endurance`] wears such a memory out, and [`workload`] has skewed writes for both.
//!
//! The models hold no contents. This crate has no notion of volumes or protocols. Its
//! random numbers come from seeds, so that a run can be repeated.

pub mod endurance;
mod feistel;
pub mod ftl;
pub mod model;
mod number;
mod random;
pub mod start_gap;
pub mod steady_state;
pub mod timing;
pub mod workload;

pub use random::Random;
