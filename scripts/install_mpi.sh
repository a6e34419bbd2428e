#!/bin/sh
# usage: scripts/install_mpi.sh PREFIX
# Builds the preload libraries and the probes for the installed MPIs and installs them where `hopbyte record`,
# `probe run` and `apply --check` look: PREFIX/lib/hopbyte and PREFIX/libexec/hopbyte/MPI. Without an MPI, a note.
# MUSL_CC, a compiler for musl: builds what calls no MPI and the preload libraries, which need an MPI's headers only, into
# MUSL_BUILD.
set -e
prefix=$1
here=$(dirname "$0")/..
built=$here/build parts="mpi probes"
if [ -n "${MUSL_CC:-}" ]; then
  built=$MUSL_BUILD parts=mpi
fi
# usage: build PART TARGET...
build() {
  part=$1
  shift
  make -s -C "$here/$part" "$@" ${MUSL_CC:+"CC=$MUSL_CC" "OUT=$built/$part"}
}
# For doctor --memory, lab run --disturb and agent --fabric-wide; a C compiler is enough.
if command -v gcc >/dev/null; then
  build mpi doctor
  install -D -m 755 "$built/mpi/hopbyte-memory" "$prefix/libexec/hopbyte/hopbyte-memory"
  build probes disturb mads
  for program in disturb mads; do
    install -D -m 755 "$built/probes/hopbyte-$program" "$prefix/libexec/hopbyte/hopbyte-$program"
  done
fi
for part in $parts; do
  status=0
  build "$part" all || status=$?
  # A missing MPI ends the script without an error; other failures are errors.
  if [ "$status" != 0 ]; then
    [ -n "$(command -v mpicc.openmpi mpicc)" ] && exit "$status"
    echo "no MPI here: preload libraries and probes are not installed (make mpi installs Open MPI and MPICH)" >&2
    exit 0
  fi
done
for library in "$built"/mpi/*.so; do
  install -D -m 755 "$library" "$prefix/lib/hopbyte/$(basename "$library")"
done
for header in "$here"/mpi/include/*.h "$here"/mpi/include/cray/*.h; do
  install -D -m 644 "$header" "$prefix/include/hopbyte/${header#"$here"/mpi/include/}"
done
for flavour in ompi mpich abi mpich3 mpich4 mpich5; do
  for program in "$built/probes/$flavour"/*; do
    case $program in
    *.so | *'*' | */obj) ;;
    *) install -D -m 755 "$program" "$prefix/libexec/hopbyte/$flavour/$(basename "$program")" ;;
    esac
  done
done
