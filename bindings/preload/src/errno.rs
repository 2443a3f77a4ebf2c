//! The error number of C, and the state of cancellation, of this thread.

use libc::c_int;

/// `PTHREAD_CANCEL_DISABLE` of glibc and musl.
const CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

pub(crate) fn set(errno: c_int) {
    // SAFETY: the C library returns the address of this thread's errno.
    unsafe { *libc::__errno_location() = errno };
}

/// Keeps errno as it was, and the thread from being cancelled, until dropped: a cancelled thread would not
/// unwind through Rust.
#[derive(Debug)]
pub(crate) struct Kept {
    errno: c_int,
    cancel_state: c_int,
}

impl Kept {
    pub(crate) fn new() -> Self {
        let mut cancel_state = 0;
        // SAFETY: as in `set`; the other function writes the former state to a variable of ours.
        let errno = unsafe {
            pthread_setcancelstate(CANCEL_DISABLE, &raw mut cancel_state);
            *libc::__errno_location()
        };
        Self { errno, cancel_state }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let mut ours = 0;
        // SAFETY: the state is one that the function has returned.
        unsafe { pthread_setcancelstate(self.cancel_state, &raw mut ours) };
        set(self.errno);
    }
}
