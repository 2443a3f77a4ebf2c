//! A queue pair in the program's own event loop: one descriptor that signals everything, over a
//! socket as well as over shared memory.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use nearflash::QueuePair;
use rustix::event::epoll;

use crate::client::{put, shared, unique};
use crate::error::{Failure, code_of};
use crate::queue_pair::NearflashQueuePair;

/// An epoll instance that watches the socket and the bell of a queue pair. It stays the same over
/// reconnects; the system drops the descriptors of a lost connection from it when they are closed.
pub(crate) struct Watch {
    epoll: OwnedFd,
    is_writing: bool,
}

impl Watch {
    fn new(pair: &QueuePair) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut watch = Self { epoll, is_writing: false };
        watch.renew(pair)?;
        Ok(watch)
    }

    /// Watches the descriptors of a new connection.
    pub(crate) fn renew(&mut self, pair: &QueuePair) -> io::Result<()> {
        let data = epoll::EventData::new_u64(0);
        self.is_writing = false;
        epoll::add(&self.epoll, pair.socket(), data, epoll::EventFlags::IN)?;
        if let Some(bell) = pair.bell() {
            epoll::add(&self.epoll, bell, data, epoll::EventFlags::IN)?;
        }
        Ok(())
    }

    /// Also watches for room in the socket, as long as there is data that it has not accepted.
    fn watch_room(&mut self, pair: &QueuePair) -> io::Result<()> {
        let is_writing = pair.has_unsent();
        if is_writing != self.is_writing {
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, is_writing);
            epoll::modify(&self.epoll, pair.socket(), epoll::EventData::new_u64(0), flags)?;
            self.is_writing = is_writing;
        }
        Ok(())
    }
}

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
