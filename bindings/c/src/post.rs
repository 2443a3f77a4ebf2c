//! The functions that post operations.

use std::ffi::c_int;
use std::io::Write as _;

use nearflash::direct::PostError;
use nearflash::{Buffer, Error, QueuePair, Token};

use crate::buffer::NearflashBuffer;
use crate::client::{put, unique};
use crate::error::Failure;
use crate::iovec::{IoVec, checked, len_of, slices};
use crate::queue_pair::{NearflashQueuePair, with};

/// Posts with a buffer, which the queue pair takes; after an error the caller keeps it.
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
        match pair.post(|pair| post(pair, buffer)) {
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
        let posted = pair.post(post)?;
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

/// A buffer of the queue pair's own for pieces of the program's memory.
fn own_buffer(pair: &mut QueuePair, pieces: &[IoVec]) -> Result<Buffer, Failure> {
    let (len, max) = (len_of(pieces), pair.len_max());
    match u32::try_from(len) {
        Ok(short) if short <= max => Ok(pair.buffer(len)?),
        _ => {
            let len = u64::try_from(len).expect("usize is at most 64 bits wide");
            Err(Error::Length { len, max: max.into() }.into())
        }
    }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_post_readv(
    pair: *mut NearflashQueuePair,
    iov: *const IoVec,
    count: usize,
    offset: u64,
    token: *mut u64,
) -> c_int {
    let work = |pair: &mut NearflashQueuePair| {
        // SAFETY: the header requires as many pieces.
        let pieces = unsafe { checked(iov, count) }?;
        let buffer = own_buffer(&mut pair.pair, pieces)?;
        let posted = pair.post(|pair| pair.post_read_at(buffer, offset)).map_err(Error::from)?;
        pair.scattered[posted.index()] = pieces.into();
        // SAFETY: the header requires a writable place, or NULL.
        unsafe { put_token(token, posted) }
    };
    // SAFETY: the header requires a queue pair that no other thread uses.
    unsafe { with(pair, work) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_post_writev(
    pair: *mut NearflashQueuePair,
    iov: *const IoVec,
    count: usize,
    offset: u64,
    token: *mut u64,
) -> c_int {
    let work = |pair: &mut NearflashQueuePair| {
        // SAFETY: the header requires as many pieces.
        let pieces = unsafe { checked(iov, count) }?;
        let mut buffer = own_buffer(&mut pair.pair, pieces)?;
        let mut rest = &mut *buffer;
        // SAFETY: the header requires readable bytes.
        for slice in unsafe { slices(pieces) } {
            rest.write_all(&slice).expect("the buffer is as long as all of them");
        }
        let posted = pair.post(|pair| pair.post_write_at(buffer, offset)).map_err(Error::from)?;
        // SAFETY: the header requires a writable place, or NULL.
        unsafe { put_token(token, posted) }
    };
    // SAFETY: the header requires a queue pair that no other thread uses.
    unsafe { with(pair, work) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_post_write_zeroes(
    pair: *mut NearflashQueuePair,
    offset: u64,
    len: u64,
    token: *mut u64,
) -> c_int {
    // SAFETY: the header has the same requirements.
    unsafe { post(pair, token, |pair| pair.post_write_zeroes(offset, len)) }
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
    len: u64,
    token: *mut u64,
) -> c_int {
    // SAFETY: the header has the same requirements.
    unsafe { post(pair, token, |pair| pair.post_discard(offset, len)) }
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
