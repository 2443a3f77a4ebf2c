//! Operations and completions, in the caller's terms.

use nearflash_request::BufferId;
use nearflash_units::{Blocks, Lba};

use super::status::TaskStatus;

/// The caller's number for an operation, which its completion returns.
pub type Token = u64;

/// A page-aligned buffer of a connection for an operation's payload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Buffer {
    pub(super) connection: u16,
    pub(super) id: BufferId,
}

/// An operation on a logical unit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(missing_docs, reason = "the names say what the fields are")]
pub enum Io {
    /// Reads blocks into a buffer.
    Read {
        start: Lba,
        count: Blocks,
        /// The buffer, with room for all blocks.
        buffer: Buffer,
    },
    /// Writes blocks from a buffer.
    Write {
        start: Lba,
        count: Blocks,
        /// The buffer, with all blocks.
        buffer: Buffer,
        /// Whether the blocks are on stable media before the completion.
        force_unit_access: bool,
    },
    /// Makes every operation that has completed before durable on stable media.
    Flush,
}

/// The completion of an operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct IoCompletion {
    /// The caller's token.
    pub token: Token,
    /// The status.
    pub status: TaskStatus,
}
