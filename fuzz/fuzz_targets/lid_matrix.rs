#![no_main]

use hopbyte_fuzz::{Role, SUBNET, companion};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| companion(SUBNET, Role::Tables, bytes));
