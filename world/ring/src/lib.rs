//! Memory that a node shares with a client on the same machine: a ring of requests, a ring of
//! answers, and the data area for payload. The crate has both ends.
//!
//! `docs/direct-protocol.md` defines the layout. This crate interprets only those fields of an
//! entry that locate its payload in the data area.
//!
//! The two ends do not trust each other equally. The node trusts nothing that it reads: it keeps
//! private copies of its own indices, copies an entry once and examines the copy, and accesses the
//! data area by copies only. The memory is sealed against shrinking, and the bell that wakes a
//! client never blocks the node. A client trusts the node with its data anyway, and reads and
//! writes the data area in place: [`Slice`]. It trusts the node, but not its own program, not to
//! access a slice that the program holds: a request takes its slice along, and only the answer
//! returns it.
//!
//! Invariant: whatever the other end writes, each end accesses only bytes within the memory, and a
//! ring in an impossible state is an error, [`Broken`].
#![allow(unsafe_code)] // memory shared between processes; every block says why it is sound
#![cfg_attr(all(test, loom), allow(dead_code, reason = "the model has only indices and sleep"))]

mod geometry;
mod lane;
mod sleep;
mod sync;

#[cfg(all(test, loom))]
#[path = "model.rs"]
mod memory;

/// The modules that use the system, which the model of threads does not have.
#[cfg(not(all(test, loom)))]
mod area;
#[cfg(not(all(test, loom)))]
mod bell;
#[cfg(not(all(test, loom)))]
mod client;
#[cfg(not(all(test, loom)))]
mod flights;
#[cfg(not(all(test, loom)))]
mod mapping;
#[cfg(not(all(test, loom)))]
mod memory;
#[cfg(not(all(test, loom)))]
mod node;
#[cfg(not(all(test, loom)))]
mod original;
#[cfg(not(all(test, loom)))]
mod passing;
#[cfg(not(all(test, loom)))]
mod processor;
#[cfg(not(all(test, loom)))]
mod short_path;

pub use geometry::{DATA_LEN_MAX, ENTRIES_MAX, ENTRY_LEN, Entry, Geometry};
pub use lane::Broken;

#[cfg(not(all(test, loom)))]
pub use {
    area::{Area, Slice},
    bell::Bell,
    client::ClientEnd,
    flights::Payload,
    memory::OpenError,
    node::{Handover, NodeEnd},
    original::Original,
    passing::{receive_passed, send_passing},
    processor::Processor,
    short_path::ShortPath,
};
