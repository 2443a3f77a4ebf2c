//! The functions that are interposed, as the program would have called them without this library.

use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{c_int, c_void, iovec, off64_t, size_t, ssize_t};

/// A function of the next library, once it was looked up.
pub(crate) struct Real {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Real {
    const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(null_mut()) }
    }

    /// The address; null when there is no such function.
    fn address(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if !found.is_null() {
            return found;
        }
        // SAFETY: the name is a C string, and this library is loaded at the start of the program.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

type Transfer = unsafe extern "C" fn(c_int, *mut c_void, size_t, off64_t) -> ssize_t;
type Vectored = unsafe extern "C" fn(c_int, *const iovec, c_int, off64_t) -> ssize_t;
type Sync = unsafe extern "C" fn(c_int) -> c_int;
type Flagged = unsafe extern "C" fn(c_int, *const iovec, c_int, off64_t, c_int) -> ssize_t;

macro_rules! reals {
    ($($constant:ident $name:literal: $kind:ident,)*) => {
        $(pub(crate) static $constant: Real = Real::new($name);)*

        /// Looks all of them up, before threads and signal handlers exist.
        pub(crate) fn begin() {
            $($constant.address();)*
        }
    };
}

reals! {
    PREAD c"pread64": Transfer,
    PWRITE c"pwrite64": Transfer,
    PREADV c"preadv64": Vectored,
    PWRITEV c"pwritev64": Vectored,
    PREADV2 c"preadv64v2": Flagged,
    PWRITEV2 c"pwritev64v2": Flagged,
    FDATASYNC c"fdatasync": Sync,
}

/// fdatasync(2).
pub(crate) fn fdatasync(fd: c_int) -> c_int {
    let address = FDATASYNC.address();
    if address.is_null() {
        crate::errno::set(libc::ENOSYS);
        return -1;
    }
    // SAFETY: the C library's function of this name has this type.
    let function = unsafe { std::mem::transmute::<*mut c_void, Sync>(address) };
    // SAFETY: a descriptor that is not open gives an error.
    unsafe { function(fd) }
}

fn unknown() -> ssize_t {
    crate::errno::set(libc::ENOSYS);
    -1
}

/// pread64(3) or pwrite64(3).
///
/// # Safety
/// As the function.
pub(crate) unsafe fn transfer(
    real: &Real,
    fd: c_int,
    bytes: *mut c_void,
    len: size_t,
    offset: off64_t,
) -> ssize_t {
    let address = real.address();
    if address.is_null() {
        return unknown();
    }
    // SAFETY: the C library's functions of these names have this type.
    let function = unsafe { std::mem::transmute::<*mut c_void, Transfer>(address) };
    // SAFETY: the caller's arguments.
    unsafe { function(fd, bytes, len, offset) }
}

/// preadv64(3) or pwritev64(3).
///
/// # Safety
/// As the function.
pub(crate) unsafe fn vectored(
    real: &Real,
    fd: c_int,
    (parts, count): (*const iovec, c_int),
    offset: off64_t,
) -> ssize_t {
    let address = real.address();
    if address.is_null() {
        return unknown();
    }
    // SAFETY: as in `transfer`.
    let function = unsafe { std::mem::transmute::<*mut c_void, Vectored>(address) };
    // SAFETY: the caller's arguments.
    unsafe { function(fd, parts, count, offset) }
}

/// preadv64v2(3) or pwritev64v2(3).
///
/// # Safety
/// As the function.
pub(crate) unsafe fn flagged(
    real: &Real,
    fd: c_int,
    (parts, count): (*const iovec, c_int),
    offset: off64_t,
    flags: c_int,
) -> ssize_t {
    let address = real.address();
    if address.is_null() {
        return unknown();
    }
    // SAFETY: as in `transfer`.
    let function = unsafe { std::mem::transmute::<*mut c_void, Flagged>(address) };
    // SAFETY: the caller's arguments.
    unsafe { function(fd, parts, count, offset, flags) }
}
