#!/bin/sh
# usage: tests/capi/run.sh FOLDER, with cargo's `hopbyte` and libhopbyte
# Compiles the examples of libhopbyte in C and Fortran and a test of its limits without a warning, and runs them against
# a running oracle, the C programs under the address, undefined-behaviour and thread sanitizers too.
set -e
lib=$1
hopbyte=$lib/hopbyte
root=$(cd "$(dirname "$0")/../.." && pwd)
capi=$root/crates/capi
cd "$root"
work=$(mktemp -d)
oracle=
trap 'kill $oracle 2>/dev/null; rm -rf "$work"' EXIT

strict="-Wall -Wextra -Werror -Wpedantic -Wshadow -Wstrict-prototypes -std=c11 -D_POSIX_C_SOURCE=200809L -g"
link="-I$capi/include -L$lib -Wl,-rpath,$lib -lhopbyte -pthread -lm"
for name in border slow remap; do
  source=$capi/examples/$name.c
  [ -e "$source" ] || source=$root/tests/capi/$name.c
  # shellcheck disable=SC2086  # lists of words
  gcc $strict -o "$work/$name" "$source" $link
  # shellcheck disable=SC2086
  gcc $strict -fsanitize=address,undefined -fno-sanitize-recover=all -o "$work/$name-sanitized" "$source" $link
  # shellcheck disable=SC2086
  gcc $strict -fsanitize=thread -o "$work/$name-threads" "$source" $link
done
# shellcheck disable=SC2086
gfortran -Wall -Wextra -Werror -std=f2018 -g -J "$work" -o "$work/remap-fortran" "$capi/examples/remap.f90" $link
# The header alone compiles as C++ too, and the static library is self-contained.
if command -v g++ >/dev/null; then
  echo '#include <hopbyte.h>' | g++ -Wall -Wextra -Werror -Wpedantic -I"$capi/include" -fsyntax-only -x c++ -
fi
# shellcheck disable=SC2086
gcc $strict -I"$capi/include" -o "$work/remap-static" "$capi/examples/remap.c" "$lib/libhopbyte.a" -pthread -lm -ldl

# The library exports exactly the functions that the header declares.
grep -o 'hopbyte_[a-z_]*(' "$capi/include/hopbyte.h" | tr -d '(' | sort -u >"$work/declared"
nm -D --defined-only "$lib/libhopbyte.so" | sed -n 's/.* T \(.*\)/\1/p' | sort >"$work/defined"
diff "$work/declared" "$work/defined"

# A torus with one link used to 61 % by other jobs.
printf '{"schema":"hopbyte.link/1","link":"r0-0-0 Z+","used_ratio":0.61}\n{"schema":"hopbyte.link/1","summary":{}}\n' \
  >"$work/links.jsonl"
"$hopbyte" --quiet oracle serve "$work/links.jsonl" --fabric torus:2x2x8 --socket "$work/socket" \
  >"$work/serving" &
oracle=$!
for _ in $(seq 600); do
  [ "$(wc -l <"$work/serving")" -ge 2 ] && break
  kill -0 "$oracle"
  sleep 0.05
done
url=$(head -n 1 "$work/serving")

python3 "$root/tests/capi/faces.py" "$lib/libhopbyte.so" "$hopbyte"
"$work/border" && "$work/border-sanitized"
"$work/slow" "$work/slow.socket" && "$work/slow-sanitized" "$work/slow.socket"
# The thread sanitizer does not see the synchronisation inside libhopbyte, which is not built for it.
export TSAN_OPTIONS="halt_on_error=1:ignore_noninstrumented_modules=1"
"$work/border-threads" && "$work/slow-threads" "$work/slow.socket"
for address in "" "$work/socket" "$url"; do
  for program in remap remap-sanitized remap-static remap-fortran; do
    # shellcheck disable=SC2086  # no address is no word
    "$work/$program" torus:2x2x8 $address >"$work/$program.out" || { cat "$work/$program.out"; exit 1; }
  done
  cmp "$work/remap.out" "$work/remap-sanitized.out"
  cmp "$work/remap.out" "$work/remap-static.out"
  cat "$work/remap.out"
  snapshot=$(sed -n 's/^snapshot \([0-9]*\).*/\1/p' "$work/remap-fortran.out")
  grep -q "^snapshot $snapshot:" "$work/remap.out"
  if [ -n "$address" ]; then [ "$snapshot" -gt 0 ]; else [ "$snapshot" = 0 ]; fi
done
# Installed below its own prefix, the library is found by pkg-config alone, and runs from there.
prefix=/opt/hopbyte
make -s install-built BUILT="$lib" DESTDIR="$work/stage" PREFIX=$prefix >"$work/installed" 2>&1 || { cat "$work/installed"; exit 1; }
export PKG_CONFIG_SYSROOT_DIR="$work/stage" PKG_CONFIG_LIBDIR="$work/stage$prefix/lib/pkgconfig"
[ "$(pkg-config --modversion hopbyte)" = "$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)" ]
# shellcheck disable=SC2046,SC2086  # lists of words
gcc $strict -o "$work/remap-installed" "$capi/examples/remap.c" $(pkg-config --cflags --libs hopbyte)
# shellcheck disable=SC2046
gfortran -std=f2018 -J "$work" -o "$work/remap-fortran-installed" "$capi/examples/remap.f90" $(pkg-config --libs hopbyte)
for program in remap remap-fortran; do
  LD_LIBRARY_PATH="$work/stage$prefix/lib" "$work/$program-installed" torus:2x2x8 "$url" >"$work/$program-installed.out"
done
cmp "$work/remap.out" "$work/remap-installed.out"
cmp "$work/remap-fortran.out" "$work/remap-fortran-installed.out"
"$work/stage$prefix/bin/hopbyte" --version >/dev/null
[ -s "$work/stage$prefix/share/man/man1/hopbyte-map.1" ]
# Errors give a message and an exit code.
if "$work/remap-fortran" nowhere 2>"$work/said" >"$work/said.out"; then exit 1; fi
grep -q "nowhere" "$work/said.out"
if "$work/remap" torus:2x2x9 "$work/socket" 2>"$work/said"; then exit 1; fi
grep -q "another machine" "$work/said"
