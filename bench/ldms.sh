#!/bin/sh
# LDMS 4.5.3 (ovis-hpc/ldms, GPL or BSD) built into the folder FOLDER, for the benches that run beside it:
#   bench/ldms.sh FOLDER [SOURCE]
# Some five minutes. SOURCE is a checkout of the tag v4.5.3; without it it is cloned.
set -eu
folder=$1
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
source=${2:-$folder/source}
[ ! -x "$folder/sbin/ldmsd" ] || exit 0
here=$(cd "$(dirname "$0")/.." && pwd)
"$here/scripts/need.sh" git=git autoconf=autoconf automake=automake libtoolize=libtool pkg-config=pkg-config bison=bison \
    flex=flex rst2man=python3-docutils /usr/include/munge.h=libmunge-dev /usr/include/jansson.h=libjansson-dev \
    /usr/include/openssl/ssl.h=libssl-dev python3-config=python3-dev gettext=gettext
[ -d "$source" ] || git clone -q --depth 1 -b v4.5.3 https://github.com/ovis-hpc/ldms "$source"
cd "$source"
echo "LDMS 4.5.3: building, some five minutes; output in $folder/build.log" >&2
build() {
    { [ -x configure ] || ./autogen.sh; } &&
        ./configure -q --prefix="$folder" --enable-test_sampler --disable-static --disable-lustre \
            --disable-cray_power_sampler &&
        make -s -j"$(nproc)" &&
        make -s install
}
build >"$folder/build.log" 2>&1 || {
    tail -5 "$folder/build.log" >&2
    exit 1
}
