//! Long work that a signal ends: Python's handlers run on its main thread only, between calls of this module.

use hopbyte_observe::threads::start_in;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Time between two looks at pending signals.
const PERIOD: Duration = Duration::from_millis(20);

/// Flags that no search uses: as many are made as there are searches at one time.
static FREE: Mutex<Vec<&'static AtomicBool>> = Mutex::new(Vec::new());

/// Runs work on a thread of its own. Once a signal handler raises (Ctrl-C: `KeyboardInterrupt`), the work's flag is set,
/// and the exception is raised when the work has ended.
pub fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&'static AtomicBool) -> PyResult<T> + Send,
) -> PyResult<T> {
    let free = || FREE.lock().unwrap_or_else(PoisonError::into_inner);
    let flag = free()
        .pop()
        .unwrap_or_else(|| Box::leak(Box::new(AtomicBool::new(false))));
    let (done, changed) = (Mutex::new(false), Condvar::new());
    let (answer, raised) = std::thread::scope(|scope| {
        let worker = start_in(scope, || {
            let _end = Ended(&done, &changed);
            work(flag)
        })?;
        let mut raised = Ok(());
        let wait = || {
            let done = done.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = changed.wait_timeout_while(done, PERIOD, |done| !*done);
            *waited.unwrap_or_else(PoisonError::into_inner).0
        };
        while !py.detach(wait) {
            if raised.is_ok() {
                raised = py.check_signals();
                flag.store(raised.is_err(), Ordering::Relaxed);
            }
        }
        PyResult::Ok((py.detach(|| worker.join()), raised))
    })?;
    flag.store(false, Ordering::Relaxed);
    free().push(flag);
    raised?;
    answer.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Tells the end of the work, also by a panic.
struct Ended<'a>(&'a Mutex<bool>, &'a Condvar);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.1.notify_one();
    }
}
