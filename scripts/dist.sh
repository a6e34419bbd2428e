#!/bin/sh
# usage: scripts/dist.sh DIST
# The sources of HEAD with those of all crates, which build without a network, as a tarball into DIST. The same commit
# gives the same bytes.
set -eu
dist=$1
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
name=hopbyte-$version
stage=build/dist
rm -rf "$stage"
mkdir -p "$stage" "$dist"
git archive --prefix="$name/" HEAD | tar -x -C "$stage"
mkdir -p "$stage/$name/.cargo"
(cd "$stage/$name" && ${CARGO:-cargo} vendor --quiet --locked --versioned-dirs vendor)
# With --quiet cargo does not print what it otherwise suggests.
printf '[source.crates-io]\nreplace-with = "vendored"\n\n[source.vendored]\ndirectory = "vendor"\n' \
  > "$stage/$name/.cargo/config.toml"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" \
  -C "$stage" -c "$name" | xz -T0 -6 > "$dist/$name.tar.xz"
rm -rf "$stage"
