//! Ctrl-C while something is searched: the first ends the search, the second the process.

use signal_hook::consts::SIGINT;
use signal_hook::flag::{register, register_conditional_shutdown};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

/// Exit code of a process that Ctrl-C ended, as shells give it.
const ENDED: i32 = 130;

/// The flag that the first Ctrl-C sets. From the first call on a Ctrl-C no longer ends the process, but the
/// second one does, with exit code 130. Where no handler can be installed, every Ctrl-C ends the process.
pub fn flag() -> &'static AtomicBool {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        // In this order: the second handler sees what the first Ctrl-C set, not what this one sets.
        if register_conditional_shutdown(SIGINT, ENDED, Arc::clone(&flag)).is_ok() {
            let _ = register(SIGINT, Arc::clone(&flag));
        }
        flag
    })
}
