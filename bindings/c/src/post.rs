//! The functions that post operations.

use std::ffi::c_int;

use nearflash::direct::PostError;
use nearflash::{Buffer, Error, QueuePair, Token};

use crate::buffer::NearflashBuffer;
use crate::client::{put, unique};
use crate::error::Failure;
use crate::queue_pair::{NearflashQueuePair, with};

/// Posts with a buffer, which the queue pair takes; after an error the caller still has it.
///
/// # Safety
/// The pointers meet the requirements of the header's functions that post with a buffer.
unsafe fn post_buffer(
    pair: *mut NearflashQueuePair,
    handle: *mut NearflashBuffer,
    token: *mut u64,
    post: impl FnOnce(&mut QueuePair, Buffer) -> Result<Token, PostError>,
) -> c_int {
    let work = |pair: &mut NearflashQueuePair| {
        // SAFETY: the header requires a buffer that no other thread uses.
        let owned = unsafe { unique(handle) }?;
        let buffer = owned.0.take().ok_or(Failure::Argument("the buffer is in flight"))?;
        match post(&mut pair.pair, buffer) {
            Ok(posted) => {
                pair.handles[posted.index()] = handle;
                // SAFETY: the header requires a writable place, or NULL.
                unsafe { put_token(token, posted) }
            }
            Err(PostError { error, buffer }) => {
                owned.0 = Some(buffer);
                Err(error.into())
            }
        }
    };
    // SAFETY: the header requires a queue pair that no other thread uses.
    unsafe { with(pair, work) }
}

/// # Safety
/// `place` is NULL, or writable.
unsafe fn put_token(place: *mut u64, token: Token) -> Result<(), Failure> {
    if place.is_null() {
        return Ok(());
    }
    // SAFETY: as promised by the caller.
    unsafe { put(place, token.get()) }
}

/// # Safety
/// The pointers meet the requirements of the header's functions that post without a buffer.
unsafe fn post(
    pair: *mut NearflashQueuePair,
    token: *mut u64,
    post: impl FnOnce(&mut QueuePair) -> Result<Token, Error>,
) -> c_int {
    let work = |pair: &mut NearflashQueuePair| {
        let posted = post(&mut pair.pair)?;
        // SAFETY: the header requires a writable place, or NULL.
        unsafe { put_token(token, posted) }
    };
    // SAFETY: the header requires a queue pair that no other thread uses.
    unsafe { with(pair, work) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_post_read(
    pair: *mut NearflashQueuePair,
    buffer: *mut NearflashBuffer,
    offset: u64,
    token: *mut u64,
) -> c_int {
    // SAFETY: the header has the same requirements.
    unsafe { post_buffer(pair, buffer, token, |pair, buffer| pair.post_read_at(buffer, offset)) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_post_write(
    pair: *mut NearflashQueuePair,
    buffer: *mut NearflashBuffer,
    offset: u64,
    token: *mut u64,
) -> c_int {
    // SAFETY: the header has the same requirements.
    unsafe { post_buffer(pair, buffer, token, |pair, buffer| pair.post_write_at(buffer, offset)) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_post_write_durable(
    pair: *mut NearflashQueuePair,
    buffer: *mut NearflashBuffer,
    offset: u64,
    token: *mut u64,
) -> c_int {
    let durable = |pair: &mut QueuePair, buffer| pair.post_write_durable_at(buffer, offset);
    // SAFETY: the header has the same requirements.
    unsafe { post_buffer(pair, buffer, token, durable) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_post_flush(
    pair: *mut NearflashQueuePair,
    token: *mut u64,
) -> c_int {
    // SAFETY: the header has the same requirements.
    unsafe { post(pair, token, QueuePair::post_flush) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_post_discard(
    pair: *mut NearflashQueuePair,
    offset: u64,
    len: u32,
    token: *mut u64,
) -> c_int {
    // SAFETY: the header has the same requirements.
    unsafe { post(pair, token, |pair| pair.post_discard(offset, len.into())) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_post_compare_and_swap(
    pair: *mut NearflashQueuePair,
    offset: u64,
    expected: u64,
    desired: u64,
    token: *mut u64,
) -> c_int {
    // SAFETY: the header has the same requirements.
    unsafe { post(pair, token, |pair| pair.post_compare_and_swap(offset, expected, desired)) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_post_fetch_add(
    pair: *mut NearflashQueuePair,
    offset: u64,
    addend: u64,
    token: *mut u64,
) -> c_int {
    // SAFETY: the header has the same requirements.
    unsafe { post(pair, token, |pair| pair.post_fetch_add(offset, addend)) }
}
