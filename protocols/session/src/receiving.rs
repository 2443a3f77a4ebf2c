//! The destination of the next bytes of a session's stream, and the payload that it needs to read.

use nearflash_request::BufferId;

/// The destination of the next bytes of the stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(missing_docs, reason = "the names say what the fields are")]
pub enum Receiving {
    /// For `handle_input`.
    Bytes,
    /// Payload: the next `len` bytes go into the buffer, and then to `handle_payload`.
    Payload { buffer: BufferId, offset: usize, len: usize },
    /// Nothing can be received yet: the session waits for a buffer, must send answers first, or is
    /// closing.
    Paused,
}

/// A part of the payload that the requesting end is about to send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PayloadPart {
    /// The buffer.
    pub buffer: BufferId,
    /// From where in it.
    pub offset: usize,
    /// The number of bytes.
    pub len: usize,
}
