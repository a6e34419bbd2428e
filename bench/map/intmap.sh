#!/bin/sh
# IntMap (KaHIP/IntegratedProcessMapping, MIT) built into the folder FOLDER, for `make bench-map`:
#   bench/map/intmap.sh FOLDER [SOURCE]
# Some five minutes. SOURCE is a checkout; without it it is cloned.
set -eu
folder=$1
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
source=${2:-$folder/source}
[ ! -x "$folder/ecomap" ] || exit 0
here=$(cd "$(dirname "$0")/../.." && pwd)
"$here/scripts/need.sh" git=git cmake=cmake make=make g++=g++
if [ ! -d "$source" ]; then
    git clone -q https://github.com/KaHIP/IntegratedProcessMapping "$source"
    git -C "$source" checkout -q d85f35aba3487b08ab33a72e5632e3f42d98737c
fi
echo "IntMap: building, some five minutes; output in $folder/build.log" >&2
{
    cmake -S "$source" -B "$folder/build" -DCMAKE_BUILD_TYPE=Release &&
        make -C "$folder/build" -j"$(nproc)" ecomap fastmap strongmap &&
        cp "$folder/build/ecomap" "$folder/build/fastmap" "$folder/build/strongmap" "$folder"
} >"$folder/build.log" 2>&1 || {
    tail -5 "$folder/build.log" >&2
    exit 1
}
