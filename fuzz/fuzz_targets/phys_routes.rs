#![no_main]

use hopbyte_fuzz::{GEMINI, Role, companion};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| companion(GEMINI, Role::Tables, bytes));
