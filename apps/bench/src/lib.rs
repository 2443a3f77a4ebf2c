//! Measures flash, in fio's terms: locally, over the network, and the wire itself.
//!
//! An [`engine`] carries out operations on a target, a [`workload`] determines the operations and
//! their times, a [`job`] runs a workload on an engine, a [`recorder`] counts, and a [`report`]
//! shows the results. The [`floor`] is the bare exchange over TCP that remote figures are compared
//! with.
//!
//! This crate does not depend on the node: it sees only what any host sees.

pub mod args;
mod command;
pub mod compare;
pub mod consistency;
mod contents;
pub mod cpu;
pub mod engine;
mod error;
pub mod floor;
pub mod job;
mod options_error;
pub mod placement;
mod progress;
pub mod recorder;
pub mod report;
pub mod run;
pub mod stats;
pub mod subject;
mod trace;
pub mod verify;
pub mod workload;

pub use args::BenchArgs;
pub use command::{measure, run};
pub use error::BenchError;
pub use options_error::OptionsError;
