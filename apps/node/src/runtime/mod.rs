//! The serving cores: each has a pinned thread with its reactor and its shard, and a mailbox for
//! messages of the control side.

mod common;
mod cores;
mod doors;
mod faults;
mod log;
mod notices;
mod refused;
mod replies;
mod status;
mod target;
mod trace;

pub use cores::{Cores, start};
