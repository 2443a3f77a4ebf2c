//! How a file was opened: what its handle says, and which of its changes must be durable when a call returns.
//!
//! The kernel passes the handle with every call on an open file, and the flags of open(2) with writes alone.
//! So the handle has the flags that other calls need: fcntl(2) changes none of them.
//!
//! Synchronous writes: `O_SYNC` and `O_DSYNC` of open(2), `RWF_SYNC` and `RWF_DSYNC` of pwritev2(2), and a mount
//! that is remounted with the option `sync`, all come as flags of a write. The kernel does not send FSYNC after
//! a write that does not go through its page cache, so this mount makes it durable. `O_SYNC` and `O_DSYNC` on
//! bytes that are copied in the kernel (sendfile, splice, copy_file_range) and on asynchronous requests (io_uring,
//! libaio) come with each write, too. Pages of a mapping have no such flag: msync(2) sends FSYNC.

use fuser::{Errno, FileHandle};
use nearflash_files_service::InodeNumber;
use rustix::fs::OFlags;

use super::Translator;

/// The flags that a handle has.
const KEPT: OFlags = OFlags::ACCMODE.union(OFlags::SYNC);

/// The changes that are durable when a call returns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Durable {
    /// Nothing, yet.
    Nothing,
    /// The bytes, and what is needed to find them: `O_DSYNC`.
    Bytes,
    /// The times, too: `O_SYNC`.
    Everything,
}

impl Durable {
    /// For calls with these flags. `O_SYNC` consists of `O_DSYNC` and another bit.
    pub(super) fn of(flags: OFlags) -> Self {
        if flags.contains(OFlags::SYNC) {
            Self::Everything
        } else if flags.intersects(OFlags::SYNC) {
            Self::Bytes
        } else {
            Self::Nothing
        }
    }

    /// For calls through an open file.
    pub(super) fn through(handle: FileHandle) -> Self {
        Self::of(flags(handle))
    }
}

pub(super) fn handle(flags: i32) -> FileHandle {
    let flags = OFlags::from_bits_retain(flags.cast_unsigned());
    FileHandle((flags & KEPT).bits().into())
}

pub(super) fn flags(handle: FileHandle) -> OFlags {
    OFlags::from_bits_retain(u32::try_from(handle.0).unwrap_or(0)) & KEPT
}

impl Translator {
    /// Makes a change of a file durable, as far as the caller has asked for that.
    pub(super) fn make_durable(&self, number: InodeNumber, durable: Durable) -> Result<(), Errno> {
        match durable {
            Durable::Nothing => Ok(()),
            Durable::Bytes => self.files.call(|files| files.sync(number, true)),
            Durable::Everything => self.files.call(|files| files.sync(number, false)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_says_what_is_durable_when_a_call_returns() {
        let dsync = OFlags::from_bits_retain(0o10_000);
        for (flags, durable) in [
            (OFlags::RDWR | OFlags::APPEND | OFlags::DIRECT, Durable::Nothing),
            (OFlags::WRONLY | dsync, Durable::Bytes),
            (OFlags::RDWR | OFlags::CREATE | OFlags::SYNC, Durable::Everything),
        ] {
            assert_eq!(Durable::of(flags), durable);
            assert_eq!(Durable::through(handle(flags.bits().cast_signed())), durable);
        }
    }
}
