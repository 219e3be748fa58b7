#!/bin/sh
# Packs what ./dev cross made into archives for boards, with sums and a signature (deploy/raspberry-pi.md).
#
# usage: deploy/release.sh [--key SIGNING.pem] [--out DIR] ARCH...
#
#   --key   an Ed25519 key (openssl genpkey -algorithm ed25519 -out SIGNING.pem); without one nothing is signed
#   --out   where the archives go (default: build-release)
set -eu
umask 022

root=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n "s/^project(.* version: '\([^']*\)'.*/\1/p" "$root/meson.build")
key='' out=$root/build-release

fail() {
    printf 'release.sh: %s\n' "$*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
        --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit 0 ;;
        --key) key=$2 && shift 2 ;;
        --out) out=$2 && shift 2 ;;
        -*) fail "unknown option $1" ;;
        *) break ;;
    esac
done
[ $# -gt 0 ] || fail "name the architectures: aarch64 armhf x86_64-static"
[ -z "$key" ] || [ -r "$key" ] || fail "$key cannot be read"

mkdir -p "$out"
stage=$(mktemp -d "$out/stage.XXXXXX")
trap 'rm -rf "$stage"' EXIT
names=''
for arch in "$@"; do
    name=kiln-board-$version-$arch
    mkdir -p "$stage/$name/bin" "$stage/$name/systemd"
    for program in rpc-server/kiln-rpc-server deploy/run/kiln-run; do
        [ -x "$root/build-$arch-tls/$program" ] || fail "build-$arch-tls/$program is missing; make it with: ./dev cross $arch"
        install -m 755 "$root/build-$arch-tls/$program" "$stage/$name/bin/"
    done
    install -m 644 "$root/deploy/systemd/kiln-rpc-server.service" "$stage/$name/systemd/"
    install -m 644 "$root/LICENSE" "$stage/$name/"
    install -m 644 "$root/deploy/raspberry-pi.md" "$stage/$name/README.md"
    # No names, times or owners of this machine.
    tar -C "$stage" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - "$name" | gzip -9n > "$out/$name.tar.gz"
    names="$names $name.tar.gz"
done
# shellcheck disable=SC2086 # names are words
(cd "$out" && sha256sum $names > SHA256SUMS)
rm -f "$out/SHA256SUMS.sig"
[ -z "$key" ] || openssl pkeyutl -sign -rawin -inkey "$key" -in "$out/SHA256SUMS" -out "$out/SHA256SUMS.sig"
cat "$out/SHA256SUMS"
