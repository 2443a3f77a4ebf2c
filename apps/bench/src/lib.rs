//! Measures flash: here, behind the network, and the wire between. In fio's words.
//!
//! An [`engine`] brings operations to a target, a [`workload`] says which ones and when, a [`job`]
//! drives one through the other, a [`recorder`] counts, a [`report`] tells. The [`floor`] is the
//! bare exchange over TCP that every remote figure stands beside.
//!
//! Knows nothing of the node: it sees what any host sees.

pub mod args;
mod command;
pub mod compare;
pub mod cpu;
pub mod engine;
mod error;
pub mod floor;
pub mod job;
pub mod placement;
mod progress;
pub mod recorder;
pub mod report;
pub mod run;
pub mod stats;
pub mod subject;
pub mod verify;
pub mod workload;

pub use args::BenchArgs;
pub use command::{measure, run};
pub use error::{BenchError, OptionsError};
