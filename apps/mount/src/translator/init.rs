//! The capabilities that the kernel and the mount agree on (FUSE_INIT).

use std::time::UNIX_EPOCH;

use fuser::{FileAttr, FileType, INodeNo, InitFlags, KernelConfig};

use crate::options::Cache;

/// The longest read and write.
pub(crate) const REQUEST_LEN_MAX: u32 = 1 << 20;

/// The requests of readahead and of asynchronous reads and writes that are in flight.
const BACKGROUND_MAX: u16 = 64;

/// The capabilities that are used where the kernel has them.
const CAPABILITIES: [InitFlags; 7] = [
    // Shared mappings of files that are otherwise not cached; Linux 6.6.
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    // Lookups and listings of a directory at the same time.
    InitFlags::FUSE_PARALLEL_DIROPS,
    // A listing with attributes, when the program asks for them as well.
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    // Asynchronous reads and writes of one call at the same time.
    InitFlags::FUSE_ASYNC_DIO,
    // The set-user-ID bits are cleared here. The kernel then does not ask for an attribute before each
    // write.
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    InitFlags::FUSE_CACHE_SYMLINKS,
];

pub(super) fn configure(config: &mut KernelConfig, cache: Cache) {
    let has_mappings = config.capabilities().contains(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);
    if cache == Cache::None && !has_mappings {
        tracing::warn!(
            "Linux before 6.6 has no shared mappings of files without a page cache: programs that need them, such \
             as SQLite with journal_mode=WAL, need a mount with --cache read"
        );
    }
    for capability in CAPABILITIES {
        if config.add_capabilities(capability).is_err() {
            tracing::debug!("this kernel has no {capability:?}");
        }
    }
    // Refused values are replaced by the nearest ones.
    let _ = config.set_max_write(REQUEST_LEN_MAX);
    let _ = config.set_max_background(BACKGROUND_MAX);
}

/// The kernel's form of "the name does not exist": an inode number of 0.
pub(super) fn no_entry() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}
