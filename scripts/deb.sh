#!/bin/sh
# usage: scripts/deb.sh BUILT DIST
# A Debian package of the programs in the folder BUILT, into DIST, from a staged `make install`.
set -eu
built=$1 dist=$2
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
arch=$(dpkg --print-architecture)
stage=build/deb
# The same package from the same sources: times are those of the last commit.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.toml)}
export SOURCE_DATE_EPOCH
umask 022
rm -rf "$stage"
mkdir -p "$stage/DEBIAN" "$dist"
make -s install-built BUILT="$built" PREFIX=/usr DESTDIR="$(pwd)/$stage"

# The probes, a folder for each MPI, are compiled against one site's MPI, and the static library is as large as the rest:
# both from sources.
mkdir -p "$stage/usr/libexec/hopbyte"
find "$stage/usr/libexec/hopbyte" -mindepth 1 -type d -prune -exec rm -rf {} +
rm -f "$stage/usr/lib/libhopbyte.a"
mkdir -p "$stage/usr/share/zsh/vendor-completions"
mv "$stage/usr/share/zsh/site-functions/_hopbyte" "$stage/usr/share/zsh/vendor-completions/"
rmdir "$stage/usr/share/zsh/site-functions"
mkdir -p "$stage/lib"
mv "$stage/usr/lib/systemd" "$stage/lib/systemd"
triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
mkdir -p "$stage/usr/lib/$triplet"
mv "$stage/usr/lib/libhopbyte.so" "$stage/usr/lib/pkgconfig" "$stage/usr/lib/$triplet/"
sed -i "s|/lib\$|/lib/$triplet|" "$stage/usr/lib/$triplet/pkgconfig/hopbyte.pc"
find "$stage/usr/lib" -name '*.so' -exec strip --strip-unneeded {} + -exec chmod 644 {} +
find "$stage/usr/bin" "$stage/usr/libexec" -type f -exec strip {} +
gzip -9n "$stage"/usr/share/man/man1/*.1

doc=$stage/usr/share/doc/hopbyte
install -D -m 644 packaging/debian/copyright "$doc/copyright"
install -D -m 644 -t "$doc" README.md LICENSE-MIT
gzip -9nc CHANGELOG.md > "$doc/CHANGELOG.md.gz"
printf 'hopbyte (%s) stable; urgency=medium\n\n  * See CHANGELOG.md.gz.\n\n -- hopbyte developers <hopbyte@hopbyte.example>  %s\n' \
  "$version" "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n > "$doc/changelog.gz"
gzip -9nc build/sbom/hopbyte.cdx.json > "$doc/hopbyte.cdx.json.gz"
gzip -9nc build/sbom/third-party.txt > "$doc/third-party.txt.gz"
install -D -m 644 -t "$stage/etc/hopbyte" packaging/agent.toml packaging/collect.toml packaging/hopbyte.toml

for script in postinst prerm postrm; do install -m 755 "packaging/debian/$script" "$stage/DEBIAN/$script"; done
install -m 644 -t "$stage/DEBIAN" packaging/debian/conffiles packaging/debian/triggers
install -D -m 644 packaging/debian/lintian-overrides "$stage/usr/share/lintian/overrides/hopbyte"
# dpkg-shlibdeps wants the folder of a source package.
shlibs=build/shlibs
mkdir -p "$shlibs/debian"
printf 'Source: hopbyte\n\nPackage: hopbyte\nArchitecture: any\n' > "$shlibs/debian/control"
files=$(find "$(pwd)/$stage/usr/bin" "$(pwd)/$stage/usr/lib" "$(pwd)/$stage/usr/libexec" -type f \( -perm -u=x -o -name '*.so' \))
# shellcheck disable=SC2086  # a list of files
depends=$(cd "$shlibs" && dpkg-shlibdeps -O --ignore-missing-info $files 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
size=$(du -sk --apparent-size --exclude=DEBIAN "$stage" | cut -f1)
sed -e "s/@VERSION@/$version/" -e "s/@ARCH@/$arch/" -e "s/@SIZE@/$size/" -e "s/@DEPENDS@/${depends:-libc6}/" \
  packaging/debian/control.in > "$stage/DEBIAN/control"
(cd "$stage" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | LC_ALL=C sort -z | xargs -0 md5sum > DEBIAN/md5sums)
find "$stage" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group --build "$stage" "$dist/hopbyte_${version}_$arch.deb"
