//! The memory of Python objects, by the buffer protocol: `bytes`, `bytearray`, `memoryview`,
//! `array`, `mmap`, NumPy arrays and other objects that export a contiguous buffer.
//!
//! PyO3's `PyUntypedBuffer` refuses buffers without dimensions, such as a NumPy scalar's or a
//! `ctypes` structure's: hence a holder of our own, which asks for bytes only.
//!
//! While a buffer is held, its object neither moves nor frees the memory. Other threads can still
//! write to it: as with `file.readinto`, the program has to avoid that.

use std::ffi::c_int;
use std::marker::PhantomPinned;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::ptr;
use std::slice;

use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A held buffer, released when dropped.
pub(crate) struct Bytes {
    view: Pin<Box<View>>,
}

/// The view that the interpreter fills in. Some objects store a pointer to it in itself, so it must
/// not move.
struct View {
    raw: ffi::Py_buffer,
    _pinned: PhantomPinned,
}

// SAFETY: the view points to memory and holds a reference to its object. It is filled in and
// released while the interpreter is attached; in between, only its pointer and length are read.
unsafe impl Send for Bytes {}
// SAFETY: as above; `&Bytes` allows no change.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// Holds the object's bytes for reading.
    pub(crate) fn readable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::hold(object, ffi::PyBUF_SIMPLE)
    }

    /// Holds the object's bytes for writing.
    pub(crate) fn writable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::hold(object, ffi::PyBUF_WRITABLE)
    }

    fn hold(object: &Bound<'_, PyAny>, flags: c_int) -> PyResult<Self> {
        let raw = ffi::Py_buffer::new();
        let mut view = Box::pin(View { raw, _pinned: PhantomPinned });
        // SAFETY: this function owns the view, which stays in its box until its release.
        let raw = unsafe { ptr::from_mut(&mut view.as_mut().get_unchecked_mut().raw) };
        // SAFETY: the object's lifetime proves that the interpreter is attached, and `raw` is valid
        // for writing.
        if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), raw, flags) } != 0 {
            return Err(PyErr::take(object.py()).unwrap_or_else(|| {
                PyBufferError::new_err("the object provides no buffer and no reason")
            }));
        }
        Ok(Self { view })
    }

    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.view.raw.len).expect("an object has no negative length")
    }

    /// The address of the first byte.
    pub(crate) fn start(&self) -> *mut u8 {
        self.view.raw.buf.cast::<u8>()
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.view.raw.readonly != 0
    }

    /// The bytes. No other thread may write to them meanwhile; see above.
    pub(crate) fn as_slice(&self) -> &[u8] {
        if self.len() == 0 {
            return &[];
        }
        // SAFETY: without flags for strides, the buffer is contiguous: `len` bytes at `buf`, until
        // its release, which needs `self`.
        unsafe { slice::from_raw_parts(self.start(), self.len()) }
    }

    /// The bytes of a buffer from [`Self::writable`].
    ///
    /// # Panics
    /// When the buffer is read-only.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        assert!(!self.is_read_only(), "only writable buffers are written to");
        if self.len() == 0 {
            return &mut [];
        }
        // SAFETY: as in `as_slice`; the object is writable, and this is the only slice of the
        // buffer.
        unsafe { slice::from_raw_parts_mut(self.start(), self.len()) }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        Python::attach(|_| {
            // SAFETY: `hold` filled the view in; it is released once, is not moved, and the
            // interpreter is attached.
            unsafe { ffi::PyBuffer_Release(&mut self.view.as_mut().get_unchecked_mut().raw) }
        });
    }
}

/// New `bytes` of this length, whose memory `fill` initialises and returns. Unlike
/// `PyBytes::new_with`, this touches none of it while other Python threads wait: the pages of a long
/// read are new.
pub(crate) fn new_bytes(
    py: Python<'_>,
    len: usize,
    fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> PyResult<&mut [u8]>,
) -> PyResult<Bound<'_, PyBytes>> {
    let signed = ffi::Py_ssize_t::try_from(len)?;
    // SAFETY: the interpreter is attached. Without a source, the contents are not initialised.
    let raw = unsafe { ffi::PyBytes_FromStringAndSize(ptr::null(), signed) };
    // SAFETY: the call returned a new reference to `bytes`, or null and set an exception.
    let bytes = unsafe { Bound::from_owned_ptr_or_err(py, raw)?.cast_into_unchecked::<PyBytes>() };
    // SAFETY: `raw` is a `bytes` object.
    let start = unsafe { ffi::PyBytes_AsString(raw) };
    // SAFETY: `len` bytes are at `start`, and nobody else has a reference to the object yet. Only
    // the empty object is shared, which has no bytes.
    let filled = fill(unsafe { slice::from_raw_parts_mut(start.cast(), len) })?;
    assert!(filled.as_ptr() == start.cast() && filled.len() == len, "all of it is initialised");
    Ok(bytes)
}

/// The memory, filled with zeroes.
pub(crate) fn zeroed(place: &mut [MaybeUninit<u8>]) -> &mut [u8] {
    place.fill(MaybeUninit::new(0));
    // SAFETY: every byte is initialised, and a `MaybeUninit<u8>` is laid out as its byte.
    unsafe { &mut *(ptr::from_mut(place) as *mut [u8]) }
}

/// Checks that no two buffers share memory, so that each can be written to through a slice of its
/// own.
pub(crate) fn check_disjoint(buffers: &[Bytes]) -> PyResult<()> {
    let mut ranges: Vec<_> = buffers.iter().map(|bytes| bytes.as_slice().as_ptr_range()).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    if ranges.windows(2).any(|pair| pair[0].end > pair[1].start) {
        return Err(PyValueError::new_err("the buffers overlap"));
    }
    Ok(())
}
