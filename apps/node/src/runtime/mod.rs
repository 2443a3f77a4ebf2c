//! The serving cores: each has a pinned thread with its reactor and its shard, and a mailbox for
//! messages of the control side.

mod cores;
mod doors;
mod exports;
mod faults;
mod log;
mod notices;
mod post;
mod refused;
mod replies;
mod trace;

pub use cores::{Cores, start};
