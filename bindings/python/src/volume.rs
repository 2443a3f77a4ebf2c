//! A volume for blocking calls.

use std::io::{IoSlice, IoSliceMut};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nearflash::direct::VolumeInfo;
use nearflash::{Error, Volume as Inner};
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::bytes::{self, Bytes};
use crate::error::raised;
use crate::forks::Owned;
use crate::seconds::seconds;

/// A volume for blocking calls from any number of threads: concurrent calls have separate
/// connections.
///
/// A lost connection is re-established. Reads are then repeated; an operation that may have changed
/// the volume is not, and raises `OutcomeUnknown`. Closing does not flush.
#[pyclass(frozen, module = "nearflash", weakref)]
pub(crate) struct Volume {
    name: Box<str>,
    open: Owned<Mutex<Option<Arc<Inner>>>>,
}

impl Volume {
    pub(crate) fn new(volume: Inner) -> Self {
        let name = volume.name().into();
        Self { name, open: Owned::new(Mutex::new(Some(Arc::new(volume)))) }
    }

    fn inner(&self) -> PyResult<Arc<Inner>> {
        let open = self.open.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        open.clone().ok_or_else(|| {
            PyValueError::new_err(format!("volume '{}' is closed: open it again", self.name))
        })
    }

    fn info(&self) -> PyResult<VolumeInfo> {
        Ok(self.inner()?.info())
    }

    /// Runs a call that may wait, while other Python threads run.
    fn wait<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Inner) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let volume = self.inner()?;
        let result = py.detach(move || {
            let result = call(&volume);
            // The last reference closes connections, if the volume was closed meanwhile; Python
            // does not wait for that.
            drop(volume);
            result
        });
        result.map_err(|error| raised(py, &error))
    }
}

#[pymethods]
impl Volume {
    /// The volume's name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The volume's size in bytes, as of the last answer.
    #[getter]
    fn size(&self) -> PyResult<u64> {
        Ok(self.info()?.len)
    }

    /// The size of a logical block in bytes; a write is atomic for each block.
    #[getter]
    fn block_size(&self) -> PyResult<u32> {
        Ok(self.info()?.block_size)
    }

