//! What an operation is named by, and how it ends.

use super::buffer::Buffer;
use super::error::Error;
use super::slots::slot_of;

/// Names an operation from its post to its completion.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Token(pub(super) u64);

impl Token {
    /// A number below the queue pair's depth that no other operation in flight has: for tables of
    /// what is in flight.
    #[inline]
    pub fn index(self) -> usize {
        usize::try_from(slot_of(self.0).0).expect("usize is at least 32 bits wide")
    }

    /// As one number, never twice the same of one queue pair.
    pub fn get(self) -> u64 {
        self.0
    }
}

/// The end of an operation.
#[derive(Debug)]
pub struct Completion {
    /// Which.
    pub token: Token,
    /// How it ended: with the previous word for compare-and-swap and fetch-add, with 0 for all else.
    pub result: Result<u64, Error>,
    /// The operation's buffer. After a read that succeeded it holds what was read.
    pub buffer: Option<Buffer>,
}

/// An operation that was not taken, and its buffer.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct PostError {
    /// Why.
    pub error: Error,
    /// The buffer, which is the caller's again.
    pub buffer: Buffer,
}

impl From<PostError> for Error {
    fn from(refused: PostError) -> Self {
        refused.error
    }
}
