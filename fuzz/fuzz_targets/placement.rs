#![no_main]

use hopbyte_fuzz::placement;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| placement(bytes));
