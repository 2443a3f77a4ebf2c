//! The shared memory: the node creates and seals it, and both sides map it.
//!
//! Invariant: no Rust reference to its bytes is ever made here, only to atomic words, which the
//! other side may change at any time.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use rustix::mm::MapFlags;

use crate::geometry::{
    DATA_LEN_AT, DATA_OFFSET_AT, ENTRIES_AT, ENTRY_LEN, Entry, Geometry, MAGIC, MAGIC_AT, VERSION,
    VERSION_AT,
};
use crate::mapping::{map, sealed_file, unmap};

/// The error of memory that a node sent.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A system call failed.
    #[error("cannot map the memory that the node shares: {0}")]
    Io(#[from] io::Error),
    /// The memory could shrink while it is in use.
    #[error("the memory that the node shares is not sealed against shrinking")]
    NotSealed,
    /// The size or layout is not the requested one.
    #[error("the memory that the node shares does not have the requested size or layout")]
    WrongLayout,
}

/// The mapping, until dropped.
#[derive(Debug)]
pub(crate) struct Memory {
    start: NonNull<u8>,
    geometry: Geometry,
}

// SAFETY: the mapping belongs to this value alone; every access is atomic or a raw copy, and any
// thread may call `munmap` in `drop`, which has exclusive access.
unsafe impl Send for Memory {}
// SAFETY: as above. Copies that overlap in time may tear bytes, to which there are no references.
unsafe impl Sync for Memory {}

impl Memory {
    /// The node's side: creates memory that can neither shrink nor grow, with the descriptor for
    /// the client.
    pub(crate) fn create(geometry: Geometry) -> io::Result<(Self, OwnedFd)> {
        let fd = sealed_file(size(geometry))?;
        let memory = Self::map(&fd, geometry, MapFlags::SHARED)?;
        memory.word(VERSION_AT).store(VERSION.to_le(), Ordering::Relaxed);
        memory.word(ENTRIES_AT).store(geometry.entries().to_le(), Ordering::Relaxed);
        memory.long(DATA_OFFSET_AT).store(long(geometry.data_offset()).to_le(), Ordering::Relaxed);
        memory.long(DATA_LEN_AT).store(long(geometry.data_len()).to_le(), Ordering::Relaxed);
        memory.long(MAGIC_AT).store(MAGIC.to_le(), Ordering::Release);
        Ok((memory, fd))
    }

    /// The client's side: maps the memory that the node sent in answer to a request for `geometry`.
    ///
    /// The mapping populates the pages, so that they are charged to the client, and present when
    /// the node first accesses them.
    pub(crate) fn open(fd: &OwnedFd, geometry: Geometry) -> Result<Self, OpenError> {
        let seals = fcntl_get_seals(fd).map_err(io::Error::from)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(OpenError::NotSealed);
        }
        let len = fstat(fd).map_err(io::Error::from)?.st_size;
        if u64::try_from(len) != Ok(size(geometry)) {
            return Err(OpenError::WrongLayout);
        }
        let memory = Self::map(fd, geometry, MapFlags::SHARED | MapFlags::POPULATE)?;
        let word = |at| u32::from_le(memory.word(at).load(Ordering::Relaxed));
        let read_long = |at| u64::from_le(memory.long(at).load(Ordering::Acquire));
        let is_as_asked = read_long(MAGIC_AT) == MAGIC
            && word(VERSION_AT) == VERSION
            && word(ENTRIES_AT) == geometry.entries()
            && read_long(DATA_OFFSET_AT) == long(geometry.data_offset())
            && read_long(DATA_LEN_AT) == long(geometry.data_len());
        if is_as_asked { Ok(memory) } else { Err(OpenError::WrongLayout) }
    }

    fn map(fd: impl AsFd, geometry: Geometry, flags: MapFlags) -> io::Result<Self> {
        Ok(Self { start: map(fd, geometry.total_len(), flags)?, geometry })
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The 4 bytes at `offset`, a multiple of 4 within the memory.
    #[inline]
    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.geometry.total_len());
        // SAFETY: within the mapping and aligned, as asserted above; the mapping lives as long as
        // `self`, and every access to it here is atomic.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }

    /// The 8 bytes at `offset`, a multiple of 8 within the memory.
    #[inline]
    fn long(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.geometry.total_len());
        // SAFETY: as for `word`.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }

    /// Copies an entry out, once: the caller validates the copy.
    #[inline]
    pub(crate) fn load_entry(&self, offset: usize) -> Entry {
        let mut entry = [0; ENTRY_LEN];
        for (n, bytes) in entry.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *bytes = native_bytes(self.long(offset + 8 * n).load(Ordering::Relaxed));
        }
        entry
    }

    #[inline]
    pub(crate) fn store_entry(&self, offset: usize, entry: &Entry) {
        for (n, bytes) in entry.as_chunks::<8>().0.iter().enumerate() {
            self.long(offset + 8 * n).store(native_long(*bytes), Ordering::Relaxed);
        }
    }

    /// A pointer to this part of the data area; `None` when it is not within the area.
    #[inline]
    pub(crate) fn data(&self, offset: u64, len: usize) -> Option<NonNull<u8>> {
        let offset = usize::try_from(offset).ok()?;
        if offset.checked_add(len)? > self.geometry.data_len() {
            return None;
        }
        // SAFETY: within the mapping, as checked above.
        Some(unsafe { self.start.add(self.geometry.data_offset() + offset) })
    }

    /// [`Self::data`] of a part that was checked before.
    #[inline]
    fn checked_data(&self, offset: u64, len: usize) -> NonNull<u8> {
        self.data(offset, len).expect("the range lies within the data area: it was checked")
    }

    /// Copies bytes out of the data area. Bytes that the other side writes concurrently may be
    /// torn.
    ///
    /// # Panics
    /// When they are not within the area, which is a bug of the caller, as in the other methods.
    pub(crate) fn copy_out(&self, offset: u64, into: &mut [u8]) {
        let from = self.checked_data(offset, into.len());
        // SAFETY: both ranges have this length; `into` is borrowed, and so not a part of the
        // mapping, to which there are never references.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), into.as_mut_ptr(), into.len()) };
    }

    /// Copies bytes into the data area.
    pub(crate) fn copy_in(&self, offset: u64, from: &[u8]) {
        let into = self.checked_data(offset, from.len());
        // SAFETY: as in `copy_out`, with the directions exchanged.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), into.as_ptr(), from.len()) };
    }

    /// Zeroes bytes of the data area.
    #[inline]
    pub(crate) fn zero(&self, offset: u64, len: usize) {
        let into = self.checked_data(offset, len);
        // SAFETY: within the mapping, to which there are no references.
        unsafe { ptr::write_bytes(into.as_ptr(), 0, len) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the whole of this value's own mapping, to which there are no other references.
        unsafe { unmap(self.start, self.geometry.total_len()) };
    }
}

