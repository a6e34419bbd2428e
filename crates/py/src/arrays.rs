//! NumPy views of Rust memory.

use numpy::ndarray::{ArrayView1, ArrayView2, ShapeError};
use numpy::{Element, PyArray1, PyArray2, PyArrayMethods};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// A read-only array over the memory of `values`, owned by `owner`.
///
/// `values` must be borrowed from the object behind `owner`, and that object must never change or move it: all
/// classes here are frozen and never change their column vectors after construction.
pub fn column<'py, T: Element>(owner: Bound<'py, PyAny>, values: &[T]) -> Bound<'py, PyArray1<T>> {
    let view = ArrayView1::from(values);
    // SAFETY: the array keeps `owner` alive, which holds `values` and is frozen (see above).
    let array = unsafe { PyArray1::borrow_from_array(&view, owner) };
    array.readwrite().make_nonwriteable();
    array
}

/// The same with rows of equal length.
pub fn matrix<'py, T: Element>(
    owner: Bound<'py, PyAny>,
    values: &[T],
    [rows, columns]: [usize; 2],
) -> PyResult<Bound<'py, PyArray2<T>>> {
    let view = ArrayView2::from_shape((rows, columns), values)
        .map_err(|e: ShapeError| PyRuntimeError::new_err(e.to_string()))?;
    // SAFETY: as in `column`.
    let array = unsafe { PyArray2::borrow_from_array(&view, owner) };
    array.readwrite().make_nonwriteable();
    Ok(array)
}
