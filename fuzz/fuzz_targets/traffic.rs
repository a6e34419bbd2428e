#![no_main]

use hopbyte_fuzz::traffic;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| traffic(bytes));
