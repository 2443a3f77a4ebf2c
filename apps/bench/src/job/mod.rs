//! One job: a workload driven through an engine by one thread, and what came of it.

mod drive;
#[cfg(test)]
mod tests;
mod written;

pub use drive::{JobFailure, JobSpec, Spin, run};
