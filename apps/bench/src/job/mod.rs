//! Jobs: workloads that a thread runs on engines, and their results.

mod clock;
mod drive;
mod running;
mod sides;
#[cfg(test)]
mod simulated;
mod spec;
#[cfg(test)]
mod tests;
mod written;

pub use clock::{Clock, SystemClock};
pub use drive::{Crew, Failed, Seat, run};
pub use spec::{DriveSpec, JobFailure, JobSpec, Spin};
