//! The path of a request: volume, range, layout, devices, answer. Performs no I/O: emits device
//! operations and takes their completions.
//!
//! Knows nothing of protocols (it takes [`nearflash_request::Request`]), of sockets, of files, or
//! of time.

mod accounts;
mod admission;
mod arena;
mod change;
mod copy;
mod edges;
mod engine;
mod fence;
mod job;
mod need;
mod pool;
mod stages;
mod steps;
#[cfg(test)]
mod tests;
mod traffic;
mod turns;
mod waits;

pub use accounts::{AccountId, Accounts};
pub use admission::{Asker, DEVICE_DEPTH};
pub use arena::Arena;
pub use engine::{Answer, Counters, Engine, EngineConfig, Owner};
pub use fence::{CoreId, FenceId, FenceMessage, Fenced};
pub use pool::{Foreign, PAGE_LEN, Pool};
pub use waits::Older;
