//! The login phase of both ends.
//!
//! Spec: RFC 7143, 6 and 12. Knows nothing of sessions, of what a target exports, or of sockets.

mod demand;
mod status;

pub use demand::{Granted, LoginDemand, SessionKind};
pub use status::LoginStatus;
