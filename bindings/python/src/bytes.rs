//! The memory of Python objects, by the buffer protocol: `bytes`, `bytearray`, `memoryview`,
//! `array`, `mmap`, NumPy arrays and all else that offers it in one piece.
//!
//! While a buffer is held its object neither moves nor frees the memory. It does not keep other
//! threads from writing there: as with `file.readinto`, that is the program's to avoid.

use std::ffi::c_int;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::ptr;
use std::slice;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// A held buffer, given back when dropped.
pub(crate) struct Bytes {
    view: Pin<Box<View>>,
}

/// What the interpreter filled in. Some objects let it point into itself: it may not move.
struct View {
    raw: ffi::Py_buffer,
    _pinned: PhantomPinned,
}

// SAFETY: the view names memory and a reference to its object; it is filled in and released with
// the interpreter attached, and in between only its pointer and length are read.
unsafe impl Send for Bytes {}
// SAFETY: as above; by `&Bytes` nothing is changed.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// The object's bytes, to read from.
    pub(crate) fn readable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::hold(object, ffi::PyBUF_SIMPLE)
    }

    /// The object's bytes, to write to.
    pub(crate) fn writable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::hold(object, ffi::PyBUF_WRITABLE)
    }

    fn hold(object: &Bound<'_, PyAny>, flags: c_int) -> PyResult<Self> {
        let raw = ffi::Py_buffer::new();
        let mut view = Box::pin(View { raw, _pinned: PhantomPinned });
        // SAFETY: the view is ours, and is not moved out of its box from here to its release.
        let raw = unsafe { ptr::from_mut(&mut view.as_mut().get_unchecked_mut().raw) };
        // SAFETY: the interpreter is attached, as the object's lifetime says, and `raw` is valid for
        // writing.
        if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), raw, flags) } != 0 {
            return Err(PyErr::take(object.py()).unwrap_or_else(|| {
                PyBufferError::new_err("the object does not give its buffer, and no reason")
            }));
        }
        Ok(Self { view })
    }

    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.view.raw.len).expect("an object has no negative length")
    }

    /// The bytes. Nobody may write to them meanwhile; see above.
    pub(crate) fn as_slice(&self) -> &[u8] {
        if self.len() == 0 {
            return &[];
        }
        // SAFETY: without flags for strides the buffer is one piece of `len` bytes at `buf`, and
        // stays so until it is released, which needs `self`.
        unsafe { slice::from_raw_parts(self.view.raw.buf.cast::<u8>(), self.len()) }
    }

    /// The bytes of a buffer that was taken as [`Self::writable`].
    ///
    /// # Panics
    /// When it was not.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        assert!(self.view.raw.readonly == 0, "only writable buffers are written to");
        if self.len() == 0 {
            return &mut [];
        }
        // SAFETY: as in `as_slice`; the object has said that it may be written to, and we hold the
        // only slice that this buffer gives.
        unsafe { slice::from_raw_parts_mut(self.view.raw.buf.cast::<u8>(), self.len()) }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        Python::attach(|_| {
            // SAFETY: the view was filled in by `hold`, is released once, and the interpreter is
            // attached. It is not moved.
            unsafe { ffi::PyBuffer_Release(&mut self.view.as_mut().get_unchecked_mut().raw) }
        });
    }
}
