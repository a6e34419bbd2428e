//! Ctrl-C during a search: the first ends the search, the second the process.

use signal_hook::consts::SIGINT;
use signal_hook::flag::{register, register_conditional_shutdown};
use std::sync::atomic::AtomicBool;
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
