//! Changing the files of a volume.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use nearflash_files_service::{
    AnyFiles, FileCalls as _, FilesError, Path, Paths, Replace, Taker, UploadOptions,
};
use nearflash_units::ByteLen;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::bytes::Bytes;
use crate::file_errors::files_raised;
use crate::files::{Stat, parsed};
use crate::forks::Owned;

/// The bytes that are asked of a stream at a time.
const PIECE_LEN: usize = 4 << 20;

type Shared = Arc<Paths<AnyFiles>>;
/// A file that is being written. It does not keep its owner.
type Begun = nearflash_files_service::Upload<AnyFiles>;

/// Changes the files of a volume, until `close`. If the node owns them, it makes the changes, also those
/// of other processes at the same time. Otherwise, the volume is this process's. Threads may share it.
/// Every change is durable when its call returns.
#[pyclass(frozen, module = "nearflash", weakref)]
pub(crate) struct Owner {
    name: Box<str>,
    open: Owned<Mutex<Option<Shared>>>,
}

fn replace(is_allowed: bool) -> Replace {
    if is_allowed { Replace::Allowed } else { Replace::Never }
}

impl Owner {
    pub(crate) fn open(
        client: &nearflash::Client,
        name: &str,
        take_over: bool,
    ) -> Result<Self, FilesError> {
        let owner = Paths::open(client, name, Some(&Taker::process(take_over)))?;
        Ok(Self { name: name.into(), open: Owned::new(Mutex::new(Some(owner))) })
    }

    fn shared(&self) -> PyResult<Shared> {
        let open = self.open.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        open.clone().ok_or_else(|| released(&self.name))
    }

    /// Runs a change, while other Python threads run.
    fn change<T: Send>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&Shared) -> Result<T, FilesError> + Send,
    ) -> PyResult<T> {
        let owner = self.shared()?;
        let result = py.detach(move || change(&owner));
        result.map_err(|error| files_raised(py, &error))
    }

    fn begin(&self, py: Python<'_>, path: &Path, options: UploadOptions) -> PyResult<Upload> {
        let begun = self.change(py, |owner| owner.upload(path, options))?;
        Ok(Upload { name: self.name.clone(), open: Owned::new(Mutex::new(Some(begun))) })
    }
}

#[cold]
fn released(name: &str) -> PyErr {
    PyValueError::new_err(format!("volume '{name}' was released: take it again"))
}

#[pymethods]
impl Owner {
    /// The volume's name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The length in bytes of the space that files can still use.
    #[getter]
    fn free(&self, py: Python<'_>) -> PyResult<u64> {
        self.change(py, |owner| Ok(owner.files().usage()?.free.0))
    }

    /// The properties of the file or directory `path`.
    fn stat(&self, py: Python<'_>, path: PathBuf) -> PyResult<Stat> {
        let path = parsed(&path)?;
        let (number, inode) = self.change(py, |owner| owner.stat(&path))?;
        Ok(Stat { number, inode })
    }

    /// Begins the file `path`, whose bytes `Upload.write` appends. It appears with `Upload.commit`.
    /// If its `size` is known, it gets exactly the space that it needs.
    #[pyo3(signature = (path, *, replace=false, size=None))]
    fn upload(
        &self,
        py: Python<'_>,
        path: PathBuf,
        replace: bool,
        size: Option<u64>,
    ) -> PyResult<Upload> {
        let path = parsed(&path)?;
        let replace = self::replace(replace);
        self.begin(py, &path, UploadOptions { size: size.map(ByteLen), replace })
    }

