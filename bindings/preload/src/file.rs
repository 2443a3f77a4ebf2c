//! The file of a descriptor, as the kernel knows it.
//!
//! Mounts are told apart by their unique number (`STATX_MNT_ID_UNIQUE`, Linux 6.8), which no later mount
//! gets. With an older kernel, no file is one of ours: a device number may be that of another file system
//! after an unmount.

use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use libc::c_int;
use rustix::fs::{AtFlags, FileType, OFlags, StatxFlags, fcntl_getfl, fstatfs, statx};

/// The number of mounts that are remembered as foreign.
const FOREIGN_COUNT: usize = 64;
/// The magic number of FUSE; statfs(2).
const FUSE: i64 = 0x6573_5546;
/// `STATX_MNT_ID_UNIQUE`.
const MOUNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// Mounts that are not ours, by their number.
static FOREIGN: [AtomicU64; FOREIGN_COUNT] = [const { AtomicU64::new(0) }; FOREIGN_COUNT];

/// A file of a mount.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct FileId {
    pub(crate) mount: u64,
    pub(crate) inode: u64,
}

/// A descriptor of a file that may be one of our mounts'.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'fd> {
    pub(crate) fd: BorrowedFd<'fd>,
    pub(crate) file: FileId,
    /// The size as of now.
    pub(crate) size: u64,
}

/// The descriptor, unless it is of another file system. The program may close it at any time, which has the
/// effect that it has in any program that closes a descriptor in use.
pub(crate) fn known<'fd>(fd: c_int) -> Option<Known<'fd>> {
    if fd < 0 {
        return None;
    }
    // SAFETY: the number is not -1, and a descriptor that is not open gives an error.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let wanted = StatxFlags::INO | StatxFlags::SIZE | StatxFlags::TYPE | MOUNT_ID_UNIQUE;
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = statx(fd, c"", flags, wanted).ok()?;
    let is_unique = StatxFlags::from_bits_retain(found.stx_mask).contains(MOUNT_ID_UNIQUE);
    if !is_unique || is_foreign(found.stx_mnt_id) {
        return None;
    }
    if FileType::from_raw_mode(found.stx_mode.into()) != FileType::RegularFile {
        return None;
    }
    let file = FileId { mount: found.stx_mnt_id, inode: found.stx_ino };
    Some(Known { fd, file, size: found.stx_size })
}

/// The pages of a range that the kernel keeps.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Cached {
    pub(crate) pages: u64,
    /// Those with bytes that the mount does not have yet.
    pub(crate) dirty: u64,
}

/// cachestat(2), Linux 6.5.
const SYS_CACHESTAT: libc::c_long = 451;

/// `struct cachestat`.
#[derive(Default)]
#[repr(C)]
struct CacheStat {
    cache: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

impl Known<'_> {
    /// The pages of a range, or from `offset` on if `len` is 0; `None` when the kernel does not tell, as it does with a file
    /// that the process may not write.
    pub(crate) fn cached(&self, offset: u64, len: u64) -> Option<Cached> {
        let range = [offset, len];
        let mut found = CacheStat::default();
        // SAFETY: both structures have the layout of the kernel, and live until the call returns.
        let done = unsafe {
            libc::syscall(SYS_CACHESTAT, self.fd.as_raw_fd(), range.as_ptr(), &raw mut found, 0_u32)
        };
        let CacheStat { cache, dirty, writeback, .. } = found;
        (done == 0).then_some(Cached { pages: cache, dirty: dirty + writeback })
    }

    /// Whether the kernel is known to keep no page of the file.
    pub(crate) fn has_no_pages(&self) -> bool {
        self.cached(0, 0).is_some_and(|cached| cached.pages == 0)
    }

    /// The flags with which the file is open.
    pub(crate) fn flags(&self) -> Option<OFlags> {
        fcntl_getfl(self.fd).ok()
    }

    /// Whether it is of a file system in user space. The mount is foreign otherwise.
    pub(crate) fn is_fuse(&self) -> bool {
        let is_fuse = fstatfs(self.fd).is_ok_and(|of| of.f_type == FUSE);
        if !is_fuse {
            self.is_of_foreign();
        }
        is_fuse
    }

    /// The mount gives no seals.
    pub(crate) fn is_of_foreign(&self) {
        FOREIGN[place(self.file.mount)].store(self.file.mount, Ordering::Relaxed);
    }
}

fn place(mount: u64) -> usize {
    usize::try_from(mount).unwrap_or(0) % FOREIGN_COUNT
}

fn is_foreign(mount: u64) -> bool {
    FOREIGN[place(mount)].load(Ordering::Relaxed) == mount
}
