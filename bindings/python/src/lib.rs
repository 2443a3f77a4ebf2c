//! The Rust part of the Python package `nearflash`: volumes, queue pairs, files and their errors.
//!
//! Parts that are specific to Python (exceptions, asyncio, fsspec) are written in Python, in
//! `python/nearflash`; this crate wraps the client library. Every call that may wait lets other
//! Python threads run.
//!
//! The crate knows nothing about the protocol. Invariants: memory of Python objects is accessed
//! only while their buffer is held, and never after the end of the call or operation that borrowed
//! it; a child neither uses nor closes a connection that was opened before the `fork`, since its
//! parent still has it.

#![allow(unsafe_code)] // the buffer protocol; every block says why it is sound

mod bytes;
mod client;
mod error;
mod file_errors;
mod files;
mod forks;
mod memory;
mod owner;
mod queue_pair;
mod seconds;
mod volume;

/// The module `nearflash._nearflash`.
#[pyo3::pymodule]
mod _nearflash {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::client::{Client, connect};
    #[pymodule_export]
    use super::error::codes;
    #[pymodule_export]
    use super::files::{File, Files, Stat};
    #[pymodule_export]
    use super::memory::bytes_of;
    #[pymodule_export]
    use super::owner::{Owner, Upload};
    #[pymodule_export]
    use super::queue_pair::QueuePair;
    #[pymodule_export]
    use super::volume::Volume;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        super::forks::watch(module.py())
    }
}
