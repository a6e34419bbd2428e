#!/bin/sh
# All unsafe code of libhopbyte under Miri, which finds undefined behaviour. Needs a nightly toolchain with miri:
#   rustup toolchain install nightly -c miri -c rust-src
set -e
cd "$(dirname "$0")/.."
# The mapper reads the clock. Addresses pass between threads as numbers, as in C.
export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance"
exec cargo +nightly miri test --locked -p hopbyte-capi --test unsafe_code "$@"
