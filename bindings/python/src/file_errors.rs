//! Errors of files become Python's own: `FileNotFoundError`, `IsADirectoryError` and the other classes
//! that `OSError` chooses by its number. Errors of the connection keep their classes.

use nearflash::direct::TakeError;
use nearflash_files_service::{FilesError, NameError};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use rustix::io::Errno;

use crate::error::raised;

/// The exception for an error of files.
#[cold]
pub(crate) fn files_raised(py: Python<'_>, error: &FilesError) -> PyErr {
    match error {
        FilesError::Open(error) | FilesError::Take(TakeError::Client(error)) => raised(py, error),
        FilesError::Disk { source, .. } => match of_node(source) {
            Some(error) => raised(py, error),
            None => numbered(Errno::IO, error.to_string()),
        },
        FilesError::Take(TakeError::Held { volume, owner, seen }) => {
            let seen = seen.as_secs_f64();
            let message = format!(
                "the files of volume '{volume}' are being changed by another process: {owner}, seen \
                 {seen:.1} s ago: try again when it has ended, or stop it"
            );
            numbered(Errno::AGAIN, message)
        }
        FilesError::Released { .. } => PyValueError::new_err(error.to_string()),
        error => numbered(error.errno(), error.to_string()),
    }
}

/// The exception for a path that is not valid.
#[cold]
pub(crate) fn name_raised(error: &NameError, path: &std::path::Path) -> PyErr {
    match error {
        NameError::TooLong(_) | NameError::PathTooLong(_) => {
            numbered(Errno::NAMETOOLONG, error.to_string())
        }
        _ => PyValueError::new_err(format!("{path:?}: {error}")),
    }
}

fn numbered(number: Errno, message: String) -> PyErr {
    PyOSError::new_err((number.raw_os_error(), message))
}

/// The error of the client in an I/O error.
fn of_node(error: &std::io::Error) -> Option<&nearflash::Error> {
    error.get_ref()?.downcast_ref()
}
