//! The state that a node serves, as one immutable value for all cores, and the order in which the
//! cores get it.
//!
//! The control side makes a new [`Served`] from its [`Records`] for each change. A [`Publication`] carries it to a core,
//! together with the events that sessions must learn and the volumes whose older requests are
//! awaited. The [`Publisher`] decides which core gets which publication, and knows which core serves
//! and has ended what.
//!
//! This crate knows no sessions, and reads no clock.

mod controller_ids;
mod direct;
mod draft;
mod hosts;
mod iscsi;
pub mod iscsi_names;
mod namespaces;
mod peers;
mod publisher;
mod raised;
mod records;
mod restore;
mod seats;
mod served;

pub use controller_ids::controller_ids;
pub use direct::{FILES_KEY, PEER_KEY};
pub use draft::Draft;
pub use hosts::port_ids;
pub use namespaces::{NQN_PREFIX, subsystem_nqn};
pub use peers::{PeerConfig, RemoteVolume};
pub use publisher::{Publisher, SILENT_AFTER};
pub use raised::raised_by;
pub use records::{FilesAccess, PeerAccess, Portals, Records};
pub use restore::{Missing, Unread};
pub use seats::{Faces, Seat, Seats, face_of};
pub use served::{Devices, Publication, Served};
