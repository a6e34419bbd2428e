#![no_main]

use hopbyte_fuzz::lines;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| lines(bytes));
