//! Signals to end: the first Ctrl-C ends a search, the second the process; all of them end a job that runs.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag::{register, register_conditional_shutdown};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Exit code of a process ended by Ctrl-C, as in shells.
const ENDED: i32 = 130;

/// The flag of the first Ctrl-C. From the first call on, the first Ctrl-C does not end the process, but the
/// second one does, with exit code 130. If no handler can be installed, every Ctrl-C ends the process.
pub fn flag() -> &'static AtomicBool {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        // The order matters: the second handler must see the flag of an earlier Ctrl-C, not of the same one.
        if register_conditional_shutdown(SIGINT, ENDED, Arc::clone(&flag)).is_ok() {
            let _ = register(SIGINT, Arc::clone(&flag));
        }
        flag
    })
}

/// Lets a Ctrl-C end the process with exit code 130 from now on; whether the first one was before.
pub fn end_at_once() -> bool {
    let always = Arc::new(AtomicBool::new(true));
    let _ = register_conditional_shutdown(SIGINT, ENDED, always);
    flag().load(Ordering::Relaxed)
}

/// The flag of SIGTERM, SIGINT and SIGHUP, none of which ends the process from the first call on.
pub fn terminated() -> &'static AtomicBool {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            let _ = register(signal, Arc::clone(&flag));
        }
        flag
    })
}

/// Lets a write beyond a limit on file sizes (`ulimit -f`) fail with an error, as on a full disk.
pub fn outlive_file_limits() {
    let _ = register(SIGXFSZ, Arc::default());
}
