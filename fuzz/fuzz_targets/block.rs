#![no_main]

use hopbyte_fuzz::block;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| block(bytes));
