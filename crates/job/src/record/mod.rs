//! A job under the recorder: launching it with the preload library of its MPI, and reading what its ranks left.

pub mod launch;
pub mod merge;
