//! A device in memory.
//!
//! Invariants: memory that was never written reads as zeroes and is not resident; a chunk of 4 KiB
//! is read and written atomically, so that a reader on another core never sees a torn logical block
//! of up to that size; no Rust reference to the memory ever exists, only copies in and out.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{hint, io, ptr, thread};

use nearflash_space::Name;
use nearflash_units::{ByteLen, ByteOffset};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::error::OpenError;

/// The length of a chunk, which is read and written atomically.
const CHUNK_LEN: usize = 4096;

/// The number of locks: chunk `n` has lock `n % LOCKS`. It is large enough that cores seldom
/// contend by chance, and small enough for the locks to stay in the cache.
const LOCKS: usize = 1024;

/// The maximum number of chunks that [`RamRegion::zero`] locks at once. It divides [`LOCKS`], so
/// that a step that begins on a multiple of it takes its locks in ascending order, and no two
/// threads can deadlock.
const ZERO_STEP_CHUNKS: usize = 256;
const ZERO_STEP_LEN: usize = ZERO_STEP_CHUNKS * CHUNK_LEN;
const _: () = assert!(LOCKS.is_multiple_of(ZERO_STEP_CHUNKS));

/// The length from which zeroing returns pages to the system: for shorter ranges, the system call
/// costs more than writing zeroes.
const RELEASE_LEN_MIN: usize = 64 * 1024;

/// The length of a cache line, and the number of lines of a chunk that [`RamRegion::prefetch`]
/// requests: more lines gain nothing.
#[cfg(target_arch = "x86_64")]
const LINE_LEN: usize = 64;
#[cfg(target_arch = "x86_64")]
const PREFETCHED_LINES: usize = 4;

/// The maximum number of bytes that are scanned for the length of a run.
const SCAN_LEN_MAX: usize = 1 << 20;

/// The number of attempts to take a lock before the thread yields the processor.
const SPINS_MAX: u32 = 1000;

/// Memory, reserved as a whole; only written pages are resident.
#[derive(Debug)]
pub struct RamRegion {
    start: NonNull<u8>,
    len: usize,
    page_len: usize,
    locks: Box<[AtomicBool]>,
}

// SAFETY: the memory belongs to the region alone, and any thread may call `munmap` in `drop`, which
// has exclusive access.
unsafe impl Send for RamRegion {}
// SAFETY: every access holds the locks of the chunks it touches, so that no two accesses to a chunk
// overlap in time.
unsafe impl Sync for RamRegion {}

impl RamRegion {
    /// Reserves `len` bytes, all zero.
    ///
    /// # Errors
    /// When the system has no address space for it, or `len` is zero.
    pub fn new(len: ByteLen) -> io::Result<Self> {
        let len = usize::try_from(len.0).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: a new mapping at an address of the kernel's choice aliases nothing.
        let start = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let locks = (0..LOCKS).map(|_| AtomicBool::new(false)).collect();
        Ok(Self { start, len, page_len: rustix::param::page_size(), locks })
    }

    /// Reserves the memory of a device.
    pub(crate) fn reserve(name: &Name, size: ByteLen) -> Result<Self, OpenError> {
        Self::new(size).map_err(|source| OpenError::Memory { name: name.clone(), size, source })
    }

    /// The length of the region.
    pub fn len(&self) -> ByteLen {
        ByteLen::from_usize(self.len)
    }

