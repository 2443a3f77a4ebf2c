//! Memory of this crate as Python sees it: objects with the buffer protocol, as `memoryview`s.

use std::ffi::{c_int, c_void};

use nearflash::Buffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use crate::bytes::Bytes;

/// Bytes that live as long as the last view of them.
#[pyclass(frozen, module = "nearflash")]
struct Memory {
    bytes: Held,
}

enum Held {
    /// The data of a read, where the client received it. To be read only.
    Read(Buffer),
    /// The buffer of an object, without its item type and its shape.
    Object(Bytes),
}

/// A view of a read's data, without a copy. Dropping the last view frees the buffer.
pub(crate) fn view_of_read<'py>(
    py: Python<'py>,
    buffer: Buffer,
) -> PyResult<Bound<'py, PyMemoryView>> {
    view(py, Held::Read(buffer))
}

/// A view of the bytes of any C-contiguous buffer. `memoryview.cast` refuses the item types that it
/// does not know, such as NumPy's complex numbers and records.
#[pyfunction]
#[pyo3(name = "_bytes_of")]
pub(crate) fn bytes_of<'py>(
    py: Python<'py>,
    object: &Bound<'py, PyAny>,
    is_written: bool,
) -> PyResult<Bound<'py, PyMemoryView>> {
    let bytes = if is_written { Bytes::writable(object) } else { Bytes::readable(object) };
    view(py, Held::Object(bytes?))
}

fn view(py: Python<'_>, bytes: Held) -> PyResult<Bound<'_, PyMemoryView>> {
    PyMemoryView::from(Bound::new(py, Memory { bytes })?.as_any())
}

#[pymethods]
impl Memory {
    /// # Safety
    /// As for the interpreter, which alone calls it: `view` is null or valid for writing.
    unsafe fn __getbuffer__(
        this: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("a buffer needs a view to be described in"));
        }
        let (start, len, is_read_only) = match &this.get().bytes {
            Held::Read(buffer) => (buffer.as_ptr().cast_mut(), buffer.len(), true),
            Held::Object(bytes) => (bytes.start(), bytes.len(), bytes.is_read_only()),
        };
        let len = isize::try_from(len).expect("no memory is longer than isize::MAX");
        // SAFETY: `view` is valid for writing. The bytes neither move nor are freed before `this`,
        // to which the view holds a reference. A read-only view is not written through.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                this.as_ptr(),
                start.cast::<c_void>(),
                len,
                c_int::from(is_read_only),
                flags,
            )
        };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(this.py())) }
    }
}
