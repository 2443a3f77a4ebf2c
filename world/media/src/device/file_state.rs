//! The file below a device, as it is now: whether it still has the device's length, and whether its file system has
//! room for the blocks that are not allocated yet.
//!
//! Another process can truncate the file at any time. Linux then extends it at the next write behind its end, and
//! the gap reads as zeroes. Invariant: once the file was seen shorter than the device, no write to it succeeds and no
//! byte behind the shortest length is read, whatever length the file gets later.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use nearflash_units::{ByteLen, ByteOffset};
use rustix::fs::{fstat, fstatvfs};

use super::{Device, Kind};

/// The unit of `st_blocks`, whatever the block size of the file system.
const STAT_BLOCK: u64 = 512;

/// The knowledge of all cores about the file.
#[derive(Debug)]
pub(crate) struct FileState {
    /// The shortest length of the file that was seen; no length before.
    shortest: AtomicU64,
    /// The operations that failed because the file system has no room.
    refusals: AtomicU32,
}

/// The room for a device that is a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileRoom {
    /// The number of the file system.
    pub file_system: u64,
    /// The bytes that are free in the file system.
    pub free: ByteLen,
    /// The bytes of the device that have no storage yet.
    pub unallocated: ByteLen,
    /// The number of operations so far that failed for lack of room.
    pub refusals: u32,
}

impl Default for FileState {
    fn default() -> Self {
        Self { shortest: AtomicU64::new(u64::MAX), refusals: AtomicU32::new(0) }
    }
}

impl Device {
    /// Looks at the length of the file. Returns whether the device is whole. A device that is no file always is.
    pub fn look(&self) -> bool {
        if let Kind::Uring(file) = &self.kind
            && !file.is_block()
            && let Ok(stat) = fstat(file.fd())
        {
            self.note_len(u64::try_from(stat.st_size).unwrap_or_default());
        }
        !self.is_truncated()
    }

    fn note_len(&self, len: u64) {
        // The common case writes nothing that cores share.
        if len < self.file.shortest.load(Ordering::Relaxed) && len < self.properties.len.0 {
            self.file.shortest.fetch_min(len, Ordering::SeqCst);
        }
    }

    /// Whether the file was seen shorter than the device.
    #[inline]
    pub fn is_truncated(&self) -> bool {
        self.file.shortest.load(Ordering::Relaxed) != u64::MAX
    }

    /// Whether all bytes of a range were always there.
    #[inline]
    pub fn has(&self, offset: ByteOffset, len: ByteLen) -> bool {
        offset.0.saturating_add(len.0) <= self.file.shortest.load(Ordering::Relaxed)
    }

    /// Looks as [`Self::look`] does, for the control side.
    pub(crate) fn check_whole(&self) -> io::Result<()> {
        match self.look() {
            true => Ok(()),
            false => Err(truncated()),
        }
    }

    /// Records that an operation failed because the file system has no room.
    pub fn note_refusal(&self) {
        self.file.refusals.fetch_add(1, Ordering::Relaxed);
    }

    /// The room for the device, as it is now. `None` for a device that is no file, and without a limit.
    ///
    /// # Errors
    /// When the file system does not tell.
    pub fn file_room(&self) -> Option<io::Result<FileRoom>> {
        match &self.kind {
            Kind::Uring(file) if !file.is_block() => self.room(file.fd()).transpose(),
            _ => None,
        }
    }

    fn room(&self, fd: BorrowedFd<'_>) -> io::Result<Option<FileRoom>> {
        let (stat, system) = (fstat(fd)?, fstatvfs(fd)?);
        let allocated =
            u64::try_from(stat.st_blocks).unwrap_or_default().saturating_mul(STAT_BLOCK);
        let room = FileRoom {
            file_system: stat.st_dev,
            free: ByteLen(system.f_bavail.saturating_mul(system.f_frsize)),
            unallocated: ByteLen(self.properties.len.0.saturating_sub(allocated)),
            refusals: self.file.refusals.load(Ordering::Relaxed),
        };
        // Some file systems in memory have no size.
        Ok((system.f_blocks != 0).then_some(room))
    }
}

/// The error for bytes that the file no longer has.
pub(crate) fn truncated() -> io::Error {
    io::Error::other("its file has been truncated: restore the file from a backup")
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use tempfile::tempdir;
    use uuid::Uuid;

    use super::*;
    use crate::file::Storage;
    use crate::{Claim, DeviceSpec, open};

    const MIB: u64 = 1 << 20;

    fn opened(path: &std::path::Path) -> Device {
        let spec: DeviceSpec = format!("d=file:{},size=16MiB", path.display()).parse().unwrap();
        let claim = Claim { node: Uuid::from_u128(1), known: &[], cluster: None };
        open(&spec, claim).unwrap().take(Uuid::from_u128(2)).unwrap()
    }

    #[test]
    fn a_file_that_was_truncated_stays_so_when_it_is_extended_again() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("d.img");
        let device = opened(&path);
        assert!(device.look() && device.has(ByteOffset(0), ByteLen(16 * MIB)));
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(4 * MIB).unwrap();
        assert!(!device.look());
        file.set_len(16 * MIB).unwrap();
        assert!(!device.look() && device.is_truncated());
        assert!(device.has(ByteOffset(0), ByteLen(4 * MIB)));
        assert!(!device.has(ByteOffset(4 * MIB - 512), ByteLen(1024)));
        let mut block = [1; 4096];
        device.read(ByteOffset(4 * MIB - 4096), &mut block).unwrap();
        let refused = device.read(ByteOffset(8 * MIB), &mut block).unwrap_err();
        assert!(refused.to_string().contains("truncated"), "{refused}");
        let zeroed = device.zero(ByteOffset(MIB), ByteLen(MIB), Storage::Kept, &mut |_| true);
        assert!(zeroed.unwrap_err().to_string().contains("truncated"));
    }

    #[test]
    fn the_room_of_a_sparse_file_is_what_it_has_not_allocated() {
        let folder = tempdir().unwrap();
        let device = opened(&folder.path().join("d.img"));
        let before = device.file_room().unwrap().unwrap();
        assert!(before.unallocated.0 > 14 * MIB && before.free.0 > 0, "{before:?}");
        device.zero(ByteOffset(8 * MIB), ByteLen(MIB), Storage::Kept, &mut |_| true).unwrap();
        device.note_refusal();
        let after = device.file_room().unwrap().unwrap();
        assert!(after.unallocated.0 <= before.unallocated.0 - MIB, "{before:?} {after:?}");
        assert_eq!((after.refusals, after.file_system), (1, before.file_system));
    }
}