    /// Always `false`: a mapping has at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Prefetches the first bytes from `offset` on into the cache; the processor fetches the rest
    /// by itself once they are read. This saves a quarter of the time of 4 KiB copies from a region
    /// larger than the cache (`docs/performance.md`).
    #[inline]
    pub fn prefetch(&self, offset: ByteOffset) {
        #[cfg(target_arch = "x86_64")]
        if let Ok(start) = usize::try_from(offset.0)
            && start < self.len
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            for line in 0..PREFETCHED_LINES {
                // SAFETY: a prefetch is a hint that never faults, for any address.
                unsafe {
                    let line = self.start.as_ptr().wrapping_add(start + line * LINE_LEN);
                    _mm_prefetch(line.cast(), _MM_HINT_T0);
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = offset;
    }

    /// Copies bytes out of the region.
    ///
    /// # Panics
    /// When the range is not within the region, which the layout of the volumes rules out.
    pub fn read(&self, offset: ByteOffset, into: &mut [u8]) {
        let len = ByteLen::of(into);
        // SAFETY: `into` is exclusively borrowed, and lies outside the region, to which there are
        // no references.
        unsafe { self.read_to(offset, NonNull::from(into).cast(), len) };
    }

    /// Copies bytes out to memory that others may write to concurrently, such as a client's.
    ///
    /// # Panics
    /// When the range is not within the region.
    ///
    /// # Safety
    /// `len` bytes from `into` on are mapped for writing and lie outside the region, and there is
    /// no reference to them.
    pub unsafe fn read_to(&self, offset: ByteOffset, into: NonNull<u8>, len: ByteLen) {
        let range = self.range(offset, len.to_usize());
        let start = range.start;
        for part in chunks(range) {
            let _lock = self.lock_chunk_of(&part);
            // SAFETY: `range` checked that the part lies in the mapping, and the caller promised as
            // much memory outside it; the lock excludes writers of this chunk.
            unsafe {
                let to = into.as_ptr().add(part.start - start);
                ptr::copy_nonoverlapping(self.at(part.start), to, part.len());
            }
        }
    }

    /// Copies bytes into the region.
    ///
    /// # Panics
    /// When the range is not within the region.
    pub fn write(&self, offset: ByteOffset, from: &[u8]) {
        // SAFETY: `from` is borrowed, and lies outside the region, to which there are no
        // references; it is only read.
        unsafe { self.write_from(offset, NonNull::from(from).cast(), ByteLen::of(from)) };
    }

    /// Copies bytes in from memory that others may write to concurrently, such as a client's.
    ///
    /// # Panics
    /// When the range is not within the region.
    ///
    /// # Safety
    /// `len` bytes from `from` on are mapped for reading and lie outside the region.
    pub unsafe fn write_from(&self, offset: ByteOffset, from: NonNull<u8>, len: ByteLen) {
        let range = self.range(offset, len.to_usize());
        let start = range.start;
        for part in chunks(range) {
            let _lock = self.lock_chunk_of(&part);
            // SAFETY: as in `read_to`, with the directions exchanged; the lock excludes every other
            // reader and writer of this chunk.
            unsafe {
                let from = from.as_ptr().add(part.start - start);
                ptr::copy_nonoverlapping(from, self.at(part.start), part.len());
            }
        }
    }

    /// Zeroes a range, and returns whole pages of it to the system where that is cheaper than
    /// writing to them.
    ///
    /// # Panics
    /// When the range is not within the region.
    pub fn zero(&self, offset: ByteOffset, len: ByteLen) {
        let range = self.range(offset, len.to_usize());
        for step in steps(range, ZERO_STEP_LEN) {
            let _locks = self.lock(step.start / CHUNK_LEN..step.end.div_ceil(CHUNK_LEN));
            self.zero_locked(step);
        }
    }

    /// Whether a range begins with zeroes, and the length of that run in whole units of `unit_len`
    /// bytes. Released memory, memory that was never written, and written zeroes are all the same.
    /// At most `SCAN_LEN_MAX` bytes are scanned.
    ///
    /// # Panics
    /// When the range is not within the region.
    pub fn run(&self, offset: ByteOffset, len: ByteLen, unit_len: usize) -> (bool, ByteLen) {
        let range = self.range(offset, len.to_usize().min(SCAN_LEN_MAX));
        let start = range.start;
        let mut bytes = [0; CHUNK_LEN];
        let mut is_zero_run = None;
        for part in chunks(range.clone()) {
            let bytes = &mut bytes[..part.len()];
            self.read(ByteOffset(ByteLen::from_usize(part.start).0), bytes);
            for (index, unit) in bytes.chunks(unit_len).enumerate() {
                let is_zero = unit.iter().all(|byte| *byte == 0);
                if *is_zero_run.get_or_insert(is_zero) != is_zero {
                    let run = part.start + index * unit_len - start;
                    return (!is_zero, ByteLen::from_usize(run));
                }
            }
        }
        (is_zero_run.unwrap_or(true), ByteLen::from_usize(range.len()))
    }

    /// Zeroes a range. The caller holds the locks of all of its chunks.
    fn zero_locked(&self, range: Range<usize>) {
        let whole_start = range.start.next_multiple_of(self.page_len);
        let whole_end = range.end / self.page_len * self.page_len;
        if whole_end.saturating_sub(whole_start) < RELEASE_LEN_MIN
            || !self.release(whole_start..whole_end)
        {
            // SAFETY: the range lies in the mapping, and the caller holds its locks.
            unsafe { ptr::write_bytes(self.at(range.start), 0, range.len()) };
            return;
        }
        // SAFETY: both ends lie in the range, which lies in the mapping; locks as above.
        unsafe {
            ptr::write_bytes(self.at(range.start), 0, whole_start - range.start);
            ptr::write_bytes(self.at(whole_end), 0, range.end - whole_end);
        }
    }

    /// Returns pages to the system, after which they read as zeroes. Returns whether that
    /// succeeded.
    fn release(&self, pages: Range<usize>) -> bool {
        // SAFETY: the pages are whole pages of this mapping, to which there are no references; the
        // caller holds the locks. For private anonymous memory, this advice means zeroes on the
        // next access.
        unsafe { madvise(self.at(pages.start).cast(), pages.len(), Advice::LinuxDontNeed) }.is_ok()
    }

    fn range(&self, offset: ByteOffset, len: usize) -> Range<usize> {
        let start = usize::try_from(offset.0).ok().filter(|start| *start <= self.len);
        let range = start.and_then(|start| Some(start..start.checked_add(len)?));
        let range = range.filter(|range| range.end <= self.len);
        range.expect("the range lies within the device: its layout was checked")
    }

    /// A pointer to `offset`, which is at most the region's length.
    fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset <= self.len);
        // SAFETY: the caller passes an offset within the mapping or one past its end.
        unsafe { self.start.as_ptr().add(offset) }
    }

