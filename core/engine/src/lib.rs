//! The path of a request: volume, range, layout, devices, answer. The engine performs no I/O: it
//! emits device operations and takes their completions.
//!
//! This crate knows nothing about protocols (it takes [`nearflash_request::Request`]), sockets,
//! files, or time.

mod accounts;
mod admission;
mod arena;
mod change;
mod copy;
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
mod steps;
#[cfg(test)]
mod tests;
mod trace;
mod turns;
mod waits;
mod wants;

pub use accounts::{AccountId, Accounts};
pub use admission::{Asker, DEVICE_DEPTH};
pub use arena::{Arena, PAGE_LEN};
pub use engine::{Answer, Engine, EngineConfig};
pub use fence::{CoreId, FenceId, FenceMessage, Fenced};
pub use histogram::Times;
pub use meter::{Figures, Kind, KindFigures, KindTotals, Meter, Totals};
pub use meters::{Asking, Opened, PAIRS_MAX};
pub use nearflash_device::Owner;
pub use pool::{Foreign, Pool, Reserve};
pub use trace::{
    Moment, Moments, TRACE_RECORDS_MAX, TraceId, TraceOrder, TraceRecord, Traced, Tracer,
};
pub use waits::Older;
pub use wants::{Grant, Want};
