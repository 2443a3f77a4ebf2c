//! The messages between a client and the owner of a volume of files.
//!
//! They are defined in `docs/files-calls.md`. A [`Request`] has one form for all operations: a head
//! with all fields, a name, a second name, and bytes. An [`Answer`] has an error number, or a payload in
//! one of the forms of [`answer`](mod@answer).
//!
//! The crate knows nothing about connections, which carry the messages as opaque bytes, about volumes,
//! or about the rules of files.
//!
//! Invariants: decoding never panics, and takes no memory: the parts of a message borrow its bytes.
//! Encoding and decoding again returns the same message.

pub mod answer;
pub mod check;
mod operation;
mod request;
#[cfg(test)]
mod tests;

pub use answer::{Answer, AnswerHead};
pub use operation::Operation;
pub use request::{Request, RequestHead, set};

/// The longest request, and the longest answer.
pub const MESSAGE_LEN_MAX: usize = 69_632;

/// The most bytes of a request behind its head and its names, and the longest payload of an answer.
pub const DATA_LEN_MAX: usize = 65_536;

/// The longest name of an entry or an extended attribute, in bytes.
pub const NAME_LEN_MAX: usize = 255;

/// The most runs of a file.
pub const RUNS_MAX: usize = 8;

/// The length of the number that a client generates for itself.
pub const CLIENT_LEN: usize = 16;

/// The most inodes that a client has open at a time.
pub const OPEN_MAX: usize = 65_536;

/// Error: bytes are not a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum MessageError {
    /// The bytes end within the message, or continue behind it.
    #[error("a message on files has the wrong length")]
    Length,
    /// A part is longer than it may be.
    #[error("a part of a message on files is too long")]
    TooLong,
    /// A part of an answer has an invalid value.
    #[error("an answer on files has an invalid value")]
    Value,
}
