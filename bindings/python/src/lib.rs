//! The Rust side of the Python package `nearflash`: volumes, queue pairs, their errors.
//!
//! What is Python by nature (exceptions, asyncio, fsspec) is Python, in `python/nearflash`; here is
//! what touches the client library. Every call that may wait lets other Python threads run.
//!
//! Knows nothing of the protocol. Invariants: memory of Python objects is touched only while their
//! buffer is held, and never after the call, or the operation, that borrowed it is over; what was
//! opened before a `fork` is neither used nor closed by the child, whose parent still has it.

#![allow(unsafe_code)] // the buffer protocol; every block says why it is sound

mod bytes;
mod client;
mod error;
mod forks;
mod queue_pair;
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
    use super::queue_pair::QueuePair;
    #[pymodule_export]
    use super::volume::Volume;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        super::forks::watch(module.py())
    }
}
