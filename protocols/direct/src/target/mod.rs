//! The node's end of one connection: bytes of the stream or entries of a ring in, requests for the
//! engine out; their answers in, bytes and payload buffers of the stream or entries out.
//!
//! The protocol is defined in `docs/direct-protocol.md`. Knows nothing of sockets, of memory of
//! payload, or of volumes beyond their number, size and grants.
//!
//! A driver's turn, as with any session: ask [`TargetSession::receiving`], give bytes to
//! [`TargetSession::handle_input`] or payload to its buffer and then to
//! [`TargetSession::handle_payload`]; satisfy [`TargetSession::wants_buffer`]; take every
//! [`TargetSession::poll_demand`]; give every answer; send [`TargetSession::output`] and tell
//! [`TargetSession::advance_output`]. With rings also: while [`TargetSession::takes_entries`], give
//! entries to [`TargetSession::handle_entry`]; do every [`TargetSession::poll_ring`].
//!
//! A payload buffer belongs to the session from [`TargetSession::provide_buffer`] until its request
//! is polled, and from [`TargetSession::handle_completion`] until it is sent. The engine gives back
//! those that came with a request.
//!
//! Invariants: every request is answered once or the connection is closing; what a request may do
//! is decided by the exports that the session has when the request is handed out; memory is bounded
//! by the session's credits.

mod access;
mod config;
mod exports;
mod session;

pub use access::{Access, Right};
pub use config::{
    AttachDemand, CopyInDemand, Demand, LendDemand, Place, RingOutput, SessionConfig,
};
pub use exports::{CredentialExport, Export, Exports};
pub use session::TargetSession;
