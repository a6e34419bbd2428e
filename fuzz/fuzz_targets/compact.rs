#![no_main]

use hopbyte_fabric::compact::seal;
use hopbyte_fuzz::dump;
use hopbyte_observe::fabric::Format;
use libfuzzer_sys::fuzz_target;

// The hash at the end is made good, or nothing behind it would ever be reached.
fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    seal(&mut bytes);
    dump(Format::Compact, &bytes);
});
