//! The life of a process: it begins with the program or with a fork.
//!
//! The number of the life lies in a page that the kernel zeroes in a child (`MADV_WIPEONFORK`), so no way of
//! making a child is missed.

use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

const PAGE_LEN: usize = 4096;

static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(null_mut());
/// The number of lives so far.
static LIVES: AtomicU64 = AtomicU64::new(0);

/// Maps the page. Until then, and if the kernel cannot, no life is known.
pub(crate) fn begin() {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address that the kernel chooses.
    let page = unsafe { mmap_anonymous(null_mut(), PAGE_LEN, access, MapFlags::PRIVATE) };
    let Ok(page) = page else { return };
    // SAFETY: the page was just mapped, and holds nothing yet.
    if unsafe { madvise(page, PAGE_LEN, Advice::LinuxWipeOnFork) }.is_ok() {
        PAGE.store(page.cast(), Ordering::Release);
    }
}

/// The number of this life; `None` when a child would not be noticed.
pub(crate) fn current() -> Option<u64> {
    let page = NonNull::new(PAGE.load(Ordering::Acquire))?;
    // SAFETY: the page is never unmapped, and holds an atomic number, which may be zero.
    let number = unsafe { page.as_ref() };
    match number.load(Ordering::Acquire) {
        0 => {
            let next = LIVES.fetch_add(1, Ordering::Relaxed) + 1;
            let raced = number.compare_exchange(0, next, Ordering::AcqRel, Ordering::Acquire);
            Some(raced.err().unwrap_or(next))
        }
        life => Some(life),
    }
}
