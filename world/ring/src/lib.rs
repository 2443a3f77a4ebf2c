//! Memory that a node shares with a client of the same machine: a ring of requests, a ring of
//! answers, and the area that payload lies in. Both ends.
//!
//! The layout is defined in `docs/direct-protocol.md`. Knows nothing of what entries mean.
//!
//! The two ends do not trust each other alike. The node believes nothing that it reads: it keeps its
//! own indices to itself, copies an entry once and looks at the copy, and touches the data area by
//! copies alone. Memory that was sealed against shrinking cannot be taken from under it, and what
//! wakes a client cannot make it wait. A client trusts the node with its data anyway, and reads and
//! writes the data area in place: [`Slice`].
//!
//! Invariant: whatever the other end writes, each end reads and writes only within the memory, and
//! a ring that cannot be right is an error, [`Broken`].
#![allow(unsafe_code)] // memory shared between processes; every block says why it is sound

mod area;
mod bell;
mod client;
mod geometry;
mod lane;
mod memory;
mod node;
mod passing;

pub use area::{Area, Slice};
pub use bell::Bell;
pub use client::ClientEnd;
pub use geometry::{DATA_LEN_MAX, ENTRIES_MAX, Geometry};
pub use lane::{Broken, ENTRY_LEN, Entry};
pub use memory::OpenError;
pub use node::{Handover, NodeEnd};
pub use passing::{receive_passed, send_passing};
