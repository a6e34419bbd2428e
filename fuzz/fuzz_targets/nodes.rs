#![no_main]

use hopbyte_fuzz::nodes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| nodes(bytes));
