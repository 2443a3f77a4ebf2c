//! The login phase of both ends.
//!
//! Spec: RFC 7143, 6 (negotiation, stages) and 12 (authentication). A login is a leading or further
//! connection's: it goes from security negotiation over operational negotiation to the full feature
//! phase, by requests and responses in turn. This module knows nothing about sessions, what a
//! target exports, or sockets.
//!
//! Invariants: if authentication is required, no login enters the full feature phase without it.
//! The text of a login ([`crate::text::TEXT_LEN_MAX`]) and its number of turns ([`TURNS_MAX`]) are
//! bounded.

mod authenticator;
mod demand;
mod initiator;
mod keys;
mod names;
mod prover;
mod target;
#[cfg(test)]
mod tests;

pub use authenticator::Access;
pub use demand::{Granted, LoginDemand, SessionKind};
pub use initiator::{Established, InitiatorLogin, LoginConfig};
pub use target::{LoginStep, TargetLogin, TargetLoginConfig};

/// The maximum number of requests of one login, which is more than any sensible negotiation takes.
pub const TURNS_MAX: u32 = 64;
/// The longest name of an initiator or target. RFC 7143, 4.2.7.1.
pub const NAME_LEN_MAX: usize = 223;
/// The maximum length of a login PDU's data, which applies before MaxRecvDataSegmentLength.
pub(crate) const LOGIN_DATA_LEN_MAX: u32 = crate::params::RECEIVE_LEN_DEFAULT;
