//! Errors as Python exceptions.

use hopbyte_fabric::{Class, InputError};
use hopbyte_job::failure::input;
use hopbyte_job::{causes, class, told};
use hopbyte_observe::ObserveError;
use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::error::Error;
use std::io;

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
    let system = |cause: &'_ (dyn Error + 'static)| match cause.downcast_ref::<ObserveError>() {
        Some(ObserveError::Io { source, .. }) => Some(refused(source, error)),
        _ => Some(refused(
            cause
                .downcast_ref::<io::Error>()
                .filter(|e| !is_of_content(e))?,
            error,
        )),
    };
    if let Some(exception) = causes(error).find_map(system) {
        return identified(exception, error);
    }
    let exception = identified(HopbyteError::new_err(in_python(&told(error))), error);
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

/// OSError chooses the subclass (FileNotFoundError, …) by the number; an error in our own words has only its kind.
fn refused(source: &io::Error, error: &(dyn Error + 'static)) -> PyErr {
    match source.raw_os_error() {
        Some(number) => PyOSError::new_err((number, told(error))),
        None => io::Error::new(source.kind(), told(error)).into(),
    }
}

/// Whether the file could be read and its content is wrong.
fn is_of_content(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    let kinds = [K::InvalidData, K::UnexpectedEof, K::InvalidInput];
    kinds.contains(&error.kind())
}

/// The functions of the package with their arguments.
const STUBS: &str = include_str!("../../../python/hopbyte/_core.pyi");
/// Arguments with another name than their option.
const RENAMED: [(&str, &str); 1] = [("counters_of", "node")];
/// Words before an option of hopbyte; others begin the command line of another program.
const LEADS: [&str; 9] = [
    "", "give", "with", "without", "or", "and", "by", "for", "of",
];

/// Options of a text by the names of their arguments: at its beginning `ranks_per_node` for `--ranks-per-node`, further on
/// `nodes=` for `--nodes`, if a function has it. Command lines stay.
fn in_python(text: &str) -> String {
    let mut parts = text.split("--");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_of_name = |c: char| c.is_ascii_lowercase() || c == '-';
        let end = part.find(|c| !is_of_name(c)).unwrap_or(part.len());
        let (option, rest) = part.split_at(end);
        let name = option.replace('-', "_");
        let renamed = RENAMED.iter().find(|r| r.0 == name);
        let name = renamed.map_or(&*name, |r| r.1);
        let is_value = |value: &&str| {
            let mut word = value.chars().take_while(|c| !c.is_whitespace());
            word.any(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
        };
        if out.is_empty() {
            out.extend([name, rest]);
        } else if leads(&out) && STUBS.contains(&format!(" {name}: ")) {
            let value = rest.strip_prefix([' ', '=']).filter(is_value);
            out.extend([name, "=", value.unwrap_or(rest)]);
        } else {
            out.extend(["--", option, rest]);
        }
    }
    out
}

/// Whether an option of hopbyte may follow a text, which is no command line.
fn leads(text: &str) -> bool {
    let line = text.rsplit('\n').next().unwrap_or_default();
    let line = line.strip_prefix("hint: ").unwrap_or(line);
    let last = line.trim_end().rsplit([' ', '(', ':', ',', ';']).next();
    let is_command = text.matches('`').count() % 2 == 1 || line.contains("hopbyte ");
    !is_command
        && last.is_some_and(|word| LEADS.contains(&word))
        && !line.ends_with(char::is_alphanumeric)
}

/// The refusal of an argument of a type that is not expected.
pub fn of_type(name: &str, value: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    let kind = value.get_type();
    let kind = kind
        .name()
        .map_or_else(|_| "another type".into(), |n| n.to_string());
    PyTypeError::new_err(format!("{name}: found {kind}, expected {expected}"))
}

/// `None` each for an error that is of no file.
fn attributes(py: Python<'_>, exception: &PyErr, input: Option<&InputError>) {
    let value = exception.value(py);
    let _ = value.setattr("file", input.map(|i| in_python(&i.file)));
    let _ = value.setattr("line", input.and_then(|i| i.line));
    let _ = value.setattr("found", input.map(|i| &*i.found));
    let _ = value.setattr("expected", input.map(|i| in_python(&i.expected)));
    let hint = input.and_then(|i| i.hint.as_deref());
    let _ = value.setattr("hint", hint.map(in_python));
}
