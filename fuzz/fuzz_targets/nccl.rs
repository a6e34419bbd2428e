#![no_main]

use hopbyte_fuzz::dump;
use hopbyte_observe::fabric::Format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| dump(Format::Nccl, bytes));
