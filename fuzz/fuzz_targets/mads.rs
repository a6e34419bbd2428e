#![no_main]

use hopbyte_fuzz::subnet_counters;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| subnet_counters(bytes));
