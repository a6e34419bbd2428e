#![no_main]

use hopbyte_fuzz::{SMALL_GEMINI, counters};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| counters(SMALL_GEMINI, bytes));
