//! fdatasync(2) on a sealed file, and writes with `O_DSYNC`.
//!
//! A flush of the volume makes all bytes durable that are at the node, and a mount writes through. The size of
//! the file, and the places of its bytes, are the owner's concern, who commits changes of them. The mount says
//! whether they are durable ([`DURABLE_SIZE_IOCTL`]), and that stays so:
//! - A change of a place voids the seal first, and the node refuses the flush.
//! - The kernel knows a new size. Where a byte within the size has no place yet, the mount refuses to say
//!   that the size is durable.
//!
//! Bytes in pages of the kernel may not be at the node, and the kernel alone knows whether it failed to write
//! them. So only a seal without pages is enough: the first page voids it. Errors from before the seal have
//! been reported to a descriptor by the time it has made two calls through the mount.
//!
//! A write with `O_DSYNC` is durable in the places of its bytes when the node has answered. It also needs the
//! size and these places, and nothing else: it does not matter whether the kernel keeps other pages. The mount
//! makes them durable with the first of these writes, which goes through it.
//!
//! If the flush fails, the mount repeats it, and reports the failure: a device that has failed a flush fails
//! the next one, too. The loss of a node ends the link, and then the mount reports which writes are lost.

use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};

use nearflash::direct::DURABLE_SIZE_IOCTL;
use rustix::fs::OFlags;
use rustix::ioctl::{Getter, Opcode, ioctl};

use super::{Connection, Entry, Trouble, key};
use crate::file::Known;
use crate::report::Way;

/// A size, and the descriptor through which a program has synchronised the file.
type Synced = (u64, RawFd);

/// The last sizes at which a file was synchronised, as seen by a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    /// The size when the mount last made the file durable, or was about to do so.
    synced: Option<Synced>,
    /// The size that the mount has reported as durable.
    durable: Option<Synced>,
}

impl Connection {
    /// Makes the bytes of a file durable, if their places and its size are.
    pub(crate) fn sync(&mut self, file: &Known<'_>, flags: OFlags) -> Result<(), Trouble> {
        let key = key(file, flags);
        let Some(Entry::Open(open)) = self.files.get(&key) else { return Err(Trouble::Foreign) };
        let open = *open;
        if !open.is_without_pages {
            return Err(Trouble::Through(Way::Cached));
        }
        if open.size.durable != Some(synced(file)) {
            return Err(Trouble::Through(Way::Unsettled));
        }
        let node = self.nodes[open.node].as_mut().filter(|node| node.is_ours());
        let Some(node) = node else {
            // The program has closed the descriptors.
            self.drop_node(open.node);
            return Err(Trouble::Through(Way::Lost));
        };
        node.flush(open.handle).map_err(|trouble| self.failed(key, open, trouble))
    }

    /// The mount has made a file durable. Asks it for the durable size if the file does not grow all the time.
    pub(crate) fn was_synced(&mut self, file: &Known<'_>, flags: OFlags) {
        let Some(Entry::Open(open)) = self.files.get_mut(&key(file, flags)) else { return };
        if open.is_without_pages {
            open.size.is_durable(file);
        }
    }

    /// Whether the bytes of a file are durable once they are durable in their places (`O_DSYNC`).
    pub(super) fn is_settled(&mut self, file: &Known<'_>, flags: OFlags) -> bool {
        match self.files.get_mut(&key(file, flags)) {
            Some(Entry::Open(open)) => open.size_written.is_durable(file),
            Some(Entry::Refused { .. }) | None => false,
        }
    }
}

impl Size {
    /// Whether the size of the file, and the places of all bytes, are durable. The mount is asked at the second
    /// call for the same size, so that files that grow all the time do not cost a question each time.
    fn is_durable(&mut self, file: &Known<'_>) -> bool {
        let now = synced(file);
        if self.durable == Some(now) {
            return true;
        }
        if self.synced != Some(now) {
            self.synced = Some(now);
            return false;
        }
        self.durable = durable_size(file.fd).filter(|it| *it == file.size).map(|_| now);
        if self.durable.is_none() {
            // It is asked again after two more calls.
            self.synced = None;
        }
        self.durable.is_some()
    }
}

fn synced(file: &Known<'_>) -> Synced {
    (file.size, file.fd.as_raw_fd())
}

/// The size of the file if it, and the places of all bytes, are durable.
fn durable_size(fd: BorrowedFd<'_>) -> Option<u64> {
    // SAFETY: the kernel stores at most the bytes that the command's number names.
    let command = unsafe { Getter::<{ DURABLE_SIZE_IOCTL as Opcode }, [u8; 8]>::new() };
    // SAFETY: as above; any bytes are valid. A mount of an older version refuses.
    unsafe { ioctl(fd, command) }.ok().map(u64::from_le_bytes)
}
