//! Times in seconds, as Python gives them.

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// An optional duration, in seconds.
pub(crate) fn seconds(name: &str, given: Option<f64>, default: Duration) -> PyResult<Duration> {
    let Some(seconds) = given else { return Ok(default) };
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        PyValueError::new_err(format!("{name}: {seconds} is not a valid time in seconds"))
    })
}
