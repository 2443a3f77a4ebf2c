//! The path of a request: volume, range, layout, devices, answer. The engine performs no I/O: it
//! emits device operations and takes their completions.
//!
//! This crate knows nothing about protocols (it takes [`nearflash_request::Request`]), sockets,
//! files, or time.

mod accounts;
mod admission;
mod arena;
mod change;
mod depth;
mod edges;
mod engine;
mod fence;
mod histogram;
mod job;
mod meter;
mod meters;
mod need;
mod pool;
mod stages;
mod stamp;
#[cfg(test)]
mod tests;
mod trace;
mod turns;
mod waits;

pub use accounts::{AccountId, Accounts};
pub use admission::{Asker, DEVICE_DEPTH, Grant, Want};
pub use arena::{Arena, PAGE_LEN};
pub use engine::{Answer, Engine, EngineConfig};
pub use fence::{CoreId, FenceId, FenceMessage, Fenced};
pub use histogram::Times;
pub use meter::{Figures, KindFigures, KindTotals, Meter, Totals};
pub use meters::{Asking, Opened, PAIRS_MAX};
pub use nearflash_device::Owner;
pub use pool::{Foreign, Pool, Reserve};
pub use stamp::{Kind, TraceId};
pub use trace::{Moment, Moments, TRACE_RECORDS_MAX, TraceOrder, TraceRecord, Traced, Tracer};
pub use waits::Older;
