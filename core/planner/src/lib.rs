//! Changes as transactions. Pure.
//!
//! A change is computed from the records that it is decided on: it becomes one transaction after the other, or a
//! [`Refusal`] that names the remedy. This crate opens no connection and no file. The driver of the store carries
//! the transactions out. The rules of rights ([`access`]) change copies of the records, whose differences are one
//! transaction.

pub mod access;
pub mod change;
mod create;
pub mod model;
mod refusal;
pub mod usage;

pub use change::{
    AccessChange, AskedMove, Awaited, Begin, CLUSTER_JOBS_MAX, Change, ENDED_CLUSTER_JOBS_MAX,
    MOVES_MAX, NodeSpec, STRIPE_UNIT, SliceSpec, Step, VolumeSpec, accept_restored, adopted,
    job_of_move, lost_by_removal, waits_for,
};
pub use create::{Asked, Misfit, Store, store_of, whole_blocks};
pub use refusal::{Affected, Away, FreeList, Lost, Refusal};
