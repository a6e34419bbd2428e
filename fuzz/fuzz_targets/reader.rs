#![no_main]

use hopbyte_fuzz::{Target, target};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

/// The target that `HOPBYTE_FUZZ` names.
static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("HOPBYTE_FUZZ").unwrap_or_default();
    target(&name)
        .unwrap_or_else(|| panic!("HOPBYTE_FUZZ={name:?}: expected a folder of fuzz/seeds"))
});

fuzz_target!(|bytes: &[u8]| TARGET(bytes));
