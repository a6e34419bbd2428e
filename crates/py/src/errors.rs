//! Errors as Python exceptions.

use hopbyte_fabric::{Class, InputError};
use hopbyte_job::failure::input;
use hopbyte_job::{JobError, class, told};
use hopbyte_observe::ObserveError;
use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyOverflowError, PyValueError};
use pyo3::prelude::*;
use std::error::Error;

create_exception!(
    hopbyte,
    HopbyteError,
    PyValueError,
    "Invalid input. The text names the place, the found and the expected value, and a \
     hint; for files also as the attributes file, line, found, expected and hint. id is the identifier of the \
     error's class (HB0201), which `hopbyte explain` describes."
);

/// Converts any error: errors of the operating system to OSError, others to HopbyteError.
pub fn python(error: impl Error + 'static) -> PyErr {
    let error: &(dyn Error + 'static) = &error;
    let root = match error.downcast_ref::<JobError>() {
        Some(error) => error.root(),
        None => error,
    };
    if let Some(ObserveError::Io { source, .. }) = root.downcast_ref::<ObserveError>() {
        return identified(refused(source, error), error);
    }
    if let Some(source) = root.downcast_ref::<std::io::Error>() {
        return identified(refused(source, error), error);
    }
    let exception = identified(HopbyteError::new_err(told(error)), error);
    Python::attach(|py| attributes(py, &exception, input(error)));
    exception
}

/// Converters of whole numbers, for `from_py_with`: a number that does not fit is refused with the argument's name, as
/// Python's own error (OverflowError) does not.
macro_rules! whole_numbers {
    ($($name:ident),*) => {
        $(pub fn $name<T>(value: &Bound<'_, PyAny>) -> PyResult<T>
        where
            T: for<'a, 'py> FromPyObject<'a, 'py, Error: Into<PyErr>>,
        {
            whole(stringify!($name), value)
        })*
    };
}

whole_numbers!(
    ranks_per_node,
    trials,
    seed,
    threads,
    tasks,
    worst,
    node,
    router
);

fn whole<T>(name: &str, value: &Bound<'_, PyAny>) -> PyResult<T>
where
    T: for<'a, 'py> FromPyObject<'a, 'py, Error: Into<PyErr>>,
{
    value.extract::<T>().map_err(|error| {
        let error: PyErr = error.into();
        if !error.is_instance_of::<PyOverflowError>(value.py()) {
            return error;
        }
        let expected = "a whole number, not negative, of a usual size";
        python(InputError::new(name, value.to_string(), expected).of(Class::OptionValue))
    })
}

/// With the identifier of the error's class; the exception is useful without it too.
fn identified(exception: PyErr, error: &(dyn Error + 'static)) -> PyErr {
    Python::attach(|py| {
        let _ = exception.value(py).setattr("id", class(error).id());
    });
    exception
}

/// OSError chooses the subclass (FileNotFoundError, …) by the number.
fn refused(source: &std::io::Error, error: &(dyn Error + 'static)) -> PyErr {
    match source.raw_os_error() {
        Some(number) => PyOSError::new_err((number, told(error))),
        None => PyOSError::new_err(told(error)),
    }
}

/// `None` each for an error that is of no file.
fn attributes(py: Python<'_>, exception: &PyErr, input: Option<&InputError>) {
    let value = exception.value(py);
    let _ = value.setattr("file", input.map(|i| &i.file));
    let _ = value.setattr("line", input.and_then(|i| i.line));
    let _ = value.setattr("found", input.map(|i| &*i.found));
    let _ = value.setattr("expected", input.map(|i| &i.expected));
    let _ = value.setattr("hint", input.and_then(|i| i.hint.as_ref()));
}
