//! A queue pair: the program posts operations and polls completions, in any order.

use std::os::fd::{AsRawFd as _, RawFd};
use std::time::Duration;

use nearflash::{Buffer, Completion, Error, QueuePair as Inner, Token};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::bytes::Bytes;
use crate::error::{exception, raised};
use crate::forks::Owned;
use crate::memory::view_of_read;
use crate::seconds::seconds;
use crate::volume::{uuid, word};

/// The shortest buffer: buffers are kept between operations, and this length makes them fit the
/// next.
const BUFFER_LEN_MIN: usize = 16 * 1024;
/// The longest buffer that is kept; longer ones are freed.
const KEPT_LEN_MAX: usize = 1 << 20;

/// A volume for many operations in flight, from one thread at a time.
///
/// Each `post_…` method returns a token at once; `poll` returns the completed operations in any
/// order, as pairs of a token and a result. The result is that of the `Volume` method of the same
/// name, or an `Error`, which is returned and not raised.
///
/// When the connection is lost, every operation in flight ends with `ConnectionLost`, or with
/// `OutcomeUnknown` if it may have changed the volume; `reconnect` makes the queue pair usable
/// again.
#[pyclass(module = "nearflash")]
pub(crate) struct QueuePair {
    name: Box<str>,
    open: Option<Owned<Open>>,
}

/// The queue pair, and the state of its operations.
struct Open {
    pair: Inner,
    /// The operations in flight, by token index.
    pending: Vec<Option<Pending>>,
    spare: Vec<Buffer>,
    done: Vec<Completion>,
}

/// An operation in flight.
struct Pending {
    token: Token,
    wanted: Wanted,
}

/// The kind of an operation's result.
enum Wanted {
    /// The data of a read, as `bytes`.
    Bytes,
    /// The data of a read, as a view of its buffer.
    View,
    /// The length of a read, whose data goes to this buffer.
    Into(Bytes),
    /// The length of a write.
    Len(usize),
    /// The previous word.
    Word,
    /// None: only the completion itself.
    End,
    /// Abandoned: the result is dropped.
    Nothing,
}

impl QueuePair {
    pub(crate) fn new(name: &str, pair: Inner) -> Self {
        let open = Open { pair, pending: Vec::new(), spare: Vec::new(), done: Vec::new() };
        Self { name: name.into(), open: Some(Owned::new(open)) }
    }

    fn get(&self) -> PyResult<&Open> {
        self.open.as_ref().ok_or_else(|| closed(&self.name))?.get()
    }

    fn get_mut(&mut self) -> PyResult<&mut Open> {
        self.open.as_mut().ok_or_else(|| closed(&self.name))?.get_mut()
    }
}

#[cold]
fn closed(name: &str) -> PyErr {
    PyValueError::new_err(format!("the queue pair of volume '{name}' is closed: open another"))
}

impl Open {
    fn take_buffer(&mut self, len: usize) -> Result<Buffer, Error> {
        let kept = self.spare.pop().filter(|buffer| buffer.capacity() >= len);
        let mut buffer = match kept {
            Some(buffer) => buffer,
            None => self.pair.buffer(len.next_power_of_two().max(BUFFER_LEN_MIN))?,
        };
        buffer.set_len(len);
        Ok(buffer)
    }

    fn keep(&mut self, buffer: Buffer) {
        if buffer.capacity() <= KEPT_LEN_MAX {
            self.spare.push(buffer);
        }
    }

    /// Checks an operation's length, before memory is allocated for it.
    fn check_len(&self, len: usize) -> Result<(), Error> {
        let max = u64::from(self.pair.len_max());
        match u64::try_from(len).expect("usize is at most 64 bits wide") {
            len if len == 0 || len > max => Err(Error::Length { len, max }),
            _ => Ok(()),
        }
    }

    fn post_read(&mut self, offset: u64, len: usize) -> Result<Token, Error> {
        self.check_len(len)?;
        let buffer = self.take_buffer(len)?;
        self.pair.post_read_at(buffer, offset).map_err(|refused| {
            self.keep(refused.buffer);
            refused.error
        })
    }

    fn post_write(&mut self, offset: u64, data: &[u8], durable: bool) -> Result<Token, Error> {
        self.check_len(data.len())?;
        let mut buffer = self.take_buffer(data.len())?;
        buffer.copy_from_slice(data);
        let posted = match durable {
            true => self.pair.post_write_durable_at(buffer, offset),
            false => self.pair.post_write_at(buffer, offset),
        };
        posted.map_err(|refused| {
            self.keep(refused.buffer);
            refused.error
        })
    }

    /// Records the kind of an operation's result. Returns its token for Python.
    fn note(
        &mut self,
        py: Python<'_>,
        posted: Result<Token, Error>,
        wanted: Wanted,
    ) -> PyResult<u64> {
        let token = posted.map_err(|error| raised(py, &error))?;
        if self.pending.len() <= token.index() {
            self.pending.resize_with(token.index() + 1, || None);
        }
        self.pending[token.index()] = Some(Pending { token, wanted });
        Ok(token.get())
    }

