//! A queue pair in the program's own event loop: one descriptor that signals everything, over a
//! socket as well as over shared memory.

use std::ffi::c_int;
use std::os::fd::AsRawFd as _;

use crate::client::{put, shared, unique};
use crate::error::{Failure, code_of};
use crate::queue_pair::NearflashQueuePair;
use crate::watch::Watch;

impl NearflashQueuePair {
    fn watch(&mut self) -> Result<&mut Watch, Failure> {
        if self.watch.is_none() {
            self.watch = Some(Watch::new(&self.pair).map_err(Failure::System)?);
        }
        Ok(self.watch.as_mut().expect("it was made"))
    }

    /// Prepares a sleep. Returns whether there may be a completion already.
    fn arm(&mut self) -> Result<bool, Failure> {
        self.disarm();
        self.watch()?;
        let is_idle = self.pair.doze() && self.done.is_empty();
        self.is_armed = true;
        if !is_idle {
            self.disarm();
            return Ok(true);
        }
        let watch = self.watch.as_mut().expect("it was made");
        watch.watch_room(&self.pair).map_err(Failure::System)?;
        Ok(false)
    }

    /// Ends the sleep.
    pub(crate) fn disarm(&mut self) {
        if std::mem::take(&mut self.is_armed) {
            self.pair.awake();
        }
    }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_queue_pair_fd(
    pair: *mut NearflashQueuePair,
    fd: *mut c_int,
) -> c_int {
    code_of(|| {
        // SAFETY: the header requires a writable place.
        unsafe { put(fd, -1) }?;
        // SAFETY: the header requires a queue pair that no other thread uses.
        let watch = unsafe { unique(pair) }?.watch()?;
        // SAFETY: as before.
        unsafe { put(fd, watch.epoll.as_raw_fd()) }
    })
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_arm(
    pair: *mut NearflashQueuePair,
    is_ready: *mut bool,
) -> c_int {
    code_of(|| {
        // SAFETY: the header requires a writable place. The program polls after an error.
        unsafe { put(is_ready, true) }?;
        // SAFETY: the header requires a queue pair that no other thread uses.
        let has_something = unsafe { unique(pair) }?.arm()?;
        // SAFETY: as before.
        unsafe { put(is_ready, has_something) }
    })
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_has_unsent(pair: *const NearflashQueuePair) -> bool {
    // SAFETY: the header requires a queue pair.
    unsafe { shared(pair) }.is_ok_and(|pair| pair.pair.has_unsent())
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_time_left(pair: *const NearflashQueuePair) -> u64 {
    // SAFETY: the header requires a queue pair.
    let left = unsafe { shared(pair) }.ok().and_then(|pair| pair.pair.patience_left());
    left.map_or(u64::MAX, |left| u64::try_from(left.as_nanos()).unwrap_or(u64::MAX))
}
