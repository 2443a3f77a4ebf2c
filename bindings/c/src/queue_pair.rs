//! Queue pairs: open, poll and wait.

use std::collections::VecDeque;
use std::ffi::{CString, c_char, c_int};
use std::time::{Duration, Instant};

use nearflash::{Completion, QueuePair};

use crate::buffer::NearflashBuffer;
use crate::client::{NearflashClient, free, open, put, shared, text, unique};
use crate::error::{Failure, c_text, code_of, number};
use crate::iovec::{IoVec, places};
use crate::options::{NearflashQueueOptions, copied};
use crate::volume::NearflashVolumeInfo;
use crate::watch::Watch;

/// A handle of a queue pair.
pub struct NearflashQueuePair {
    pub(crate) pair: QueuePair,
    /// By token index: the handle of the buffer in flight, or NULL. The caller has the pointer,
    /// too, so it is not a box here.
    pub(crate) handles: Vec<*mut NearflashBuffer>,
    /// By token index: the places of the data of a read in flight that has no handle.
    pub(crate) scattered: Vec<Box<[IoVec]>>,
    /// The time-out of operations that are posted now.
    timeout: Option<Duration>,
    /// Completions that have not been returned yet.
    pub(crate) done: VecDeque<Completion>,
    polled: Vec<Completion>,
    /// The messages of the last poll's completions.
    messages: Vec<CString>,
    /// The descriptor for an event loop, once it was requested.
    pub(crate) watch: Option<Watch>,
    /// Whether the program sleeps on it.
    pub(crate) is_armed: bool,
}

/// The completion of an operation, with the layout of the header.
#[repr(C)]
#[allow(missing_docs, reason = "the header documents the fields")]
pub struct NearflashCompletion {
    pub token: u64,
    pub value: u64,
    pub buffer: *mut NearflashBuffer,
    pub error: c_int,
    pub message: *const c_char,
}

impl NearflashQueuePair {
    fn new(pair: QueuePair) -> Self {
        let depth = usize::try_from(pair.depth()).expect("usize is at least 32 bits wide");
        let handles = vec![std::ptr::null_mut(); depth];
        Self {
            pair,
            handles,
            scattered: vec![Box::default(); depth],
            timeout: None,
            done: VecDeque::new(),
            polled: Vec::new(),
            messages: Vec::new(),
            watch: None,
            is_armed: false,
        }
    }

    /// Posts with the time-out that the program has set.
    pub(crate) fn post<T>(&mut self, post: impl FnOnce(&mut QueuePair) -> T) -> T {
        match self.timeout {
            Some(timeout) => post(&mut self.pair.with_timeout(timeout)),
            None => post(&mut self.pair),
        }
    }

    /// Converts a completion for C, and returns the buffer to its handle.
    fn tell(&mut self, done: Completion) -> NearflashCompletion {
        let scattered = std::mem::take(&mut self.scattered[done.token.index()]);
        if let (Ok(_), Some(read)) = (&done.result, &done.buffer) {
            let mut rest = &**read;
            // SAFETY: the header requires that the places stay writable, and that nobody else uses
            // them, until now.
            for mut place in unsafe { places(&scattered) } {
                let (now, later) = rest.split_at(place.len());
                place.copy_from_slice(now);
                rest = later;
            }
        }
        let place = &mut self.handles[done.token.index()];
        let buffer = std::mem::replace(place, std::ptr::null_mut());
        // SAFETY: the caller does not free a handle in flight, and only this queue pair uses it.
        if let Some(handle) = unsafe { buffer.as_mut() } {
            handle.0 = done.buffer;
        }
        let (value, error, message) = match done.result {
            Ok(value) => (value, 0, std::ptr::null()),
            Err(error) => {
                let text = c_text(&error.to_string());
                let message = text.as_ptr();
                self.messages.push(text);
                (0, number(error.code()), message)
            }
        };
        NearflashCompletion { token: done.token.get(), value, buffer, error, message }
    }
}

