//! Where a session wants the next bytes of the stream, and which payload it wants to see.

use nearflash_request::BufferId;

/// What the next bytes of the stream are for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Receiving {
    /// For `handle_input`.
    Bytes,
    /// They are payload: the next `len` bytes belong into the buffer at `offset`, and are then
    /// told to `handle_payload`, in as many parts as they come.
    Payload {
        /// Which buffer.
        buffer: BufferId,
        /// From where in it.
        offset: usize,
        /// How many.
        len: usize,
    },
    /// For nobody yet: a buffer is wanted, answers must be sent first, or the session is closing.
    Paused,
}

/// A part of the payload of what the asking end is about to send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PayloadPart {
    /// Which buffer.
    pub buffer: BufferId,
    /// From where in it.
    pub offset: usize,
    /// How many bytes.
    pub len: usize,
}
