//! `hopbyte._core`: the same machine, costs and mapping for Python.
//!
//! Thin wrappers: every function converts its arguments, calls the crate that implements it, and wraps the
//! result. Arrays are read-only views of the wrapped object's memory, without copies. Long work runs without
//! the interpreter lock.

// Arguments arrive converted and owned.
#![allow(clippy::needless_pass_by_value)]

mod answers;
mod arrays;
mod costs;
mod errors;
mod history;
mod html;
mod interrupt;
mod links;
mod machine;
mod mapping;
mod placement;
mod traffic;

use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs the command line (the command's file first) and returns its exit code.
#[pyfunction]
fn run(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    // The process is an interpreter, which is not what starts the command again.
    if let Some(command) = arguments.first() {
        hopbyte_job::program::name(command.into());
    }
    py.detach(|| hopbyte_cli::run(arguments))
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add(
        "HopbyteError",
        module.py().get_type::<errors::HopbyteError>(),
    )?;
    // Refusals without a class of their own.
    let error = module.getattr("HopbyteError")?;
    error.setattr("id", hopbyte_fabric::Class::Refused.id())?;
    module.add_class::<machine::Machine>()?;
    module.add_class::<links::Links>()?;
    module.add_class::<costs::RouteCosts>()?;
    module.add_class::<traffic::Traffic>()?;
    module.add_class::<placement::Placement>()?;
    module.add_class::<mapping::Evaluation>()?;
    module.add_class::<mapping::Mapping>()?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(machine::load_fabric, module)?)?;
    module.add_function(wrap_pyfunction!(machine::_machine, module)?)?;
    module.add_function(wrap_pyfunction!(traffic::_traffic, module)?)?;
    module.add_function(wrap_pyfunction!(placement::_placement, module)?)?;
    module.add_function(wrap_pyfunction!(links::_links, module)?)?;
    module.add_function(wrap_pyfunction!(links::links, module)?)?;
    module.add_function(wrap_pyfunction!(costs::route_costs, module)?)?;
    module.add_function(wrap_pyfunction!(traffic::load_traffic, module)?)?;
    module.add_function(wrap_pyfunction!(placement::load_placement, module)?)?;
    module.add_function(wrap_pyfunction!(placement::place, module)?)?;
    module.add_function(wrap_pyfunction!(mapping::evaluate, module)?)?;
    module.add_function(wrap_pyfunction!(mapping::map, module)?)?;
    module.add_function(wrap_pyfunction!(answers::verify, module)?)?;
    module.add_function(wrap_pyfunction!(answers::predict, module)?)?;
    module.add_function(wrap_pyfunction!(answers::model, module)?)?;
    module.add_function(wrap_pyfunction!(answers::analyse_probe, module)?)?;
    module.add_function(wrap_pyfunction!(answers::blame, module)?)?;
    module.add_function(wrap_pyfunction!(answers::explain_errors, module)?)?;
    module.add_function(wrap_pyfunction!(history::store_history, module)?)?;
    Ok(())
}
