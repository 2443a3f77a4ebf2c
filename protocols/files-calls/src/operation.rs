//! The operations that a client requests.

use nearflash_session::codes;

/// The operation of a request. Unknown values also decode, and are refused in one place.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Operation(pub u8);

codes! { Operation {
    HELLO = 1, "the connection belongs to the client of this number";
    LOOKUP = 2, "the inode of a name";
    INODE = 3, "the attributes of an inode";
    LIST = 4, "entries of a directory";
    READ_LINK = 5, "the target of a symbolic link";
    USAGE = 6, "the space of the volume";
    ATTRIBUTE = 7, "the value of an extended attribute";
    ATTRIBUTES = 8, "the names of the extended attributes";
    RETAIN = 9, "the inode is open once more, or several times";
    RELEASE = 10, "the inode is open once less";
    READ = 11, "bytes of an open file";
    SYNC = 12, "makes the changes of an inode durable";
    SYNC_ALL = 13, "makes all changes durable";
    SEAL = 14, "a seal of an open file";
    CREATE = 32, "a new inode with a name";
    LINK = 33, "a further name of an inode";
    UNLINK = 34, "removes a name";
    RMDIR = 35, "removes an empty directory";
    RENAME = 36, "renames an inode";
    CHANGE = 37, "changes attributes";
    SET_ATTRIBUTE = 38, "sets an extended attribute";
    REMOVE_ATTRIBUTE = 39, "removes an extended attribute";
    WRITE = 40, "bytes for an open file";
    APPEND = 41, "bytes for the end of an open file";
    ALLOCATE = 42, "takes space for an open file, or zeroes a range of it";
    FORMAT = 43, "formats the volume";
    WRITTEN = 44, "an open file was written through a seal";
} }

impl Operation {
    /// The least operation that needs the right to write.
    const FIRST_CHANGE: u8 = 32;

    /// Whether it needs the right to write.
    pub const fn is_change(self) -> bool {
        self.0 >= Self::FIRST_CHANGE
    }

    /// Its name in the document.
    pub fn name(self) -> &'static str {
        self.known().map_or("unknown", |(name, _)| name)
    }
}
