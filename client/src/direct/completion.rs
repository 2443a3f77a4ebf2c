//! The name of an operation, and its result.

use std::io::IoSliceMut;

use nearflash_direct::client::ClientOperation;

use super::buffer::Buffer;
use super::error::Error;
use super::slices::scatter;
use super::slots::{Slot, slot_of};

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
    /// The buffers of a vectored operation, as they were posted. After a successful read they hold
    /// the data.
    pub buffers: Vec<Buffer>,
}

impl Completion {
    /// The end of a slot's operation.
    #[inline]
    pub(super) fn of(slot: Slot, result: Result<u64, Error>) -> Self {
        let (token, payload) = (Token(slot.token), slot.payload);
        let Some(mut buffers) = payload.parts else {
            return Self { token, result, buffer: payload.buffer, buffers: Vec::new() };
        };
        let is_read = matches!(slot.operation, ClientOperation::Read { .. });
        if let (true, Ok(_), Some(read)) = (is_read, &result, payload.buffer) {
            let mut places: Vec<_> = buffers.iter_mut().map(|it| IoSliceMut::new(it)).collect();
            scatter(&mut places, 0, &read);
        }
        Self { token, result, buffer: None, buffers }
    }
}

/// An operation that was not posted, and its buffer or buffers.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct PostError<B = Buffer> {
    /// The error.
    pub error: Error,
    /// The buffer, returned to the caller.
    pub buffer: B,
}

impl<B> From<PostError<B>> for Error {
    fn from(refused: PostError<B>) -> Self {
        refused.error
    }
}
