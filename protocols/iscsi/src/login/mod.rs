//! The login phase of both ends.
//!
//! Spec: RFC 7143, 6 (negotiation, stages) and 12 (authentication). A login is a leading or further
//! connection's: it goes from security negotiation over operational negotiation to the full feature
//! phase, by requests and responses in turn. Knows nothing of sessions, of what a target exports,
//! or of sockets.
//!
//! Invariants: nothing enters the full feature phase unauthenticated where that is asked for; a
//! login has a bound on its text ([`crate::text::TEXT_LEN_MAX`]) and on its turns ([`TURNS_MAX`]).

mod authenticator;
mod demand;
mod initiator;
mod keys;
mod names;
mod prover;
mod status;
mod target;
#[cfg(test)]
mod tests;

pub use authenticator::Access;
pub use demand::{Granted, LoginDemand, SessionKind};
pub use initiator::{Established, InitiatorLogin, LoginConfig};
pub use status::LoginStatus;
pub use target::{LoginStep, TargetLogin, TargetLoginConfig};

/// Requests of one login. More than any sensible negotiation takes.
pub const TURNS_MAX: u32 = 64;
/// The longest name of an initiator or target. RFC 7143, 4.2.7.1.
pub const NAME_LEN_MAX: usize = 223;
/// The most data of a login PDU: what holds before MaxRecvDataSegmentLength does.
pub(crate) const LOGIN_DATA_LEN_MAX: u32 = crate::params::RECEIVE_LEN_DEFAULT;