    /// Creates the file `path` with the bytes of `source`: any object with a C-contiguous buffer, or
    /// with a method `read`, whose `size` may be given.
    #[pyo3(signature = (path, source, *, replace=false, size=None))]
    fn put(
        &self,
        py: Python<'_>,
        path: PathBuf,
        source: &Bound<'_, PyAny>,
        replace: bool,
        size: Option<u64>,
    ) -> PyResult<Stat> {
        if !source.hasattr("read")? {
            let len = Bytes::readable(source)?.len();
            let size = Some(u64::try_from(len).expect("usize is at most 64 bits wide"));
            let upload = self.upload(py, path, replace, size)?;
            upload.write(py, source)?;
            return upload.commit(py);
        }
        let upload = self.upload(py, path, replace, size)?;
        let copied = (|| {
            loop {
                let piece = source.call_method1("read", (PIECE_LEN,))?;
                if upload.write(py, &piece)? == 0 {
                    return Ok(());
                }
            }
        })();
        match copied {
            Ok(()) => upload.commit(py),
            Err(error) => {
                upload.discard(py)?;
                Err(error)
            }
        }
    }

    /// Creates the empty directory `path`.
    fn mkdir(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let path = parsed(&path)?;
        self.change(py, |owner| owner.mkdir(&path))
    }

    /// Removes `path`, a file or an empty directory.
    fn remove(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let path = parsed(&path)?;
        self.change(py, |owner| owner.remove(&path).map(drop))
    }

    /// Renames `source`, a file or a directory, to `target`. With `replace`, a file or an empty
    /// directory of the same kind is replaced.
    #[pyo3(signature = (source, target, *, replace=false))]
    fn rename(
        &self,
        py: Python<'_>,
        source: PathBuf,
        target: PathBuf,
        replace: bool,
    ) -> PyResult<()> {
        let (from, to) = (parsed(&source)?, parsed(&target)?);
        self.change(py, |owner| owner.rename(&from, &to, self::replace(replace)))
    }

    /// Releases the volume, when calls of other threads have returned. Files that were not committed
    /// are discarded.
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
        format!("<nearflash.Owner '{}'>", self.name)
    }
}

/// A file that is not part of its volume before `commit`. Nobody else sees any of it.
#[pyclass(frozen, module = "nearflash")]
pub(crate) struct Upload {
    name: Box<str>,
    /// `None` after it was committed or discarded.
    open: Owned<Mutex<Option<Begun>>>,
}

impl Upload {
    /// Runs a step, while other Python threads run.
    fn step<T: Send>(
        &self,
        py: Python<'_>,
        step: impl FnOnce(&mut Option<Begun>) -> Result<T, FilesError> + Send,
    ) -> PyResult<T> {
        let open = self.open.get()?;
        let done = py.detach(|| {
            let mut begun = open.lock().unwrap_or_else(PoisonError::into_inner);
            begun.is_some().then(|| step(&mut begun))
        });
        let ended = || PyValueError::new_err("the file was committed or discarded already");
        done.ok_or_else(ended)?.map_err(|error| files_raised(py, &error))
    }
}

#[pymethods]
impl Upload {
    /// Appends `data`, any object with a C-contiguous buffer. Returns the number of bytes. After an
    /// error, the file is discarded.
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        let bytes = Bytes::readable(data)?;
        let place = bytes.as_slice();
        self.step(py, |held| {
            let written = held.as_mut().map_or(Ok(()), |begun| begun.write(place));
            if written.is_err()
                && let Some(begun) = held.take()
            {
                begun.abandon();
            }
            written
        })?;
        Ok(bytes.len())
    }

    /// Makes the file part of the volume, durably. Returns its properties.
    fn commit(&self, py: Python<'_>) -> PyResult<Stat> {
        let finished = self.step(py, |held| held.take().map(Begun::finish).transpose());
        let (number, inode) = finished?.expect("a step has a file");
        Ok(Stat { number, inode })
    }

    /// Gives the space back. A file that was committed or discarded stays as it is.
    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        let open = self.open.get()?;
        py.detach(|| {
            let taken = open.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(begun) = taken {
                begun.abandon();
            }
        });
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("<nearflash.Upload to '{}'>", self.name)
    }
}
