#!/bin/sh
# All unsafe code of libhopbyte under Miri, which finds undefined behaviour. Needs a nightly toolchain with miri:
#   rustup toolchain install nightly -c miri -c rust-src
set -e
cd "$(dirname "$0")/.."
# The mapper reads the clock. Addresses pass between threads as numbers, as in C. crossbeam-epoch, below rayon, follows the
# aliasing rules of Tree Borrows, not those of Stacked Borrows, and keeps its queues until the process ends: leaks are
# for the address sanitizer (tests/capi).
export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance -Zmiri-tree-borrows -Zmiri-ignore-leaks"
exec cargo +nightly miri test --locked -p hopbyte-capi --test unsafe_code "$@"