    /// The volume's `uuid.UUID`, which another volume of the same name does not have.
    #[getter]
    fn uuid<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        uuid(py, self.info()?.uuid)
    }

    /// Whether some of the volume may be read.
    #[getter]
    fn is_readable(&self) -> PyResult<bool> {
        Ok(self.info()?.is_readable)
    }

    /// Whether some of the volume may be written.
    #[getter]
    fn is_writable(&self) -> PyResult<bool> {
        Ok(self.info()?.is_writable)
    }

    /// The number of connections that were lost and replaced since the volume was opened. If it is the
    /// same before the first write and after a flush, the flush covers all writes between them.
    /// Otherwise the node's machine may have lost writes together with the connection.
    #[getter]
    fn replaced_connections(&self) -> PyResult<u64> {
        Ok(self.inner()?.replaced_connections())
    }

    /// Whether the volume is closed.
    #[getter]
    fn closed(&self) -> PyResult<bool> {
        Ok(self.open.get()?.lock().unwrap_or_else(PoisonError::into_inner).is_none())
    }

    /// The same volume, whose calls end after `timeout` seconds at the latest. A call that ends so
    /// raises `OutcomeUnknown` if it may have changed the volume, and otherwise `ConnectionLost`.
    /// Its connection is given up: the next call first waits until nothing of it is under way any
    /// more. Both volumes share their connections, which close with the last of the two.
    fn with_timeout(&self, timeout: f64) -> PyResult<Self> {
        let timeout = seconds("timeout", Some(timeout), Duration::MAX)?;
        Ok(Self::new(self.inner()?.with_timeout(timeout)))
    }

    /// Reads the `length` bytes at `offset`, both of any alignment.
    fn read<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        length: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        self.check_end(py, offset, length)?;
        bytes::new_bytes(py, length, |place| {
            self.wait(py, |volume| {
                let place = bytes::zeroed(place);
                volume.read_at(place, offset).map(|()| place)
            })
        })
    }

    /// Reads from `offset` on, until `buffer` is full: any writable object with a C-contiguous
    /// buffer. Returns the number of bytes.
    fn readinto(&self, py: Python<'_>, offset: u64, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let mut bytes = Bytes::writable(buffer)?;
        let place = bytes.as_mut_slice();
        self.wait(py, |volume| volume.read_at(place, offset))?;
        Ok(bytes.len())
    }

    /// As `readinto`, with several buffers, one after the other. They must not overlap.
    fn readv(
        &self,
        py: Python<'_>,
        offset: u64,
        buffers: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        let mut held = buffers.iter().map(Bytes::writable).collect::<PyResult<Vec<_>>>()?;
        bytes::check_disjoint(&held)?;
        let mut places: Vec<_> =
            held.iter_mut().map(|bytes| IoSliceMut::new(bytes.as_mut_slice())).collect();
        self.wait(py, |volume| volume.read_vectored_at(&mut places, offset))?;
        Ok(held.iter().map(Bytes::len).sum())
    }

    /// Writes `data`, any object with a C-contiguous buffer, at `offset`. Returns the number of
    /// bytes. The write is atomic for each logical block, and durable after `flush`. If it raises,
    /// some of the bytes may have been written.
    fn write(&self, py: Python<'_>, offset: u64, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        let bytes = Bytes::readable(data)?;
        let place = bytes.as_slice();
        self.wait(py, |volume| volume.write_at(place, offset))?;
        Ok(bytes.len())
    }

    /// As `write`, with several buffers, one after the other. A block is written at once, also if
    /// several buffers have parts of it.
    fn writev(
        &self,
        py: Python<'_>,
        offset: u64,
        buffers: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        let held = buffers.iter().map(Bytes::readable).collect::<PyResult<Vec<_>>>()?;
        let places: Vec<_> = held.iter().map(|bytes| IoSlice::new(bytes.as_slice())).collect();
        self.wait(py, |volume| volume.write_vectored_at(&places, offset))?;
        Ok(held.iter().map(Bytes::len).sum())
    }

    /// Writes `length` zeroes at `offset`, as `write` does. The node zeroes whole blocks, for which
    /// no zeroes are sent.
    fn write_zeroes(&self, py: Python<'_>, offset: u64, length: u64) -> PyResult<()> {
        self.wait(py, |volume| volume.write_zeroes(offset, length))
    }

    /// Makes every operation whose call has returned durable on stable media.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.wait(py, Inner::flush)
    }

    /// Deallocates the `length` bytes at `offset`, whose contents are no longer needed; the device
    /// releases whole blocks of them. They read as before or as zeroes.
    fn discard(&self, py: Python<'_>, offset: u64, length: u64) -> PyResult<()> {
        self.wait(py, |volume| volume.discard(offset, length))
    }

    /// Replaces the little-endian 8-byte word at `offset`, a multiple of 8, by `new` if it equals
    /// `expected`. Returns the previous word, which is `expected` if it was replaced.
    fn compare_and_swap(
        &self,
        py: Python<'_>,
        offset: u64,
        expected: u64,
        new: u64,
    ) -> PyResult<u64> {
        self.wait(py, |volume| volume.compare_and_swap(offset, expected, new))
    }

    /// Adds `addend`, which may be negative, to the little-endian 8-byte word at `offset`, a
    /// multiple of 8, modulo 2**64. Returns the previous word.
    fn fetch_add(&self, py: Python<'_>, offset: u64, addend: &Bound<'_, PyAny>) -> PyResult<u64> {
        let addend = word(addend)?;
        self.wait(py, |volume| volume.fetch_add(offset, addend))
    }

    /// Closes the connections, when calls of other threads have returned. Data that was written and
    /// not flushed may not be durable.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let open = self.open.get()?.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(open));
        Ok(())
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _type: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("<nearflash.Volume '{}'>", self.name)
    }
}

impl Volume {
    /// Checks a range against the volume's size, before memory is allocated for it. The volume may
    /// have grown since the last answer, so the node decides on a range that seems to end past it.
    fn check_end(&self, py: Python<'_>, offset: u64, length: usize) -> PyResult<()> {
        let len = u64::try_from(length).expect("usize is at most 64 bits wide");
        let is_within = |end: u64| end <= self.inner().map_or(0, |volume| volume.len());
        let end = offset.saturating_add(len);
        if is_within(end) || end == offset {
            return Ok(());
        }
        // A read of the range's last byte: the node reports the error, if there is one.
        self.wait(py, |volume| volume.read_at(&mut [0], end - 1))
    }
}

/// A number as a word: from -2**63 to 2**64 - 1, negative numbers in two's complement.
pub(crate) fn word(number: &Bound<'_, PyAny>) -> PyResult<u64> {
    if let Ok(word) = number.extract::<u64>() {
        return Ok(word);
    }
    let signed = number.extract::<i64>().map_err(|error| {
        if error.is_instance_of::<PyOverflowError>(number.py()) {
            PyOverflowError::new_err("a word must be from -2**63 to 2**64 - 1")
        } else {
            error
        }
    })?;
    Ok(signed.cast_unsigned())
}

/// A UUID as Python's `uuid.UUID`.
pub(crate) fn uuid(py: Python<'_>, bytes: [u8; 16]) -> PyResult<Bound<'_, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("bytes", PyBytes::new(py, &bytes))?;
    py.import("uuid")?.getattr("UUID")?.call((), Some(&fields))
}
