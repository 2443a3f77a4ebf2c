//! The client for C: implements `include/nearflash.h` with the crate `nearflash`.
//!
//! This crate has no behaviour of its own: it checks pointers for NULL and converts them to
//! references, and converts errors to codes. The header states the other requirements for pointers,
//! and the caller must meet them.
//!
//! A handle is a box. The box of a buffer stays valid while the buffer belongs to the queue pair.

#![allow(unsafe_code, reason = "this crate converts C pointers")]

pub mod buffer;
pub mod client;
pub mod error;
pub mod event_loop;
pub mod iovec;
pub mod options;
pub mod post;
pub mod queue_pair;
pub mod volume;
mod watch;
