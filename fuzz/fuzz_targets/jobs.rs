#![no_main]

use hopbyte_fuzz::jobs;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| jobs(bytes));
