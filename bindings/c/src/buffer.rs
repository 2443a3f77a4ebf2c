//! The buffers of a queue pair.

use std::ffi::{c_int, c_void};

use nearflash::Buffer;

use crate::client::{free, shared, unique};
use crate::error::{Failure, code_of};

/// A handle of a buffer; `None` while the buffer is in flight.
pub struct NearflashBuffer(pub(crate) Option<Buffer>);

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_buffer_free(buffer: *mut NearflashBuffer) {
    // SAFETY: the header requires a handle that is no longer used, or NULL.
    unsafe { free(buffer) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_buffer_bytes(buffer: *mut NearflashBuffer) -> *mut c_void {
    // SAFETY: the header requires a buffer that no other thread uses.
    match unsafe { unique(buffer) } {
        Ok(NearflashBuffer(Some(buffer))) => buffer.as_mut_ptr().cast(),
        _ => std::ptr::null_mut(),
    }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_buffer_len(buffer: *const NearflashBuffer) -> usize {
    // SAFETY: the header requires a buffer.
    match unsafe { shared(buffer) } {
        Ok(NearflashBuffer(Some(buffer))) => buffer.len(),
        _ => 0,
    }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_buffer_set_len(
    buffer: *mut NearflashBuffer,
    len: usize,
) -> c_int {
    code_of(|| {
        // SAFETY: the header requires a buffer that no other thread uses.
        let buffer = unsafe { unique(buffer) }?.0.as_mut();
        let buffer = buffer.ok_or(Failure::Argument("the buffer is in flight"))?;
        if len > buffer.capacity() {
            return Err(Failure::Argument("the length exceeds the buffer's capacity"));
        }
        buffer.set_len(len);
        Ok(())
    })
}
