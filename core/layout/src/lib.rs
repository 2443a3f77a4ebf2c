//! The layout layer: translates the engine's IOs on volumes into device operations, tracks each
//! operation until it has ended, and returns one result for each IO. Pure.
//!
//! [`Layout::poll_device`] gives every device operation, and [`Layout::handle_device`] takes every
//! result. No two operations in flight have the same id.
//!
//! This crate sees IOs on blocks; it has no notion of requests, sessions, fences or the contents of
//! buffers.

mod flight;
mod flush;
mod io;
mod layout;
#[cfg(test)]
mod tests;

pub use io::{BlockIo, IoId, IoKind, IoResult};
pub use layout::{Layout, OPERATIONS_PER_IO_MAX};