impl Drop for NearflashQueuePair {
    fn drop(&mut self) {
        for handle in self.handles.drain(..) {
            // SAFETY: by the header, this queue pair frees the handles in flight; the others are
            // NULL.
            unsafe { free(handle) };
        }
    }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_queue_pair_open(
    client: *mut NearflashClient,
    name: *const c_char,
    options: *const NearflashQueueOptions,
    pair: *mut *mut NearflashQueuePair,
) -> c_int {
    let opened = || {
        // SAFETY: the header requires a client, and a string or NULL.
        let (client, name) = unsafe { (shared(client.cast_const())?, text(name)?) };
        // SAFETY: the header requires options with their size, or NULL.
        let options = unsafe { copied(options) }?.options();
        let opened = client.0.queue_pair(client.volume_name(name)?, options)?;
        Ok(NearflashQueuePair::new(opened))
    };
    // SAFETY: the header requires a writable place.
    unsafe { open(pair, opened) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_queue_pair_free(pair: *mut NearflashQueuePair) {
    // SAFETY: the header requires a handle that is no longer used, or NULL.
    unsafe { free(pair) }
}

/// # Safety
/// As [`unique`].
pub(crate) unsafe fn with(
    pair: *mut NearflashQueuePair,
    work: impl FnOnce(&mut NearflashQueuePair) -> Result<(), Failure>,
) -> c_int {
    // SAFETY: as promised by the caller.
    code_of(|| work(unsafe { unique(pair) }?))
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_queue_pair_get_info(
    pair: *const NearflashQueuePair,
    info: *mut NearflashVolumeInfo,
) -> c_int {
    // SAFETY: the header requires a queue pair and a writable place.
    code_of(|| unsafe { put(info, shared(pair)?.pair.info().into()) })
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_buffer_new(
    pair: *mut NearflashQueuePair,
    len: usize,
    buffer: *mut *mut NearflashBuffer,
) -> c_int {
    // SAFETY: the header requires a queue pair that no other thread uses.
    let made = || Ok(NearflashBuffer(Some(unsafe { unique(pair) }?.pair.buffer(len)?)));
    // SAFETY: the header requires a writable place.
    unsafe { open(buffer, made) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_queue_pair_depth(pair: *const NearflashQueuePair) -> u32 {
    // SAFETY: the header requires a queue pair.
    unsafe { shared(pair) }.map_or(0, |pair| pair.pair.depth())
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_queue_pair_in_flight(pair: *const NearflashQueuePair) -> u32 {
    // SAFETY: the header requires a queue pair.
    unsafe { shared(pair) }.map_or(0, |pair| {
        let untold = u32::try_from(pair.done.len()).expect("at most the depth");
        pair.pair.in_flight() + untold
    })
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_queue_pair_len_max(pair: *const NearflashQueuePair) -> u32 {
    // SAFETY: the header requires a queue pair.
    unsafe { shared(pair) }.map_or(0, |pair| pair.pair.len_max())
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_queue_pair_is_lost(pair: *const NearflashQueuePair) -> bool {
    // SAFETY: the header requires a queue pair.
    unsafe { shared(pair) }.is_ok_and(|pair| pair.pair.is_lost())
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_queue_pair_set_timeout(
    pair: *mut NearflashQueuePair,
    timeout_ns: u64,
) -> c_int {
    let set = |pair: &mut NearflashQueuePair| {
        pair.timeout = (timeout_ns != u64::MAX).then(|| Duration::from_nanos(timeout_ns));
        Ok(())
    };
    // SAFETY: the header requires a queue pair that no other thread uses.
    unsafe { with(pair, set) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_submit(pair: *mut NearflashQueuePair) -> c_int {
    // SAFETY: the header requires a queue pair that no other thread uses.
    unsafe { with(pair, |pair| Ok(pair.pair.submit()?)) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_poll(
    pair: *mut NearflashQueuePair,
    completions: *mut NearflashCompletion,
    max: usize,
    count: *mut usize,
) -> c_int {
    let poll = |pair: &mut NearflashQueuePair| {
        if completions.is_null() && max > 0 {
            return Err(Failure::Argument("`completions` is NULL"));
        }
        // SAFETY: the header requires a writable place.
        unsafe { put(count, 0) }?;
        pair.disarm();
        pair.messages.clear();
        let most = max.saturating_sub(pair.done.len());
        let polled = pair.pair.poll_up_to(&mut pair.polled, most);
        pair.done.extend(pair.polled.drain(..));
        if pair.done.is_empty() {
            polled?;
        }
        let told = pair.done.len().min(max);
        for at in 0..told {
            let done = pair.done.pop_front().expect("it was counted");
            let told = pair.tell(done);
            // SAFETY: not NULL; the header requires `max` writable places, and `at` is below `max`.
            unsafe { completions.add(at).write(told) };
        }
        // SAFETY: as before.
        unsafe { put(count, told) }
    };
    // SAFETY: the header requires a queue pair that no other thread uses.
    unsafe { with(pair, poll) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_wait(
    pair: *mut NearflashQueuePair,
    timeout_ns: u64,
    is_ready: *mut bool,
) -> c_int {
    let wait = |pair: &mut NearflashQueuePair| {
        let timeout = Duration::from_nanos(timeout_ns);
        let begun = Instant::now();
        pair.disarm();
        let mut has_something = !pair.done.is_empty();
        let mut left = timeout;
        while !has_something {
            // It also returns earlier, so that a PING is sent to a silent node.
            has_something = pair.pair.wait(left)?;
            left = timeout.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
        }
        if is_ready.is_null() {
            return Ok(());
        }
        // SAFETY: not NULL; the header requires a writable place.
        unsafe { put(is_ready, has_something) }
    };
    // SAFETY: the header requires a queue pair that no other thread uses.
    unsafe { with(pair, wait) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_reconnect(pair: *mut NearflashQueuePair) -> c_int {
    let reconnect = |pair: &mut NearflashQueuePair| {
        pair.disarm();
        pair.pair.reconnect()?;
        match &mut pair.watch {
            Some(watch) => watch.renew(&pair.pair).map_err(Failure::System),
            None => Ok(()),
        }
    };
    // SAFETY: the header requires a queue pair that no other thread uses.
    unsafe { with(pair, reconnect) }
}
