//! Threads: those of `std::thread::spawn` and `Scope::spawn` end the process where a limit on processes (`ulimit -u`,
//! `pids.max`) refuses one.

use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// Starts a thread.
///
/// # Errors
/// The system refuses it.
pub fn start<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().spawn(work).map_err(|e| refused(&e))
}

/// Starts a thread of a scope.
///
/// # Errors
/// The system refuses it.
pub fn start_in<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    Builder::new()
        .spawn_scoped(scope, work)
        .map_err(|e| refused(&e))
}

pub(crate) fn refused(error: &io::Error) -> io::Error {
    let limit = "the limit on processes is that of ulimit -u, or pids.max of a container";
    io::Error::new(error.kind(), format!("starting a thread: {error}; {limit}"))
}