    /// Returns a completion's token and result, and keeps its buffer; `None` for an abandoned
    /// operation.
    fn conclude<'py>(
        &mut self,
        py: Python<'py>,
        done: Completion,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let Completion { token, result, mut buffer, .. } = done;
        let pending = self.pending[token.index()].take();
        let wanted = pending.map_or(Wanted::Nothing, |pending| pending.wanted);
        let outcome = match (&result, wanted) {
            (_, Wanted::Nothing) => None,
            (Err(error), _) => Some(exception(py, error)?),
            (Ok(_), Wanted::View) => {
                let read = buffer.take().expect("a read has a buffer");
                Some(view_of_read(py, read)?.into_any())
            }
            (Ok(value), wanted) => Some(wanted.result(py, *value, buffer.as_deref())?),
        };
        if let Some(buffer) = buffer {
            self.keep(buffer);
        }
        let token = token.get().into_pyobject(py)?;
        outcome.map(|outcome| PyTuple::new(py, [token.into_any(), outcome])).transpose()
    }
}

impl Wanted {
    /// The result of a successful operation.
    fn result<'py>(
        self,
        py: Python<'py>,
        value: u64,
        buffer: Option<&[u8]>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let read = buffer.unwrap_or_default();
        Ok(match self {
            Self::Bytes => PyBytes::new(py, read).into_any(),
            Self::Into(mut place) => {
                place.as_mut_slice().copy_from_slice(read);
                read.len().into_pyobject(py)?.into_any()
            }
            Self::Len(len) => len.into_pyobject(py)?.into_any(),
            Self::Word => value.into_pyobject(py)?.into_any(),
            Self::View | Self::End | Self::Nothing => py.None().into_bound(py),
        })
    }
}

#[pymethods]
impl QueuePair {
    /// The volume's name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The volume's size in bytes, as of the last answer.
    #[getter]
    fn size(&self) -> PyResult<u64> {
        Ok(self.get()?.pair.info().len)
    }

    /// The size of a logical block in bytes; a write is atomic for each block.
    #[getter]
    fn block_size(&self) -> PyResult<u32> {
        Ok(self.get()?.pair.info().block_size)
    }

