//! An allocator that ends the process when more is allocated than any input may need. libFuzzer's
//! own limit counts only memory that was touched, and looks once a second.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The largest target, a shard with its pool and devices, takes a third of this.
const ALLOCATED_MAX: usize = 64 << 20;

#[global_allocator]
static BOUNDED: Bounded = Bounded { allocated: AtomicUsize::new(0) };

struct Bounded {
    allocated: AtomicUsize,
}

impl Bounded {
    fn count(&self, len: usize) {
        let before = self.allocated.fetch_add(len, Ordering::Relaxed);
        if before.saturating_add(len) > ALLOCATED_MAX {
            // No message: making one could allocate. libFuzzer keeps the input; under a debugger,
            // the stack shows the allocation.
            std::process::abort();
        }
    }
}

// SAFETY: every call is passed unchanged to the system's allocator; in addition, only the sum of
// lengths is kept.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.count(layout.size());
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.count(layout.size());
        // SAFETY: as above. Zeroed by the system, so that a large pool costs nothing.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        self.allocated.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        self.count(len);
        self.allocated.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, len) }
    }
}
