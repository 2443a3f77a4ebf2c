//! Reading and writing, and the space of files.

use std::cell::RefCell;
use std::sync::PoisonError;

use fuser::{
    Errno, FileHandle, FopenFlags, LockOwner, OpenFlags, ReplyData, ReplyStatfs, WriteFlags,
};
use nearflash_files_service::{Allocation, AttributeChanges, BLOCK, InodeNumber, NAME_LEN_MAX};
use nearflash_units::{ByteLen, ByteOffset};
use rustix::fs::{FallocateFlags, OFlags};

use super::Translator;
use super::init::REQUEST_LEN_MAX;
use super::opened::Durable;
use crate::attributes::without_privileges;
use crate::options::Cache;

thread_local! {
    /// The bytes of the read that this thread answers.
    static BYTES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Translator {
    pub(super) fn open_flags(&self) -> FopenFlags {
        match self.cache {
            Cache::None => FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES,
            // Pages of an earlier open are valid only if all changes came from this kernel.
            Cache::Read if self.is_shared => FopenFlags::empty(),
            Cache::Read => FopenFlags::FOPEN_KEEP_CACHE,
        }
    }

    pub(super) fn read_contents(
        &self,
        (number, owner): (InodeNumber, Option<LockOwner>),
        offset: u64,
        len: u32,
        reply: ReplyData,
    ) {
        let len = len.min(REQUEST_LEN_MAX) as usize;
        BYTES.with_borrow_mut(|bytes| {
            if bytes.len() < len {
                bytes.resize(len, 0);
            }
            let bytes = &mut bytes[..len];
            let read = self.files.call(|files| {
                // The kernel fills a page: only reads of programs have an owner of locks.
                if owner.is_none() {
                    files.keep_pages(number)?;
                }
                files.read(number, bytes, ByteOffset(offset))
            });
            match read {
                Ok(read) => reply.data(&bytes[..read]),
                Err(error) => reply.error(error),
            }
        });
    }

    pub(super) fn write_contents(
        &self,
        number: InodeNumber,
        offset: u64,
        bytes: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
    ) -> Result<(), Errno> {
        // Pages of a mapping go to their place, also through a descriptor that appends.
        let is_page = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let flags = OFlags::from_bits_retain(flags.0.cast_unsigned());
        self.files.call(|files| match flags.contains(OFlags::APPEND) && !is_page {
            true => files.append(number, bytes).map(|_| ()),
            false => files.write(number, bytes, ByteOffset(offset)),
        })?;
        // The caller has no CAP_FSETID.
        let is_cleared = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let privileged = || self.privileged.read().unwrap_or_else(PoisonError::into_inner);
        if is_cleared && privileged().contains(&number) {
            self.clear_privileges(number)?;
        }
        self.make_durable(number, Durable::of(flags))
    }

    /// Clears the set-user-ID bits, as a write does.
    fn clear_privileges(&self, number: InodeNumber) -> Result<(), Errno> {
        self.files.call(|files| match without_privileges(&files.inode(number)?) {
            Some(mode) => {
                let changes = AttributeChanges { mode: Some(mode), ..Default::default() };
                files.change(number, changes).map(|_| ())
            }
            None => Ok(()),
        })
    }

    pub(super) fn release_inode(&self, number: InodeNumber) -> Result<(), Errno> {
        self.files.call(|files| {
            files.release(number);
            Ok(())
        })
    }

    pub(super) fn allocate(
        &self,
        (number, handle): (InodeNumber, FileHandle),
        (offset, len): (u64, u64),
        mode: i32,
    ) -> Result<(), Errno> {
        let allocation = allocation(mode).ok_or(Errno::EOPNOTSUPP)?;
        let (offset, len) = (ByteOffset(offset), ByteLen(len));
        self.files.call(|files| files.allocate(number, offset, len, allocation))?;
        self.make_durable(number, Durable::through(handle))
    }

    pub(super) fn report_usage(&self, reply: ReplyStatfs) {
        match self.files.call(|files| files.usage()) {
            Ok(usage) => {
                let block = BLOCK.bytes();
                let blocks = |len: ByteLen| len.0 / u64::from(block);
                let free = blocks(usage.free);
                // A new inode takes some of the free space, as a file does.
                let inodes = usage.inodes + free;
                let name_len = u32::try_from(NAME_LEN_MAX).expect("255");
                let total = blocks(usage.total);
                reply.statfs(total, free, free, inodes, free, block, name_len, block);
            }
            Err(error) => reply.error(error),
        }
    }
}

/// The meaning of the flags of fallocate(2).
fn allocation(mode: i32) -> Option<Allocation> {
    let flags = FallocateFlags::from_bits_retain(mode.cast_unsigned());
    let (keep, punch, zero) =
        (FallocateFlags::KEEP_SIZE, FallocateFlags::PUNCH_HOLE, FallocateFlags::ZERO_RANGE);
    [
        (FallocateFlags::empty(), Allocation::Extend),
        (keep, Allocation::KeepSize),
        (keep | punch, Allocation::Zero),
        (keep | zero, Allocation::Zero),
        (zero, Allocation::ZeroAndExtend),
    ]
    .into_iter()
    .find_map(|(known, meaning)| (known == flags).then_some(meaning))
}