    /// The volume's `uuid.UUID`, which another volume of the same name does not have.
    #[getter]
    fn uuid<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        uuid(py, self.get()?.pair.info().uuid)
    }

    /// The maximum number of operations in flight.
    #[getter]
    fn depth(&self) -> PyResult<u32> {
        Ok(self.get()?.pair.depth())
    }

    /// The number of operations in flight: posted, and not yet polled.
    #[getter]
    fn in_flight(&self) -> PyResult<u32> {
        Ok(self.get()?.pair.in_flight())
    }

    /// The longest operation, in bytes.
    #[getter]
    fn length_max(&self) -> PyResult<u32> {
        Ok(self.get()?.pair.len_max())
    }

    /// Whether the connection is lost, so that `reconnect` is needed.
    #[getter]
    fn is_lost(&self) -> PyResult<bool> {
        Ok(self.get()?.pair.is_lost())
    }

    /// Reads the `length` bytes at `offset`.
    fn post_read(&mut self, py: Python<'_>, offset: u64, length: usize) -> PyResult<u64> {
        let open = self.get_mut()?;
        let posted = open.post_read(offset, length);
        open.note(py, posted, Wanted::Bytes)
    }

    /// Reads the `length` bytes at `offset`. The result is a read-only `memoryview` of the memory
    /// that received them, without a copy. With a node on this machine this is a part of the shared
    /// memory: it is in use until the last view of it is gone, and posts raise `NoMemory` when none
    /// is left. A forked process must not use its parent's views.
    fn post_read_view(&mut self, py: Python<'_>, offset: u64, length: usize) -> PyResult<u64> {
        let open = self.get_mut()?;
        let posted = open.post_read(offset, length);
        open.note(py, posted, Wanted::View)
    }

    /// Fills `buffer` from `offset` on, when the completion is polled and not before. The buffer is
    /// held until then, or until `abandon`.
    fn post_readinto(
        &mut self,
        py: Python<'_>,
        offset: u64,
        buffer: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let place = Bytes::writable(buffer)?;
        let open = self.get_mut()?;
        let posted = open.post_read(offset, place.len());
        open.note(py, posted, Wanted::Into(place))
    }

    /// Writes a copy of `data` at `offset`; with `durable`, it completes when the data is on stable
    /// media.
    #[pyo3(signature = (offset, data, *, durable=false))]
    fn post_write(
        &mut self,
        py: Python<'_>,
        offset: u64,
        data: &Bound<'_, PyAny>,
        durable: bool,
    ) -> PyResult<u64> {
        let data = Bytes::readable(data)?;
        let open = self.get_mut()?;
        let posted = open.post_write(offset, data.as_slice(), durable);
        open.note(py, posted, Wanted::Len(data.len()))
    }

    /// Makes every operation that completed before this post durable on stable media.
    fn post_flush(&mut self, py: Python<'_>) -> PyResult<u64> {
        let open = self.get_mut()?;
        let posted = open.pair.post_flush();
        open.note(py, posted, Wanted::End)
    }

    /// As `Volume.discard`.
    fn post_discard(&mut self, py: Python<'_>, offset: u64, length: u32) -> PyResult<u64> {
        let open = self.get_mut()?;
        let posted = open.pair.post_discard(offset, length.into());
        open.note(py, posted, Wanted::End)
    }

    /// As `Volume.compare_and_swap`.
    fn post_compare_and_swap(
        &mut self,
        py: Python<'_>,
        offset: u64,
        expected: u64,
        new: u64,
    ) -> PyResult<u64> {
        let open = self.get_mut()?;
        let posted = open.pair.post_compare_and_swap(offset, expected, new);
        open.note(py, posted, Wanted::Word)
    }

    /// As `Volume.fetch_add`.
    fn post_fetch_add(
        &mut self,
        py: Python<'_>,
        offset: u64,
        addend: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let addend = word(addend)?;
        let open = self.get_mut()?;
        let posted = open.pair.post_fetch_add(offset, addend);
        open.note(py, posted, Wanted::Word)
    }

    /// Sends the posted operations. A post sends itself when no other operation is in flight and
    /// the last poll returned at most one completion; `poll` sends, too, so that many posts between
    /// two polls are sent together.
    fn submit(&mut self, py: Python<'_>) -> PyResult<()> {
        self.get_mut()?.pair.submit().map_err(|error| raised(py, &error))
    }

    /// Sends the posted operations, and returns the completed ones: pairs of a token and a result.
    /// Never waits.
    fn poll<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let open = self.get_mut()?;
        let mut done = std::mem::take(&mut open.done);
        let polled = open.pair.poll(&mut done);
        let results = PyList::empty(py);
        for completion in done.drain(..) {
            if let Some(result) = open.conclude(py, completion)? {
                results.append(result)?;
            }
        }
        open.done = done;
        match polled {
            Ok(_) => Ok(results),
            Err(error) => Err(raised(py, &error)),
        }
    }

    /// Sends the posted operations, and sleeps until there may be a completion, at most `timeout`
    /// seconds. Returns whether there may be one. Other threads run meanwhile, but must not use the
    /// queue pair.
    #[pyo3(signature = (timeout=None))]
    fn wait(&mut self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let timeout = seconds("timeout", timeout, Duration::MAX)?;
        let open = self.get_mut()?;
        py.detach(|| open.pair.wait(timeout)).map_err(|error| raised(py, &error))
    }

    /// The file descriptor of the socket, for event loops: it is readable when there may be
    /// completions. It is for a queue pair without shared memory, and `reconnect` replaces it.
    fn fileno(&self) -> PyResult<RawFd> {
        Ok(self.get()?.pair.socket().as_raw_fd())
    }

    /// Whether data is waiting to be sent that the socket has not accepted: then poll also when the
    /// socket is writable.
    #[getter]
    fn has_unsent(&self) -> PyResult<bool> {
        Ok(self.get()?.pair.has_unsent())
    }

    /// The time in seconds until the next poll is due, so that a silent node is detected; None when
    /// no operation is in flight.
    #[getter]
    fn patience_left(&self) -> PyResult<Option<f64>> {
        Ok(self.get()?.pair.patience_left().map(|left| left.as_secs_f64()))
    }

    /// Abandons an operation: it continues, but `poll` does not return its result, and it accesses
    /// no Python memory. Returns whether it was in flight.
    fn abandon(&mut self, token: u64) -> PyResult<bool> {
        let pending = self.get_mut()?.pending.iter_mut().flatten();
        let found = pending.into_iter().find(|pending| pending.token.get() == token);
        Ok(found.map(|pending| pending.wanted = Wanted::Nothing).is_some())
    }

    /// Connects again after the connection was lost, with increasing delays. The next `poll`
    /// completes the operations that were in flight, as lost.
    fn reconnect(&mut self, py: Python<'_>) -> PyResult<()> {
        let open = self.get_mut()?;
        py.detach(|| open.pair.reconnect()).map_err(|error| raised(py, &error))
    }

    /// Closes the connection. Whether writes in flight take effect is unknown.
    fn close(&mut self, py: Python<'_>) {
        let open = self.open.take();
        py.detach(|| drop(open));
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(
        &mut self,
        py: Python<'_>,
        _type: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) {
        self.close(py);
    }

    fn __repr__(&self) -> String {
        format!("<nearflash.QueuePair '{}'>", self.name)
    }
}
