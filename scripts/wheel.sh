#!/bin/sh
# usage: scripts/wheel.sh PYTHON PROFILE DIST
# A wheel into DIST: the extension by maturin, then the files that `make install` puts below PREFIX/lib/hopbyte and
# PREFIX/share, which pip installs below the environment's prefix. PYTHON is that of a virtual environment.
set -eu
python=$1 profile=$2 dist=$3
stage=build/wheel
rm -rf "$stage"
mkdir -p "$stage/prefix" "$dist"
"$python" -m pip install -q maturin wheel
"$python" -m maturin build -q --locked --profile "$profile" --out "$stage/built" ${WHEEL_OPTIONS:-}
"$python" -m wheel unpack -d "$stage" "$stage"/built/hopbyte-*.whl
unpacked=$(echo "$stage"/hopbyte-*)
data=$unpacked/$(basename "$unpacked").data/data
make -s install-shared DESTDIR="$(pwd)/$stage/prefix" PREFIX=
scripts/install_mpi.sh "$(pwd)/$stage/prefix"
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
