#!/bin/sh
# Runs every fuzz target for some seconds each (default 30); stops at the first finding.
#   scripts/fuzz.sh [SECONDS] [TARGET...]
set -e
cd "$(dirname "$0")/.."
seconds=${1:-30}
[ $# -eq 0 ] || shift
PATH="$PATH:$HOME/.cargo/bin"
command -v cargo-fuzz >/dev/null || cargo install --locked cargo-fuzz
export RUSTC_BOOTSTRAP=1
[ $# -gt 0 ] || set -- $(ls fuzz/seeds)
cargo fuzz build --sanitizer none reader
for target in "$@"; do
    mkdir -p "fuzz/corpus/$target" "fuzz/artifacts/$target"
    echo "== $target"
    HOPBYTE_FUZZ=$target cargo fuzz run --sanitizer none reader "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
        -artifact_prefix="fuzz/artifacts/$target/" \
        -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 2>&1 |
        grep -E 'stat::number_of_executed_units|stat::peak_rss|panicked|ERROR|Test unit' || true
    [ -z "$(ls "fuzz/artifacts/$target")" ] ||
        { echo "found: fuzz/artifacts/$target" >&2; exit 1; }
done
