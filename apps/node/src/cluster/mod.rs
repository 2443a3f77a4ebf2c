//! The node's part in its cluster: the thread that follows the store, and the membership of the mirrors.
//!
//! `world/cluster` carries out the calls and has the pulses; `follow.rs` and `mirroring.rs` join them to the
//! pure machines, and these to the cores.

mod follow;
mod mirroring;
mod noting;
mod refused;

pub use follow::ChangeError;
pub(crate) use follow::Follower;
pub(crate) use mirroring::MirrorSetup;
pub(crate) use nearflash_cluster_store::{Absence, known, record_of};
pub(crate) use noting::note_of;
