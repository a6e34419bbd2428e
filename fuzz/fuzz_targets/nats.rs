#![no_main]

use hopbyte_fuzz::nats;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| nats(bytes));
