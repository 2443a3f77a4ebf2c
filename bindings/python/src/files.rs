//! Files in a volume, for reading.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use nearflash_files_service::{
    AnyFiles, FilesError, Inode, InodeNumber, Kind, Name, Opened, Path, Paths,
};
use nearflash_units::ByteOffset;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bytes::{self, Bytes};
use crate::file_errors::{files_raised, name_raised};
use crate::forks::Owned;

/// The files of a volume, for reading from any number of threads. If the node owns the files, every call
/// sees its last changes. Otherwise, it sees those that were durable when it began, also those of other
/// processes.
#[pyclass(frozen, module = "nearflash", weakref)]
pub(crate) struct Files {
    name: Box<str>,
    open: Owned<Mutex<Option<Arc<Paths<AnyFiles>>>>>,
}

/// A path of a volume, from Python.
pub(crate) fn parsed(path: &std::path::Path) -> PyResult<Path> {
    let bytes = path.as_os_str().as_bytes();
    Path::parse(bytes).map_err(|error| name_raised(&error, path))
}

impl Files {
    pub(crate) fn of_volume(client: &nearflash::Client, name: &str) -> Result<Self, FilesError> {
        let paths = Paths::open(client, name, None)?;
        Ok(Self { name: name.into(), open: Owned::new(Mutex::new(Some(paths))) })
    }

    fn paths(&self) -> PyResult<Arc<Paths<AnyFiles>>> {
        let open = self.open.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        open.clone().ok_or_else(|| {
            PyValueError::new_err(format!(
                "the files of '{}' are closed: open them again",
                self.name
            ))
        })
    }

    /// Runs a call that may wait, while other Python threads run.
    fn wait<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Arc<Paths<AnyFiles>>) -> Result<T, FilesError> + Send,
    ) -> PyResult<T> {
        let paths = self.paths()?;
        let result = py.detach(move || {
            let result = call(&paths);
            drop(paths);
            result
        });
        result.map_err(|error| files_raised(py, &error))
    }
}

#[pymethods]
impl Files {
    /// The volume's name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The properties of the file or directory `path`.
    fn stat(&self, py: Python<'_>, path: PathBuf) -> PyResult<Stat> {
        let path = parsed(&path)?;
        let (number, inode) = self.wait(py, |paths| paths.stat(&path))?;
        Ok(Stat { number, inode })
    }

    /// At most `count_max` entries of the directory `path`, in the order of their names' bytes, from
    /// the first behind the name `after` on: pairs of a name and its properties, all as of one
    /// moment, or each as of its own if the node owns the files.
    #[pyo3(signature = (path, after=None, count_max=1000))]
    fn list(
        &self,
        py: Python<'_>,
        path: PathBuf,
        after: Option<OsString>,
        count_max: usize,
    ) -> PyResult<Vec<(OsString, Stat)>> {
        let place = parsed(&path)?;
        let after = after.map(|name| Name::new(name.as_bytes())).transpose();
        let after = after.map_err(|error| name_raised(&error, &path))?;
        let listed = self.wait(py, |paths| paths.list(&place, after.as_ref(), count_max))?;
        let pair = |(entry, inode): (nearflash_files_service::Entry, Inode)| {
            let name = OsStr::from_bytes(entry.name.as_bytes()).to_owned();
            (name, Stat { number: entry.inode, inode })
        };
        Ok(listed.into_iter().map(pair).collect())
    }

    /// Opens the file `path` for reading.
    fn open(&self, py: Python<'_>, path: PathBuf) -> PyResult<File> {
        let path = parsed(&path)?;
        let opened = self.wait(py, |paths| paths.open_file(&path))?;
        Ok(File { open: Owned::new(opened) })
    }

    /// Closes the connections, when calls of other threads have returned and no file of these is
    /// used any more.
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
        format!("<nearflash.Files '{}'>", self.name)
    }
}

/// The properties of a file or a directory.
#[pyclass(frozen, module = "nearflash")]
pub(crate) struct Stat {
    pub(crate) number: InodeNumber,
    pub(crate) inode: Inode,
}

#[pymethods]
impl Stat {
    /// The number of the inode, which no other file of the volume ever has.
    #[getter]
    fn number(&self) -> u64 {
        self.number.0
    }

    /// Whether it is a directory.
    #[getter]
    fn is_directory(&self) -> bool {
        self.inode.kind == Kind::Directory
    }

    /// The length of a file in bytes; 0 for a directory.
    #[getter]
    fn size(&self) -> u64 {
        self.inode.size.0
    }

    /// The time of creation, in nanoseconds since the start of 1970.
    #[getter]
    fn created_ns(&self) -> u64 {
        self.inode.created_at.0
    }

    /// The time of the last change of the contents, in nanoseconds since the start of 1970.
    #[getter]
    fn modified_ns(&self) -> u64 {
        self.inode.modified_at.0
    }

    /// The offset in the volume and the length in bytes of each run of blocks, in their order.
    #[getter]
    fn runs(&self) -> Vec<(u64, u64)> {
        self.inode.runs.iter().map(|run| (run.offset().0, run.len().0)).collect()
    }

    fn __repr__(&self) -> String {
        let kind = if self.is_directory() { "directory" } else { "file" };
        format!("<nearflash.Stat {kind} {} of {} bytes>", self.number, self.inode.size.0)
    }
}

/// A file that was opened for reading, from any number of threads. After the file was removed,
/// replaced or changed, every read raises an `OSError` with `errno.ESTALE`. If the node owns the files, it
/// keeps the file, and only reads of bytes that were cut off do so.
#[pyclass(frozen, module = "nearflash")]
pub(crate) struct File {
    open: Owned<Opened<AnyFiles>>,
}

impl File {
    fn size_of(&self) -> PyResult<u64> {
        Ok(self.open.get()?.inode().size.0)
    }
}

#[pymethods]
impl File {
    /// The length in bytes.
    #[getter]
    fn size(&self) -> PyResult<u64> {
        self.size_of()
    }

    /// The properties when the file was opened.
    fn stat(&self) -> PyResult<Stat> {
        let file = self.open.get()?;
        Ok(Stat { number: file.number(), inode: file.inode().clone() })
    }

    /// Reads the `length` bytes at `offset`.
    fn read<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        length: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (open, size) = (self.open.get()?, self.size_of()?);
        let len = u64::try_from(length).expect("usize is at most 64 bits wide");
        // Before memory is allocated for it.
        if offset.checked_add(len).is_none_or(|end| end > size) {
            return Err(PyValueError::new_err(format!(
                "{length} bytes at {offset} are not within the {size} bytes of {}",
                open.path()
            )));
        }
        bytes::new_bytes(py, length, |place| {
            let read = py.detach(|| {
                let place = bytes::zeroed(place);
                open.read_at(place, ByteOffset(offset)).map(|()| place)
            });
            read.map_err(|error| files_raised(py, &error))
        })
    }

    /// Reads from `offset` on, until `buffer` is full: any writable object with a C-contiguous
    /// buffer. Returns the number of bytes. If it raises, the buffer's contents are not valid.
    fn readinto(&self, py: Python<'_>, offset: u64, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let open = self.open.get()?;
        let mut bytes = Bytes::writable(buffer)?;
        let place = bytes.as_mut_slice();
        let read = py.detach(|| open.read_at(place, ByteOffset(offset)));
        read.map_err(|error| files_raised(py, &error))?;
        Ok(bytes.len())
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(format!("<nearflash.File '{}'>", self.open.get()?.path()))
    }
}
