//! Errors become exceptions with the same names and messages: the classes of `nearflash.errors`.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

/// The exception classes by error name, and the base class for errors without one.
struct Classes {
    by_name: Py<PyDict>,
    base: Py<PyType>,
}

static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();

/// The exception for an error, as a value.
#[cold]
pub(crate) fn exception<'py>(
    py: Python<'py>,
    error: &nearflash::Error,
) -> PyResult<Bound<'py, PyAny>> {
    let classes = CLASSES.get_or_try_init(py, || Classes::import(py))?;
    let name = error.name();
    let class = match classes.by_name.bind(py).get_item(name)? {
        Some(class) => class,
        // A later version of the library has this error.
        None => classes.base.bind(py).clone().into_any(),
    };
    let exception = class.call1((error.to_string(),))?;
    exception.setattr(intern!(py, "name"), name)?;
    exception.setattr(intern!(py, "is_transient"), error.is_transient())?;
    Ok(exception)
}

/// The exception for an error, to be raised.
#[cold]
pub(crate) fn raised(py: Python<'_>, error: &nearflash::Error) -> PyErr {
    exception(py, error).map_or_else(|failed| failed, PyErr::from_value)
}

impl Classes {
    fn import(py: Python<'_>) -> PyResult<Self> {
        let errors = py.import("nearflash.errors")?;
        let by_name = errors.getattr("BY_NAME")?.cast_into::<PyDict>()?.unbind();
        let base = errors.getattr("Error")?.cast_into::<PyType>()?.unbind();
        Ok(Self { by_name, base })
    }
}

/// Every error: its name and its sentence, in the order of the codes.
#[pyfunction]
#[pyo3(name = "_codes")]
pub(crate) fn codes() -> Vec<(&'static str, &'static str)> {
    nearflash::direct::codes().map(|code| (code.name, code.sentence)).collect()
}