    fn lock_chunk_of(&self, part: &Range<usize>) -> ChunkLocks<'_> {
        let chunk = part.start / CHUNK_LEN;
        self.lock(chunk..chunk + 1)
    }

    /// Locks these chunks in order. They are a single chunk, or those of one step of
    /// [`Self::zero`].
    fn lock(&self, chunks: Range<usize>) -> ChunkLocks<'_> {
        for chunk in chunks.clone() {
            let lock = self.lock_of(chunk);
            let mut spins = 0;
            while lock
                .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
            {
                spins += 1;
                if spins < SPINS_MAX { hint::spin_loop() } else { thread::yield_now() }
            }
        }
        ChunkLocks { region: self, chunks }
    }

    fn lock_of(&self, chunk: usize) -> &AtomicBool {
        &self.locks[chunk % LOCKS]
    }
}

impl Drop for RamRegion {
    fn drop(&mut self) {
        // SAFETY: the whole of this value's own mapping, to which there are no other references. A
        // failure would leave it mapped, which is harmless.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Locked chunks, until dropped.
struct ChunkLocks<'a> {
    region: &'a RamRegion,
    chunks: Range<usize>,
}

impl Drop for ChunkLocks<'_> {
    fn drop(&mut self) {
        for chunk in self.chunks.clone() {
            self.region.lock_of(chunk).store(false, Ordering::Release);
        }
    }
}

fn chunks(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    steps(range, CHUNK_LEN)
}

