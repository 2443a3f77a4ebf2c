//! The application's end of one connection: requests in, bytes and payload buffers of the stream
//! or entries of a ring out; bytes or entries in, completions out.
//!
//! The protocol is defined in `docs/direct-protocol.md`. Knows nothing of sockets, of memory of
//! payload, or of what is stored. Nothing is ever sent twice: on a lost connection,
//! [`ClientSession::in_flight`] names the requests of which nobody here knows whether they were
//! done.
//!
//! A driver's turn: [`ClientSession::submit`] as much as there is; send [`ClientSession::output`]
//! and tell [`ClientSession::advance_output`]; ask [`ClientSession::receiving`], give bytes to
//! [`ClientSession::handle_input`] or payload to its buffer and then to
//! [`ClientSession::handle_payload`]; take every [`ClientSession::poll_completion`] and
//! [`ClientSession::poll_event`].
//!
//! Buffers stay the caller's. A request's is not touched after its completion was polled.

mod config;
mod session;

pub use config::{
    Agreed, ClientCompletion, ClientConfig, ClientEvent, ClientOperation, RequestTag, SubmitError,
    VolumeHandle, VolumeInfo,
};
pub use session::ClientSession;
