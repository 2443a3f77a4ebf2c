//! Memory that a node shares with a client of the same machine: a ring of requests, a ring of
//! answers, and the area that payload lies in. Both ends.
//!
//! The layout is defined in `docs/direct-protocol.md`. Of entries this knows only which bytes of the data
//! area they are about.
//!
//! The two ends do not trust each other alike. The node believes nothing that it reads: it keeps its
//! own indices to itself, copies an entry once and looks at the copy, and touches the data area by
//! copies alone. Memory that was sealed against shrinking cannot be taken from under it, and what
//! wakes a client cannot make it wait. A client trusts the node with its data anyway, and reads and
//! writes the data area in place: [`Slice`]. It trusts the node, and not its own program, to leave a
//! slice alone that it holds: a request takes its slice along, and only the answer brings it back.
//!
//! Invariant: whatever the other end writes, each end reads and writes only within the memory, and
//! a ring that cannot be right is an error, [`Broken`].
#![allow(unsafe_code)] // memory shared between processes; every block says why it is sound
#![cfg_attr(all(test, loom), allow(dead_code, reason = "the model has only indices and sleep"))]

mod geometry;
mod lane;
mod sleep;
mod sync;

#[cfg(all(test, loom))]
#[path = "model.rs"]
mod memory;

/// All that needs the system, which a model of threads has not.
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
mod passing;

pub use geometry::{DATA_LEN_MAX, ENTRIES_MAX, Geometry};
pub use lane::{Broken, ENTRY_LEN, Entry};

#[cfg(not(all(test, loom)))]
pub use {
    area::{Area, Slice},
    bell::Bell,
    client::ClientEnd,
    flights::Payload,
    memory::OpenError,
    node::{Handover, NodeEnd},
    passing::{receive_passed, send_passing},
};
