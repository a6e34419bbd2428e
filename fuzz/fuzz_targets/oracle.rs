#![no_main]

use hopbyte_fuzz::oracle;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| oracle(bytes));