fn size(geometry: Geometry) -> u64 {
    long(geometry.total_len())
}

fn long(len: usize) -> u64 {
    u64::try_from(len).expect("a length fits 64 bits")
}

/// An entry is a string of bytes: its words have no byte order of their own.
#[expect(clippy::host_endian_bytes, reason = "bytes in, the same bytes out")]
fn native_bytes(long: u64) -> [u8; 8] {
    long.to_ne_bytes()
}

#[expect(clippy::host_endian_bytes, reason = "bytes in, the same bytes out")]
fn native_long(bytes: [u8; 8]) -> u64 {
    u64::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate};
    use rustix::io::Errno;

    fn geometry() -> Geometry {
        Geometry::new(8, 65_536).unwrap()
    }

    #[test]
    #[cfg_attr(miri, ignore = "shared memory")]
    fn memory_cannot_be_made_smaller_or_larger_by_whoever_has_its_descriptor() {
        let (memory, fd) = Memory::create(geometry()).unwrap();
        assert_eq!(ftruncate(&fd, 0), Err(Errno::PERM));
        assert_eq!(ftruncate(&fd, 1 << 30), Err(Errno::PERM));
        memory.zero(0, memory.geometry().data_len());
    }

    #[test]
    #[cfg_attr(miri, ignore = "shared memory")]
    fn both_sides_see_the_same_bytes() {
        let (node, fd) = Memory::create(geometry()).unwrap();
        let client = Memory::open(&fd, geometry()).unwrap();
        client.copy_in(40_000, b"flash");
        let mut seen = [0xA5; 5];
        node.copy_out(40_000, &mut seen);
        assert_eq!(seen, *b"flash");
    }

    #[test]
    #[cfg_attr(miri, ignore = "shared memory")]
    fn memory_of_another_size_or_layout_is_refused() {
        let (node, fd) = Memory::create(geometry()).unwrap();
        let larger = Geometry::new(8, 131_072).unwrap();
        assert!(matches!(Memory::open(&fd, larger), Err(OpenError::WrongLayout)));
        node.word(ENTRIES_AT).store(16, Ordering::Relaxed);
        assert!(matches!(Memory::open(&fd, geometry()), Err(OpenError::WrongLayout)));
    }

    #[test]
    #[cfg_attr(miri, ignore = "shared memory")]
    fn memory_that_may_shrink_is_refused() {
        let fd = rustix::fs::memfd_create("t", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&fd, size(geometry())).unwrap();
        assert!(matches!(Memory::open(&fd, geometry()), Err(OpenError::NotSealed)));
    }

    #[test]
    fn only_what_lies_within_the_data_area_has_a_place() {
        let (memory, _fd) = Memory::create(geometry()).unwrap();
        assert!(memory.data(0, 65_536).is_some());
        assert!(memory.data(65_536, 0).is_some());
        for (offset, len) in [(1, 65_536), (65_537, 0), (u64::MAX, 1), (1, usize::MAX)] {
            assert!(memory.data(offset, len).is_none(), "{offset} {len}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "shared memory")]
    fn dropped_memory_is_unmapped() {
        let (memory, _fd) = Memory::create(geometry()).unwrap();
        let start = memory.start.as_ptr().addr();
        let is_mapped = || {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            maps.lines().any(|line| {
                line.contains("nearflash-rings") && line.starts_with(&format!("{start:x}-"))
            })
        };
        assert!(is_mapped());
        drop(memory);
        assert!(!is_mapped());
    }

    #[test]
    fn an_entry_comes_out_as_it_went_in() {
        let (memory, _fd) = Memory::create(geometry()).unwrap();
        let entry = std::array::from_fn(|n| u8::try_from(n).unwrap() ^ 0xA5);
        memory.store_entry(4096, &entry);
        assert_eq!(memory.load_entry(4096), entry);
    }
}
