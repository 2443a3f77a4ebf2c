//! The client for C: what `include/nearflash.h` declares, over the crate `nearflash`.
//!
//! Here is no behaviour of its own: pointers are checked for NULL and turned into references, errors
//! into codes. What a pointer must be otherwise is the header's to say and the caller's to keep.
//!
//! Handles are boxes. A buffer's stays where it is while the buffer in it is with the queue pair.

#![allow(unsafe_code, reason = "pointers of C are what this is about")]

pub mod buffer;
pub mod client;
pub mod error;
pub mod post;
pub mod queue_pair;
pub mod volume;
