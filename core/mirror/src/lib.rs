//! Mirrors: devices that are made of equal extents (*replicas*) on two nodes, or on three while one moves.
//!
//! A mirror has a device number, so the layout above knows neither replicas nor terms, and a volume's
//! map stays as it is when a node fails. This crate is the layer between the layout and the devices: it
//! takes operations on mirrors, and gives operations on local devices and on *remote* ones, which stand
//! for the replica, or for the mirror, on another node.
//!
//! [`Mirrors`] is the part of one core. It follows a table, which [`membership`] makes with the other nodes. Its
//! driver refuses a forwarded operation unless [`Mirrors::role`] is primary in the term that it carries, and
//! hands in every result whose `io` number is [`OPERATIONS`] or more. [`Heartbeats`] tell the membership whether
//! all cores turn.
//!
//! Pure. It must not know volumes, hosts, connections or the cluster's store.

pub mod check;
mod heartbeats;
mod job;
mod locks;
pub mod membership;
mod mirrors;
mod mutant;
#[cfg(test)]
mod sim;
mod slots;
mod table;
mod written;

pub use heartbeats::{Heartbeats, SILENCE_MAX};
pub use locks::{Range, Ticket};
pub use mirrors::{
    Asker, Buffers, Copied, DigestKey, HOLD, MirrorMessage, Mirrors, REDRIVE, REPLICA_TIMEOUT,
    RETRY_PERIOD, Refusal, Submission,
};
pub use table::{
    Core, DEVICES_MAX, DeviceKind, Local, MirrorEntry, MirrorId, MirrorTable, PLACES_MAX,
    REMOTES_MAX, Remote, Role, Side, Term,
};
pub use written::Written;

/// Operations of this crate have `io` numbers from this one on. Those of the layout's IOs are below
/// 2^31, and those of its flushes are 2^31 plus the number of a device, below 2^31 + [`DEVICES_MAX`].
pub const OPERATIONS: u32 = (1 << 31) + DEVICES_MAX;
