#!/bin/sh
# usage: scripts/wheel.sh PYTHON PROFILE DIST [TARGET]
# A wheel into DIST: the extension by maturin, then the files that `make install` puts below PREFIX/lib/hopbyte and
# PREFIX/share, which pip installs below the environment's prefix. PYTHON is that of a virtual environment. TARGET is
# x86_64-unknown-linux-musl for a musllinux wheel, which needs musl-gcc.
set -eu
python=$1 profile=$2 dist=$3 target=${4:-}
stage=$(pwd)/build/wheel$target
rm -rf "$stage"
mkdir -p "$stage/prefix" "$dist"
"$python" -m pip install -q maturin wheel
case $target in
*-musl)
  # Rust asks for a shared libgcc_s, which would have to come from a musl system; its own static unwinder does as well.
  mkdir -p "$stage/link"
  cp "$(rustc --print sysroot)/lib/rustlib/$target/lib/self-contained/libunwind.a" "$stage/link/libgcc_s.a"
  linker=CARGO_TARGET_$(echo "$target" | tr 'a-z-' 'A-Z_')_LINKER
  export "$linker=musl-gcc" RUSTFLAGS="-C target-feature=-crt-static -L $stage/link"
  # With the kernel's headers, which musl-gcc does not look for.
  for headers in linux asm-generic rdma "$(uname -m)-linux-gnu/asm"; do
    ln -s "/usr/include/$headers" "$stage/link/$(basename "$headers")"
  done
  printf '#!/bin/sh\nexec musl-gcc "$@" -idirafter "%s"\n' "$stage/link" > "$stage/link/cc"
  chmod +x "$stage/link/cc"
  export MUSL_CC="$stage/link/cc" MUSL_BUILD="$stage/musl"
  set -- --target "$target" --compatibility musllinux_1_2
  ;;
*) set -- ;;
esac
"$python" -m maturin build -q --locked --profile "$profile" --out "$stage/built" "$@" ${WHEEL_OPTIONS:-}
unset RUSTFLAGS
"$python" -m wheel unpack -d "$stage" "$stage"/built/hopbyte-*.whl
unpacked=$(echo "$stage"/hopbyte-*)
data=$unpacked/$(basename "$unpacked").data/data
make -s install-shared DESTDIR="$stage/prefix" PREFIX=
scripts/install_mpi.sh "$stage/prefix"
mkdir -p "$data/lib" "$data/share"
# Only what the command looks for: units and completions belong to a system's package.
cp -r "$stage/prefix/share/hopbyte" "$data/share/hopbyte"
[ ! -d "$stage/prefix/lib/hopbyte" ] || cp -r "$stage/prefix/lib/hopbyte" "$data/lib/hopbyte"
find "$data/lib" -name '*.so' -exec strip --strip-unneeded {} +
# Programs without an MPI; the probes are compiled against one site's MPI.
mkdir -p "$data/libexec/hopbyte" "$stage/prefix/libexec/hopbyte"
find "$stage/prefix/libexec/hopbyte" -maxdepth 1 -type f -exec cp -t "$data/libexec/hopbyte" {} +
find "$data/libexec/hopbyte" -type f -exec strip {} +
mkdir -p "$data/share/man" "$data/share/doc/hopbyte"
cp build/sbom/hopbyte.cdx.json build/sbom/third-party.txt "$data/share/doc/hopbyte/"
"$python" -m wheel pack -d "$dist" "$unpacked"
