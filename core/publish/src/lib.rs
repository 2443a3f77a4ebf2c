//! The state that a node serves, as one immutable value for all cores, and the order in which the
//! cores get it.
//!
//! The control side makes a new [`Served`] for each change. A [`Publication`] carries it to a core,
//! together with the events that sessions must learn and the volumes whose older requests are
//! awaited. The [`Publisher`] decides which core gets which publication, and knows which core serves
//! and has ended what.
//!
//! This crate knows neither records nor sessions, and reads no clock.

mod peers;
mod publisher;
mod served;

pub use peers::{PeerConfig, RemoteVolume};
pub use publisher::{Publisher, SILENT_AFTER};
pub use served::{Devices, Publication, Served};
