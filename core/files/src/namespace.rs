//! The operations on names: each reads and changes the tables of one transaction.
//!
//! A name is found by its [`Place`], which is a directory and a name in it. An operation that returns
//! an error may have changed the tables; the caller drops these changes. Errors are those of POSIX
//! for the same call.

mod access;
mod attributes;
mod change;
mod rename;

use nearflash_units::ByteLen;

use crate::{InodeError, InodeNumber, Kind, Name, Path};

pub(crate) use access::decode_entry;
pub use access::{Place, attribute, attributes, inode, list, locate, lookup, stat, target};
pub use attributes::{ATTRIBUTE_LEN_MAX, ATTRIBUTES_LEN_MAX, AttributeWrite};
pub(crate) use change::next_inode;
pub use change::{Change, Effects, format};
pub use rename::Renaming;

/// The longest target of a symbolic link, in bytes.
pub const TARGET_LEN_MAX: usize = crate::PATH_LEN_MAX - 1;

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
    #[error("{0}: the inode has as many links as it may have")]
    TooManyLinks(Path),
    /// EPERM.
    #[error("{0}: a directory cannot have a second name")]
    LinkToDirectory(Path),
    /// ESTALE.
    #[error("inode {0} does not exist any more")]
    Stale(InodeNumber),
    /// EINVAL; EISDIR for a directory.
    #[error("inode {0} is not a regular file")]
    NotAFile(InodeNumber),
    /// EINVAL.
    #[error("inode {0} is not a symbolic link")]
    NotASymlink(InodeNumber),
    /// EFBIG.
    #[error("a file can have {max} at most", max = crate::FILE_LEN_MAX)]
    TooLong(ByteLen),
    /// ENAMETOOLONG.
    #[error("a symbolic link of {0} bytes is too long: the maximum is {TARGET_LEN_MAX}")]
    TargetTooLong(usize),
    /// ENODATA.
    #[error("inode {0} has no such extended attribute")]
    NoAttribute(InodeNumber),
    /// EEXIST.
    #[error("inode {0} has this extended attribute already")]
    AttributeExists(InodeNumber),
    /// ERANGE.
    #[error("the name of an extended attribute has 1 to 255 bytes without NUL")]
    AttributeName,
    /// E2BIG.
    #[error("an extended attribute of {0} bytes is too long: the maximum is {ATTRIBUTE_LEN_MAX}")]
    AttributeTooLong(usize),
    /// ENOSPC.
    #[error(
        "the names of the extended attributes of inode {0} would have more than \
         {ATTRIBUTES_LEN_MAX} bytes"
    )]
    TooManyAttributes(InodeNumber),
}

/// A fault of the stored tables.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum Damage {
    /// The record of an inode is not valid.
    #[error("inode {number} is damaged: {error}")]
    Inode { number: InodeNumber, error: InodeError },
    /// An entry names an inode that does not exist.
    #[error("inode {0} is missing")]
    Missing(InodeNumber),
    /// An entry is not valid.
    #[error("an entry of directory {0} is damaged")]
    Entry(InodeNumber),
    /// A symbolic link has no target.
    #[error("the target of symbolic link {0} is missing")]
    Target(InodeNumber),
    /// The number of the next inode is missing or not valid.
    #[error("the number of the next inode is missing")]
    NextInode,
    /// The parents of a directory do not lead to the root.
    #[error("the parents of directory {0} are not valid")]
    Parents(InodeNumber),
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
