#![no_main]

use hopbyte_fuzz::{MODEL, codes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [_, intra, inter] = MODEL;
    codes(bytes, intra, inter);
});
