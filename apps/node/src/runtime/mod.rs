//! The cores that serve: one pinned thread each, with its reactor and its shard, and the mailboxes
//! through which the control side speaks to them.

mod cores;
mod exports;
mod faults;
mod log;
mod replies;

pub use cores::{Cores, start};
