#!/bin/sh
# usage: scripts/need.sh PROGRAM=PACKAGE …
# Makes sure that programs are there: installs Debian packages where that is allowed, else says what
# to install and exits with 3. PROGRAM may be a path, for packages that carry no program.
missing=
for pair in "$@"; do
  program=${pair%%=*}
  command -v "$program" >/dev/null 2>&1 || [ -e "$program" ] || missing="$missing ${pair#*=}"
done
[ -n "$missing" ] || exit 0

run=
if [ "$(id -u)" != 0 ]; then
  run=sudo
  sudo -n true 2>/dev/null || run=none
fi
if [ "$run" != none ] && command -v apt-get >/dev/null 2>&1; then
  echo "installing$missing" >&2
  # shellcheck disable=SC2086  # a list of packages
  $run apt-get install -y -qq $missing >/dev/null 2>&1 ||
    { $run apt-get update -qq && $run apt-get install -y -qq $missing >/dev/null; } || run=none
fi
if [ "$run" = none ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "missing on this machine; please install (Debian package names):$missing" >&2
  exit 3
fi
