//! Where a session wants the next bytes of the stream, and which payload it wants to see.

use nearflash_request::BufferId;

/// The destination of the next bytes of the stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(missing_docs, reason = "the names say what the fields are")]
pub enum Receiving {
    /// For `handle_input`.
    Bytes,
    /// Payload: the next `len` bytes go into the buffer, and then to `handle_payload`.
    Payload { buffer: BufferId, offset: usize, len: usize },
    /// For nobody yet: a buffer is wanted, answers must be sent first, or the session is closing.
    Paused,
}

/// A part of the payload of what the asking end is about to send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PayloadPart {
    /// The buffer.
    pub buffer: BufferId,
    /// From where in it.
    pub offset: usize,
    /// The number of bytes.
    pub len: usize,
}
