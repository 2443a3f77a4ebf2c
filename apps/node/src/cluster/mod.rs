//! The node's part in its cluster: the thread that follows the store, and the membership of the mirrors.
//!
//! `world/cluster` carries out the calls and has the pulses; `follow.rs` and `mirroring.rs` join them to the
//! pure machines, and these to the cores.

mod follow;
mod mirroring;
mod noting;
mod refused;
mod stored;
mod told;

pub use follow::ChangeError;
pub(crate) use follow::Follower;
pub(crate) use mirroring::MirrorSetup;
pub(crate) use noting::note_of;
pub(crate) use stored::{known, record_of};
pub(crate) use told::Absence;
