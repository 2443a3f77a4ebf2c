//! The serving cores: each has a pinned thread with its reactor and its shard, and a mailbox for
//! messages of the control side.

mod common;
mod cores;
mod devices;
mod doors;
mod exports;
mod faults;
mod log;
mod notices;
mod refused;
mod replies;
mod trace;

pub use cores::{Cores, start};
