//! A client's data area, allocated in slices.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use crate::geometry::PAGE_LEN;
use crate::memory::Memory;

/// The data area of one client's end. Only this value allocates slices: once it is dropped, memory
/// that a node may still write to is never allocated again.
#[derive(Debug)]
pub struct Area {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    memory: Arc<Memory>,
    free: Mutex<FreeList>,
}

/// The free runs, by offset; none is empty, and no two touch.
#[derive(Debug)]
struct FreeList(Vec<Run>);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Run {
    start: usize,
    len: usize,
}

/// A part of the data area that the holder owns exclusively: page-aligned, and returned to the area
/// when dropped.
///
/// The node reads and writes slices that were given to [`ClientEnd::push`](crate::ClientEnd::push),
/// from then until its answer, and no other bytes: the client trusts the node with this, as it does
/// with the data itself. The end owns a slice in flight, so no other code holds it.
pub struct Slice {
    shared: Arc<Shared>,
    start: NonNull<u8>,
    run: Run,
    len: usize,
}

// SAFETY: the slice owns its bytes exclusively, and the mapping lives as long as `shared`.
unsafe impl Send for Slice {}
// SAFETY: a shared slice is only read.
unsafe impl Sync for Slice {}

impl Area {
    pub(crate) fn new(memory: Arc<Memory>) -> Self {
        let whole = Run { start: 0, len: memory.geometry().data_len() };
        Self { shared: Arc::new(Shared { memory, free: Mutex::new(FreeList(vec![whole])) }) }
    }

    /// Allocates a slice of `len` bytes; `None` when there is no free run of that length. Its
    /// contents are unspecified.
    pub fn take(&mut self, len: usize) -> Option<Slice> {
        let wanted = len.max(1).checked_next_multiple_of(PAGE_LEN)?;
        let run = self.shared.free().take(wanted)?;
        let start = self.shared.memory.data(offset(run.start), run.len);
        let start = start.expect("free runs lie within the data area");
        Some(Slice { shared: Arc::clone(&self.shared), start, run, len })
    }
}

impl Shared {
    fn free(&self) -> std::sync::MutexGuard<'_, FreeList> {
        // No panic leaves the list half changed.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FreeList {
    /// Allocates the front of the first run that is long enough.
    fn take(&mut self, len: usize) -> Option<Run> {
        let at = self.0.iter().position(|run| run.len >= len)?;
        let run = &mut self.0[at];
        let taken = Run { start: run.start, len };
        run.start += len;
        run.len -= len;
        if run.len == 0 {
            self.0.remove(at);
        }
        Some(taken)
    }

    fn give_back(&mut self, run: Run) {
        let at = self.0.partition_point(|free| free.start < run.start);
        self.0.insert(at, run);
        self.join(at);
        if at > 0 {
            self.join(at - 1);
        }
    }

    /// Joins the run at `at` and the next one, if they touch.
    fn join(&mut self, at: usize) {
        let Some(&next) = self.0.get(at + 1) else { return };
        if self.0[at].start + self.0[at].len == next.start {
            self.0[at].len += next.len;
            self.0.remove(at + 1);
        }
    }
}

impl Slice {
    /// The slice's offset in the data area.
    #[inline]
    pub fn offset(&self) -> u32 {
        u32::try_from(self.run.start).expect("a data area is at most DATA_LEN_MAX")
    }

    #[inline]
    pub(crate) fn lies_in(&self, memory: &Arc<Memory>) -> bool {
        Arc::ptr_eq(&self.shared.memory, memory)
    }

    /// Whether the slice is a part of this area.
    #[inline]
    pub fn is_of(&self, area: &Area) -> bool {
        Arc::ptr_eq(&self.shared, &area.shared)
    }

    /// The largest length of the slice.
    pub fn capacity(&self) -> usize {
        self.run.len
    }

    /// Sets the slice's length, within its capacity.
    ///
    /// # Panics
    /// When `len` is beyond [`Self::capacity`].
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.run.len, "a slice of {} bytes cannot be made {len} long", self.run.len);
        self.len = len;
    }

    /// Drops the slice without returning its memory: the node may write to it at any time from now
    /// on.
    pub(crate) fn abandon(mut self) {
        self.run.len = 0;
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        if self.run.len > 0 {
            self.shared.free().give_back(self.run);
        }
    }
}

impl Deref for Slice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes from `start` are mapped, initialized (shared memory begins as
        // zeroes), and in this process exclusively owned by this slice. The node accesses only
        // slices in flight, which the end holds and does not dereference.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Slice {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`; `self` is exclusively borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

/// Only the location: the contents are the application's data.
impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slice").field("run", &self.run).finish_non_exhaustive()
    }
}

fn offset(start: usize) -> u64 {
    u64::try_from(start).expect("a data area is at most DATA_LEN_MAX")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Geometry;
    use proptest::prelude::*;

    fn area(pages: u64) -> Area {
        let (memory, _fd) = Memory::create(Geometry::new(1, pages * 4096).unwrap()).unwrap();
        Area::new(Arc::new(memory))
    }

    #[test]
    fn a_slice_outlives_its_area() {
        let mut area = area(2);
        let mut slice = area.take(5).unwrap();
        drop(area);
        slice.copy_from_slice(b"flash");
        assert_eq!(*slice, *b"flash");
        assert_eq!(slice.as_ptr().align_offset(PAGE_LEN), 0);
    }

    #[test]
    fn an_abandoned_slice_is_never_given_out_again() {
        let mut area = area(2);
        area.take(4096).unwrap().abandon();
        assert!(area.take(4096).is_some());
        let _held = area.take(4096).unwrap();
        assert!(area.take(1).is_none());
    }

    #[test]
    fn a_length_beyond_all_memory_is_refused() {
        assert!(area(2).take(usize::MAX).is_none());
    }

    proptest! {
        /// Slices never overlap, and once all are dropped the area is one run again.
        #[test]
        fn slices_never_overlap_and_all_memory_returns(
            steps in prop::collection::vec((any::<bool>(), 1usize..20_000, any::<prop::sample::Index>()), 1..100)
        ) {
            let mut area = area(16);
            let mut held: Vec<Slice> = Vec::new();
            for (takes, len, which) in steps {
                if takes {
                    let Some(slice) = area.take(len) else { continue };
                    prop_assert_eq!(slice.len(), len);
                    for other in &held {
                        let (a, b) = (slice.run, other.run);
                        prop_assert!(a.start + a.len <= b.start || b.start + b.len <= a.start);
                    }
                    held.push(slice);
                } else if !held.is_empty() {
                    held.swap_remove(which.index(held.len()));
                }
            }
            held.clear();
            prop_assert!(area.take(16 * 4096).is_some());
        }
    }
}
