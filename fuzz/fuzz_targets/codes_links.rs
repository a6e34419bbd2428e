#![no_main]

use hopbyte_fuzz::{MODEL, codes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [model, intra, inter] = MODEL;
    codes(model, bytes, inter);
    codes(model, intra, bytes);
});
