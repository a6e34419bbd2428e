#!/bin/sh
# usage: scripts/need.sh [APT-OPTION …] PROGRAM=PACKAGE …
# Installs the Debian packages of missing programs where permitted; otherwise lists them and exits with 3.
# PROGRAM may be a path, for packages without a program. While another process holds the package manager's
# lock, waits up to NEED_WAIT_SECONDS (900).
options=
missing=
for word in "$@"; do
  case $word in
  -*) options="$options $word" ;;
  *) command -v "${word%%=*}" >/dev/null 2>&1 || [ -e "${word%%=*}" ] || missing="$missing ${word#*=}" ;;
  esac
done
[ -n "$missing" ] || exit 0

run=env
if [ "$(id -u)" != 0 ]; then
  run='sudo -n env'
  sudo -n true 2>/dev/null || run=
fi

# apt-get has three locks (dpkg's, the archive's, the lists'), of which DPkg::Lock::Timeout covers one: retry instead.
apt_get() {
  patience=${NEED_WAIT_SECONDS:-900}
  until said=$($run LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get "$@" 2>&1 >/dev/null); do
    case $said in *'Could not get lock'* | *'Unable to lock'* | *'Unable to acquire'*) ;; *) return 1 ;; esac
    [ "$patience" -gt 0 ] || return 1
    [ -n "$waiting" ] || echo "waiting for the package manager's lock, which another process holds" >&2
    waiting=yes
    patience=$((patience - 2))
    sleep 2
  done
}

if [ -n "$run" ] && command -v apt-get >/dev/null 2>&1; then
  echo "installing$missing" >&2
  waiting=
  # shellcheck disable=SC2086  # lists of options and of packages
  apt_get install -y -qq $options $missing ||
    { apt_get update -qq && apt_get install -y -qq $options $missing; } && exit 0
  echo "$said" >&2
fi
echo "missing on this machine; please install (Debian package names):$missing" >&2
exit 3
