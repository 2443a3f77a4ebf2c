//! The decisions of a node's control side, without the threads that carry them out.
//!
//! Each part is a pure machine: inputs arrive through `handle_*`, and the driver takes what follows
//! from `poll_*`. `apps/node` is the driver in production, `world/sim` in the simulator.
//!
//! This crate knows no clock, socket, thread, file or log.

mod jobs;
mod places;
mod requests;

pub use jobs::{CancelError, JOBS_MAX, Job, JobKind, JobState, Jobs, Next, Zeroed, Zeroing};
pub use places::Places;
pub use requests::{Requests, Steps, Volumes, clear_reservations};
