#!/bin/sh
# Packs what ./dev cross made into archives of a release for boards, and signs them (docs/reference/release.md).
#
# usage: deploy/release.sh [--key-file KEY] [--out DIR] ARCH...
#
#   ARCH        what ./dev cross builds: aarch64, armhf or x86_64-static
#   --key-file  a file of kiln key new, or a signing.key, to sign with; without it nothing is signed
#   --out       where the archives go (default: dist)
#
# KILN names the command that signs (default: build/cli/kiln). SOURCE_DATE_EPOCH is the time in the archives (default: that of the
# last commit).
set -eu
umask 022

root=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n "s/^project(.* version: '\([^']*\)'.*/\1/p" "$root/meson.build")
key='' out=$root/dist
kiln=${KILN:-$root/build/cli/kiln}

fail() {
    printf 'release.sh: %s\n' "$*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
        --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit 0 ;;
        --key-file) key=${2:?--key-file names a file} && shift 2 ;;
        --out) out=${2:?--out names a folder} && shift 2 ;;
        -*) fail "unknown option $1" ;;
        *) break ;;
    esac
done
[ $# -gt 0 ] || fail "name the architectures: aarch64 armhf x86_64-static"
[ -z "$key" ] || [ -r "$key" ] || fail "$key cannot be read"
[ -z "$key" ] || [ -x "$kiln" ] || fail "$kiln, which signs, is missing; make it with: ./dev build"
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct)}

mkdir -p "$out"
stage=$(mktemp -d "$out/stage.XXXXXX")
trap 'rm -rf "$stage"' EXIT
for arch in "$@"; do
    folder=$root/build-$arch-tls
    for program in rpc-server/kiln-rpc-server deploy/run/kiln-run; do
        [ -x "$folder/$program" ] || fail "build-$arch-tls/$program is missing; make it with: ./dev cross $arch"
    done
    name=kiln-board-$version-${arch%-static}
    python3 "$root/deploy/install/sbom.py" "$stage/sbom" kiln-board "$version" "${arch%-static}" "$epoch" "$folder" "$root/build-sysroot/$arch" \
        rpc-server/kiln-rpc-server deploy/run/kiln-run
    python3 "$root/deploy/install/archive.py" "$out/$name.tar.zst" kiln-board "$version" "${arch%-static}" "$epoch" \
        "755:bin/kiln-rpc-server=$folder/rpc-server/kiln-rpc-server" "755:bin/kiln-run=$folder/deploy/run/kiln-run" \
        "644:systemd/kiln-rpc-server.service=$root/deploy/systemd/kiln-rpc-server.service" "644:sbom.spdx.json=$stage/sbom" \
        "644:LICENSE=$root/LICENSE" "644:README.md=$root/deploy/raspberry-pi.md"
    rm -f "$out/$name.tar.zst.release"
    [ -z "$key" ] || "$kiln" key sign-release "$out/$name.tar.zst" --key-file "$key"
    (cd "$out" && sha256sum "$name.tar.zst")
done
