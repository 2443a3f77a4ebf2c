//! The name of an operation, and its result.

use super::buffer::Buffer;
use super::error::Error;
use super::slots::slot_of;

/// The name of an operation from its post to its completion.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Token(pub(super) u64);

impl Token {
    /// A number below the queue pair's depth that no other operation in flight has, for use as a
    /// table index.
    #[inline]
    pub fn index(self) -> usize {
        usize::try_from(slot_of(self.0).0).expect("usize is at least 32 bits wide")
    }

    /// The token as a number, which is unique in one queue pair.
    pub fn get(self) -> u64 {
        self.0
    }
}

/// The end of an operation.
#[derive(Debug)]
#[non_exhaustive]
pub struct Completion {
    /// The operation.
    pub token: Token,
    /// The result: the previous word for compare-and-swap and fetch-add, 0 for every other
    /// operation.
    pub result: Result<u64, Error>,
    /// The operation's buffer. After a successful read it holds the data.
    pub buffer: Option<Buffer>,
}

/// An operation that was not posted, and its buffer.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct PostError {
    /// The error.
    pub error: Error,
    /// The buffer, returned to the caller.
    pub buffer: Buffer,
}

impl From<PostError> for Error {
    fn from(refused: PostError) -> Self {
        refused.error
    }
}
