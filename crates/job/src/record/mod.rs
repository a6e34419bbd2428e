//! Recording a job: launching it with the preload library of its MPI, and reading its ranks' files.

pub mod child;
pub mod launch;
pub mod merge;
pub(crate) mod output;
mod preload;
pub mod times;
pub mod variables;
