#![no_main]

use hopbyte_fuzz::{GEMINI, counters};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| counters(GEMINI, bytes));
