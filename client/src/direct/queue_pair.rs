//! A queue pair: operations in, completions out, in any order, by the thread that owns it.

use std::time::Duration;

use super::buffer::Buffer;
use super::error::Error;
use super::volume::VolumeInfo;

/// Names an operation from its post to its completion.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Token(u64);

impl Token {
    /// A number below the queue pair's depth that no other operation in flight has: for tables of
    /// what is in flight.
    pub fn index(self) -> usize {
        usize::try_from(self.0 & u64::from(u32::MAX)).expect("usize is at least 32 bits wide")
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

/// The queue pair. It may be given to another thread, and belongs to one at a time. A buffer in
/// flight is the queue pair's; dropping it drops them, and whether writes in flight take effect is
/// unknown then.
///
/// When the connection is lost, every operation in flight completes with
/// [`Error::ConnectionLost`], or [`Error::Unknown`] where it might have changed the volume;
/// [`Self::reconnect`] makes the queue pair usable again.
#[derive(Debug)]
pub struct QueuePair {
    never: std::convert::Infallible,
}

impl QueuePair {
    /// The volume's size and properties, as of the last answer.
    pub fn info(&self) -> VolumeInfo {
        match self.never {}
    }

    /// How many operations may be in flight.
    pub fn depth(&self) -> u32 {
        match self.never {}
    }

    /// How many are.
    pub fn in_flight(&self) -> u32 {
        match self.never {}
    }

    /// A buffer of `len` bytes where the node reaches it best.
    ///
    /// # Errors
    /// When the memory shared with the node is used up.
    pub fn buffer(&mut self, _len: usize) -> Result<Buffer, Error> {
        match self.never {}
    }

    /// Reads the buffer's length at `offset`, both in bytes and of any alignment.
    ///
    /// # Errors
    /// When as much is in flight as may be, the buffer is empty or too long, or the connection is
    /// lost. The buffer comes back with it.
    pub fn post_read(&mut self, _buffer: Buffer, _offset: u64) -> Result<Token, PostError> {
        match self.never {}
    }

    /// Writes the buffer at `offset`. Atomic for each logical block; durable after a flush.
    ///
    /// # Errors
    /// As [`Self::post_read`].
    pub fn post_write(&mut self, _buffer: Buffer, _offset: u64) -> Result<Token, PostError> {
        match self.never {}
    }

    /// Writes the buffer at `offset`, durably: on stable media before the completion.
    ///
    /// # Errors
    /// As [`Self::post_read`].
    pub fn post_write_durable(
        &mut self,
        _buffer: Buffer,
        _offset: u64,
    ) -> Result<Token, PostError> {
        match self.never {}
    }

    /// Everything that completed before this was posted is on stable media at its completion.
    ///
    /// # Errors
    /// When as much is in flight as may be, or the connection is lost.
    pub fn post_flush(&mut self) -> Result<Token, Error> {
        match self.never {}
    }

    /// The contents of `len` bytes at `offset` are no longer needed.
    ///
    /// # Errors
    /// As [`Self::post_flush`].
    pub fn post_discard(&mut self, _offset: u64, _len: u64) -> Result<Token, Error> {
        match self.never {}
    }

    /// Puts `new` in place of the little-endian 8-byte word at `offset` if it is `expected`;
    /// completes with the word that was there.
    ///
    /// # Errors
    /// As [`Self::post_flush`], and when the offset is no multiple of 8.
    pub fn compare_and_swap(
        &mut self,
        _offset: u64,
        _expected: u64,
        _new: u64,
    ) -> Result<Token, Error> {
        match self.never {}
    }

    /// Adds to the little-endian 8-byte word at `offset`, modulo 2⁶⁴; completes with the word that
    /// was there.
    ///
    /// # Errors
    /// As [`Self::post_flush`], and when the offset is no multiple of 8.
    pub fn fetch_add(&mut self, _offset: u64, _addend: u64) -> Result<Token, Error> {
        match self.never {}
    }

    /// Sends what was posted. Posting does so by itself when nothing else is in flight, and so does
    /// [`Self::poll`]: many posts between two polls are sent together.
    ///
    /// # Errors
    /// When the connection is lost; [`Self::poll`] tells what became of the operations.
    pub fn submit(&mut self) -> Result<(), Error> {
        match self.never {}
    }

    /// Sends what was posted, takes what was answered and appends what is over to `completions`;
    /// how many those are. Never waits.
    ///
    /// # Errors
    /// When the connection is lost and all that was in flight has completed.
    pub fn poll(&mut self, _completions: &mut Vec<Completion>) -> Result<usize, Error> {
        match self.never {}
    }

    /// Sends what was posted and sleeps until there may be something to poll, `timeout` at most.
    /// For a caller that has spun for as long as it pays. Whether there may be something.
    ///
    /// # Errors
    /// When the connection is lost and all that was in flight has completed.
    pub fn wait(&mut self, _timeout: Duration) -> Result<bool, Error> {
        match self.never {}
    }

    /// Connects again after the connection was lost, trying for
    /// [`Options::reconnect_max`](super::Options::reconnect_max) with growing waits. Operations
    /// that were in flight complete with the next poll, as lost.
    ///
    /// # Errors
    /// When the node cannot be reached for so long, or refuses.
    pub fn reconnect(&mut self) -> Result<(), Error> {
        match self.never {}
    }
}
