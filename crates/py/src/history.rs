//! The readings of a collector's store as columns.

use crate::errors::python;
use crate::machine::Machine;
use hopbyte_serve::range::Range;
use hopbyte_serve::source::{MOST_ROWS, history};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;

/// Columns of all ticks of a store between two times: see `hopbyte.history`.
#[pyfunction]
#[pyo3(signature = (store, machine, start, end, only))]
pub fn store_history<'py>(
    py: Python<'py>,
    store: PathBuf,
    machine: &Machine,
    start: Option<f64>,
    end: Option<f64>,
    only: Option<Vec<String>>,
) -> PyResult<(Bound<'py, PyDict>, Vec<String>)> {
    let range = Range::of_seconds(("start", start), ("end", end)).map_err(python)?;
    let fabric = machine.fabric();
    let mut time = Vec::new();
    let mut window = Vec::new();
    let mut link: Vec<u32> = Vec::new();
    let mut columns: [Vec<f64>; 5] = Default::default();
    let mut least = Vec::new();
    let notes = py.detach(|| {
        history(
            &store,
            range,
            fabric,
            only.as_deref(),
            &mut |at, links, state| {
                for &l in links {
                    time.push(at);
                    window.push(state.window_seconds.unwrap_or(f64::NAN));
                    link.push(l.0);
                    least.push(!state.at_least(l).is_empty());
                    let of = [
                        &state.received_bytes,
                        &state.used_ratio,
                        &state.input_stall_ratio,
                        &state.credit_stall_ratio,
                        &state.errors,
                    ];
                    for (column, values) in columns.iter_mut().zip(of) {
                        column.push(values.get(l).unwrap_or(f64::NAN));
                    }
                }
                time.len() <= MOST_ROWS
            },
        )
    });
    let notes = notes.map_err(python)?;
    let table = PyDict::new(py);
    table.set_item("time_seconds", time.into_pyarray(py))?;
    table.set_item("window_seconds", window.into_pyarray(py))?;
    let names: Vec<String> = fabric.link_ids().map(|l| fabric.link_name(l)).collect();
    let shown: Vec<&str> = link.iter().map(|&l| names[l as usize].as_str()).collect();
    table.set_item("link", shown)?;
    let number: Bound<'py, PyArray1<u32>> = link.into_pyarray(py);
    table.set_item("link_number", number)?;
    let titles = [
        "received_bytes",
        "used_ratio",
        "input_stall_ratio",
        "credit_stall_ratio",
        "errors",
    ];
    for (title, values) in titles.into_iter().zip(columns) {
        table.set_item(title, values.into_pyarray(py))?;
    }
    let least: Bound<'py, PyArray1<bool>> = least.into_pyarray(py);
    table.set_item("errors_at_least", least)?;
    Ok((table, notes))
}
