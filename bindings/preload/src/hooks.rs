//! The functions of the C library that this library replaces.
//!
//! Programs call `pread` with 64-bit offsets as `pread64`, and both are here. Functions without an offset
//! are not: a position may be shared with other processes, and cannot be used and advanced at once.

use std::panic::catch_unwind;

use libc::{c_int, c_void, iovec, off64_t, size_t, ssize_t};

use crate::transfer::transfer;
use crate::work::{Memory, Work};
use crate::{life, real, report, syncing};

/// The most parts of a vectored call; IOV_MAX.
const PARTS_MAX: c_int = 1024;

/// Called before the program's own code.
extern "C" fn begin() {
    real::begin();
    life::begin();
    report::begin();
}

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

/// The result of a call that the node has carried out.
fn outcome(work: Work<'_>) -> Option<ssize_t> {
    // A bug here must not end the program. Nothing of the work is used afterwards.
    let done = catch_unwind(std::panic::AssertUnwindSafe(|| transfer(work)));
    match done {
        Ok(None) => None,
        Ok(Some(Ok(len))) => ssize_t::try_from(len).ok(),
        Ok(Some(Err(errno))) => {
            crate::errno::set(errno);
            Some(-1)
        }
        Err(_) if work.is_write => {
            crate::errno::set(libc::EIO);
            Some(-1)
        }
        Err(_) => None,
    }
}

/// The work of a call with one part.
///
/// # Safety
/// `bytes` is valid for `len` bytes, as the C function requires.
unsafe fn single(
    fd: c_int,
    bytes: *mut c_void,
    len: size_t,
    offset: off64_t,
    is_write: bool,
) -> Option<ssize_t> {
    let offset = u64::try_from(offset).ok()?;
    let part = [iovec { iov_base: bytes, iov_len: len }];
    // SAFETY: the caller's promise.
    let memory = unsafe { Memory::new(&part) }?;
    outcome(Work { fd, memory, offset, is_write })
}

/// The work of a vectored call.
///
/// # Safety
/// `parts` are `count` valid parts, as the C function requires.
unsafe fn several(
    fd: c_int,
    (parts, count): (*const iovec, c_int),
    offset: off64_t,
    is_write: bool,
) -> Option<ssize_t> {
    let offset = u64::try_from(offset).ok()?;
    if !(1..=PARTS_MAX).contains(&count) || parts.is_null() {
        return None;
    }
    let count = usize::try_from(count).ok()?;
    // SAFETY: the caller's promise.
    let parts = unsafe { std::slice::from_raw_parts(parts, count) };
    // SAFETY: the caller's promise.
    let memory = unsafe { Memory::new(parts) }?;
    outcome(Work { fd, memory, offset, is_write })
}

macro_rules! single {
    ($($name:ident $real:ident $is_write:literal,)*) => {$(
        /// # Safety
        /// As the function of the C library.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            fd: c_int,
            bytes: *mut c_void,
            len: size_t,
            offset: off64_t,
        ) -> ssize_t {
            // SAFETY: the caller's arguments.
            unsafe {
                single(fd, bytes, len, offset, $is_write)
                    .unwrap_or_else(|| real::transfer(&real::$real, fd, bytes, len, offset))
            }
        }
    )*};
}

macro_rules! vectored {
    ($($name:ident $real:ident $is_write:literal,)*) => {$(
        /// # Safety
        /// As the function of the C library.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            fd: c_int,
            parts: *const iovec,
            count: c_int,
            offset: off64_t,
        ) -> ssize_t {
            // SAFETY: the caller's arguments.
            unsafe {
                several(fd, (parts, count), offset, $is_write)
                    .unwrap_or_else(|| real::vectored(&real::$real, fd, (parts, count), offset))
            }
        }
    )*};
}

macro_rules! flagged {
    ($($name:ident $real:ident $is_write:literal,)*) => {$(
        /// # Safety
        /// As the function of the C library.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            fd: c_int,
            parts: *const iovec,
            count: c_int,
            offset: off64_t,
            flags: c_int,
        ) -> ssize_t {
            // Flags change the meaning of a call, so they are left to the kernel.
            let done = match flags {
                // SAFETY: the caller's arguments.
                0 => unsafe { several(fd, (parts, count), offset, $is_write) },
                _ => None,
            };
            // SAFETY: the caller's arguments.
            done.unwrap_or_else(|| unsafe {
                real::flagged(&real::$real, fd, (parts, count), offset, flags)
            })
        }
    )*};
}

/// # Safety
/// As the function of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    // A bug here must not end the program, and the real function does all that is needed.
    if catch_unwind(|| syncing::sync(fd)).unwrap_or(false) {
        return 0;
    }
    let done = real::fdatasync(fd);
    if done == 0 {
        let _ = catch_unwind(|| syncing::was_synced(fd));
    }
    done
}

single! {
    pread PREAD false,
    pread64 PREAD false,
    pwrite PWRITE true,
    pwrite64 PWRITE true,
}

/// As `pread`, for programs that are compiled with checks of their buffers.
macro_rules! checked {
    ($($name:ident)*) => {$(
        /// # Safety
        /// As the function of the C library.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            fd: c_int,
            bytes: *mut c_void,
            len: size_t,
            offset: off64_t,
            len_max: size_t,
        ) -> ssize_t {
            if len > len_max {
                // SAFETY: the function ends the program.
                unsafe { libc::abort() };
            }
            // SAFETY: the caller's arguments.
            unsafe { pread(fd, bytes, len, offset) }
        }
    )*};
}

checked! { __pread_chk __pread64_chk }

vectored! {
    preadv PREADV false,
    preadv64 PREADV false,
    pwritev PWRITEV true,
    pwritev64 PWRITEV true,
}

flagged! {
    preadv2 PREADV2 false,
    preadv64v2 PREADV2 false,
    pwritev2 PWRITEV2 true,
    pwritev64v2 PWRITEV2 true,
}
