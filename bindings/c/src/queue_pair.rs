//! Queue pairs: open, poll and wait.

use std::collections::VecDeque;
use std::ffi::{c_char, c_int};
use std::time::Duration;

use nearflash::{Completion, QueueOptions, QueuePair};

use crate::buffer::NearflashBuffer;
use crate::client::{NearflashClient, free, put, put_handle, shared, text, unique};
use crate::error::{Failure, code_of, number};
use crate::volume::NearflashVolumeInfo;

/// A handle of a queue pair.
pub struct NearflashQueuePair {
    pub(crate) pair: QueuePair,
    /// By token index: the handle of the buffer in flight, or NULL. The caller has the pointer,
    /// too, so it is not a box here.
    pub(crate) handles: Vec<*mut NearflashBuffer>,
    /// Completions that have not been returned yet.
    done: VecDeque<Completion>,
    polled: Vec<Completion>,
}

/// The size of a queue pair, with the layout of the header.
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(missing_docs, reason = "the header documents the fields")]
pub struct NearflashQueueOptions {
    pub depth: u32,
    pub shared_len: usize,
}

/// The completion of an operation, with the layout of the header.
#[repr(C)]
#[allow(missing_docs, reason = "the header documents the fields")]
pub struct NearflashCompletion {
    pub token: u64,
    pub value: u64,
    pub buffer: *mut NearflashBuffer,
    pub error: c_int,
}

impl NearflashQueuePair {
    fn new(pair: QueuePair) -> Self {
        let depth = usize::try_from(pair.depth()).expect("usize is at least 32 bits wide");
        let handles = vec![std::ptr::null_mut(); depth];
        Self { pair, handles, done: VecDeque::new(), polled: Vec::new() }
    }

    /// Converts a completion for C, and returns the buffer to its handle.
    fn tell(&mut self, done: Completion) -> NearflashCompletion {
        let place = &mut self.handles[done.token.index()];
        let buffer = std::mem::replace(place, std::ptr::null_mut());
        // SAFETY: the caller does not free a handle in flight, and only this queue pair uses it.
        if let Some(handle) = unsafe { buffer.as_mut() } {
            handle.0 = done.buffer;
        }
        let (value, error) = match done.result {
            Ok(value) => (value, 0),
            Err(error) => (0, number(error.code())),
        };
        NearflashCompletion { token: done.token.get(), value, buffer, error }
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
    code_of(|| {
        // SAFETY: the header requires a client, a string or NULL, and options or NULL.
        let (client, name, wanted) =
            unsafe { (shared(client.cast_const())?, text(name)?, options.as_ref()) };
        let mut options = QueueOptions::default();
        if let Some(NearflashQueueOptions { depth, shared_len }) = wanted.copied() {
            options.depth = if depth == 0 { options.depth } else { depth };
            options.shared_len = if shared_len == 0 { options.shared_len } else { shared_len };
        }
        let opened = client.0.queue_pair(client.volume_name(name)?, options)?;
        // SAFETY: the header requires a writable place.
        unsafe { put_handle(pair, NearflashQueuePair::new(opened)) }
    })
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
            return Err(Failure::Argument("completions are NULL"));
        }
        // SAFETY: the header requires a writable place.
        unsafe { put(count, 0) }?;
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
pub unsafe extern "C" fn nearflash_wait(pair: *mut NearflashQueuePair, timeout_ns: u64) -> c_int {
    let wait = |pair: &mut NearflashQueuePair| {
        if pair.done.is_empty() {
            pair.pair.wait(Duration::from_nanos(timeout_ns))?;
        }
        Ok(())
    };
    // SAFETY: the header requires a queue pair that no other thread uses.
    unsafe { with(pair, wait) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_reconnect(pair: *mut NearflashQueuePair) -> c_int {
    // SAFETY: the header requires a queue pair that no other thread uses.
    unsafe { with(pair, |pair| Ok(pair.pair.reconnect()?)) }
}
