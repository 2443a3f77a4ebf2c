//! The serving cores: each has a pinned thread with its reactor and its shard, and a mailbox for
//! messages of the control side.

mod common;
mod config;
mod cores;
mod doors;
mod faults;
mod log;
mod notices;
mod refused;
mod status;
mod target;
mod trace;

pub(crate) use config::{Authentication, FilesNews, MirrorNews, News, On, OnMirrors};
pub use config::{CoresError, RuntimeConfig};
pub use cores::{Begun, Cores, start, start_with};
pub(crate) use status::CoresStatus;
pub(crate) use trace::{CoreTrace, TraceSpec};
