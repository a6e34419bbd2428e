#![no_main]

use hopbyte_fuzz::{TORUS, counters};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| counters(TORUS, bytes));
