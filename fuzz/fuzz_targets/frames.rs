#![no_main]

use hopbyte_fuzz::frames;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| frames(bytes));
