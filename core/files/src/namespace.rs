//! The operations on names: each reads and changes the tables of one transaction.
//!
//! An operation that returns an error has changed nothing, unless the store failed; the caller drops
//! the transaction in either case. Errors are those of POSIX for the same call.

mod access;
mod change;
mod rename;

use nearflash_units::ByteLen;

use crate::{InodeError, InodeNumber, Kind, Name, Path, Run};

pub(crate) use access::decode_entry;
pub use access::{list, stat};
pub(crate) use change::next_inode;
pub use change::{create, format, mkdir, rmdir, unlink};
pub use rename::rename;

/// An entry of a directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// Its name.
    pub name: Name,
    /// The inode that it names.
    pub inode: InodeNumber,
    /// The kind of that inode.
    pub kind: Kind,
}

/// The contents of a new file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Contents {
    /// Its length.
    pub size: ByteLen,
    /// The blocks that hold it.
    pub runs: Vec<Run>,
}

/// Whether an operation may replace an existing file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Replace {
    /// The new name must not exist.
    Never,
    /// The new name replaces a file, or an empty directory, of its kind.
    Allowed,
}

/// The reason why a valid request is refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// ENOENT.
    #[error("{0}: no such file or directory")]
    NotFound(Path),
    /// EEXIST.
    #[error("{0}: exists already")]
    Exists(Path),
    /// ENOTDIR.
    #[error("{0}: not a directory")]
    NotADirectory(Path),
    /// EISDIR.
    #[error("{0}: is a directory")]
    IsADirectory(Path),
    /// ENOTEMPTY.
    #[error("{0}: directory is not empty")]
    NotEmpty(Path),
    /// EINVAL.
    #[error("{0}: a directory cannot become part of itself")]
    IntoItself(Path),
    /// EBUSY.
    #[error("/: the root of a volume cannot be created, replaced, moved or removed")]
    Root,
    /// EMLINK.
    #[error("{0}: has as many directories as a directory may have")]
    TooManyLinks(Path),
}

/// A fault of the stored tables.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Damage {
    /// The record of an inode is not valid.
    #[error("inode {number} is damaged: {error}")]
    Inode {
        /// Its number.
        number: InodeNumber,
        /// The fault.
        error: InodeError,
    },
    /// An entry names an inode that does not exist.
    #[error("inode {0} is missing")]
    Missing(InodeNumber),
    /// An entry is not valid.
    #[error("an entry of directory {0} is damaged")]
    Entry(InodeNumber),
    /// The number of the next inode is missing or not valid.
    #[error("the number of the next inode is missing")]
    NextInode,
}

/// Error: an operation on names has failed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Error<E> {
    /// The request is refused.
    #[error(transparent)]
    Refused(Refusal),
    /// The tables are damaged.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The store cannot be read or written.
    #[error("{0}")]
    Store(E),
}

impl<E> From<Refusal> for Error<E> {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