/// Cuts a range at every multiple of `step_len`.
fn steps(range: Range<usize>, step_len: usize) -> impl Iterator<Item = Range<usize>> {
    let mut start = range.start;
    std::iter::from_fn(move || {
        let from = start;
        start = (from / step_len + 1).saturating_mul(step_len).min(range.end);
        (from < range.end).then_some(from..start)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;

    #[test]
    fn memory_never_written_reads_as_zeroes() {
        let region = RamRegion::new(ByteLen(1 << 20)).unwrap();
        let mut bytes = [0xA5; 5000];
        region.read(ByteOffset(4000), &mut bytes);
        assert!(bytes.iter().all(|b| *b == 0));
    }

    #[test]
    fn a_region_of_no_length_is_an_error() {
        assert!(RamRegion::new(ByteLen(0)).is_err());
    }

    #[test]
    #[should_panic(expected = "within the device")]
    fn a_range_past_the_end_is_caught() {
        let region = RamRegion::new(ByteLen(8192)).unwrap();
        region.write(ByteOffset(8000), &[1; 200]);
    }

    #[test]
    fn no_reader_sees_half_a_block() {
        let region = Arc::new(RamRegion::new(ByteLen(1 << 20)).unwrap());
        let writer = {
            let region = Arc::clone(&region);
            thread::spawn(move || {
                for round in 0..20_000u32 {
                    let fill = u8::try_from(round % 251).unwrap();
                    region.write(ByteOffset(8192), &[fill; CHUNK_LEN]);
                    if round % 64 == 0 {
                        region.zero(ByteOffset(0), ByteLen(256 * 1024));
                    }
                }
            })
        };
        let mut seen = [0; CHUNK_LEN];
        while !writer.is_finished() {
            region.read(ByteOffset(8192), &mut seen);
            assert!(seen.iter().all(|b| *b == seen[0]), "torn");
        }
        writer.join().unwrap();
    }

    #[test]
    fn runs_of_zeroes_and_of_bytes_end_where_the_other_begins_or_after_as_much_as_is_looked_at() {
        let region = RamRegion::new(ByteLen(4 << 20)).unwrap();
        region.write(ByteOffset(5 * 512), &[1; 700]);
        region.write(ByteOffset(2 << 20), &[7; 2 << 20]);
        let run = |offset, len| region.run(ByteOffset(offset), ByteLen(len), 512);
        assert_eq!(run(0, 1 << 20), (true, ByteLen(5 * 512)));
        assert_eq!(run(0, 1024), (true, ByteLen(1024)));
        assert_eq!(run(5 * 512, 1 << 20), (false, ByteLen(1024)));
        assert_eq!(run(2 << 20, 2 << 20), (false, ByteLen(1 << 20)));
        region.zero(ByteOffset(5 * 512), ByteLen(512));
        assert_eq!(run(0, 1 << 20), (true, ByteLen(6 * 512)));
    }

    proptest! {
        /// For any sequence of writes, zeroing and reads, memory behaves as a plain array.
        #[test]
        fn a_region_equals_an_array(
            steps in prop::collection::vec((0u8..3, 0usize..300_000, 0usize..200_000, any::<u8>()), 1..40)
        ) {
            const LEN: usize = 400_000;
            let region = RamRegion::new(ByteLen::from_usize(LEN)).unwrap();
            let mut model = vec![0u8; LEN];
            for (what, start, len, fill) in steps {
                let end = (start + len).min(LEN);
                let offset = ByteOffset(ByteLen::from_usize(start).0);
                match what {
                    0 => {
                        region.write(offset, &vec![fill; end - start]);
                        model[start..end].fill(fill);
                    }
                    1 => {
                        region.zero(offset, ByteLen::from_usize(end - start));
                        model[start..end].fill(0);
                    }
                    _ => {
                        let mut seen = vec![0xA5; end - start];
                        region.read(offset, &mut seen);
                        prop_assert_eq!(&seen[..], &model[start..end]);
                    }
                }
            }
        }
    }
}
