//! Forked processes.
//!
//! A child has its parent's connections: two processes that use one connection break it, and so
//! does a child that closes it. So each connection records the process that created it, by the
//! number of forks, which is cheaper to read than the process id.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The number of forks between the first process and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// A value that belongs to the process that created it. A child can neither access nor drop it.
pub(crate) struct Owned<T> {
    /// Always `Some`; `drop` takes it.
    value: Option<T>,
    forks: u64,
}

impl<T> Owned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Some(value), forks: FORKS.load(Ordering::Relaxed) }
    }

    /// The value, in its own process.
    pub(crate) fn get(&self) -> PyResult<&T> {
        self.value.as_ref().filter(|_| self.is_ours()).ok_or_else(forked)
    }

    /// As [`Self::get`].
    pub(crate) fn get_mut(&mut self) -> PyResult<&mut T> {
        if self.is_ours() { self.value.as_mut().ok_or_else(forked) } else { Err(forked()) }
    }

    fn is_ours(&self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if !self.is_ours() {
            mem::forget(self.value.take());
        }
    }
}

#[cold]
fn forked() -> PyErr {
    PyValueError::new_err(
        "this object was opened before the process was forked: open it again in the child",
    )
}

/// Registers a hook that counts forks.
pub(crate) fn watch(py: Python<'_>) -> PyResult<()> {
    let hooks = PyDict::new(py);
    hooks.set_item("after_in_child", wrap_pyfunction!(was_forked, py)?)?;
    py.import("os")?.call_method("register_at_fork", (), Some(&hooks)).map(|_| ())
}

#[pyfunction]
fn was_forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
