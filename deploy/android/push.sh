#!/bin/sh
# Puts kiln-rpc-server onto an Android phone on a cable and starts it: the phone dials the tracker of this machine
# through the cable, so it needs no network, no root and no app.
#
# usage: deploy/android/push.sh --tracker 127.0.0.1:PORT [--key NAME] [--key-file F] [--serial S] [--program F] [--stop]
#
#   --tracker   where the tracker listens on this machine
#   --key       name under which the phone serves (default: its model)
#   --key-file  the phone's key (kiln key new); without one the token of $KILN_HOME, as for programs of this machine
#   --serial    which phone, where several are connected (adb devices)
#   --program   kiln-rpc-server for the phone (default: what ./dev cross made for its processor)
#   --stop      ends the server on the phone
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
place=/data/local/tmp/kiln
tracker='' key='' key_file='' serial='' program='' stop=''

fail() {
    printf 'push.sh: %s\n' "$*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
        --stop) stop=1 && shift && continue ;;
        --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit 0 ;;
    esac
    [ $# -ge 2 ] || fail "$1 wants a value; --help lists the options"
    case $1 in
        --tracker) tracker=$2 ;;
        --key) key=$2 ;;
        --key-file) key_file=$2 ;;
        --serial) serial=$2 ;;
        --program) program=$2 ;;
        *) fail "unknown option $1; --help lists them" ;;
    esac
    shift 2
done

command -v adb > /dev/null || fail "adb is missing; on Debian: apt-get install adb"
device() { adb ${serial:+-s "$serial"} "$@"; }
phone() { device shell "$@" < /dev/null; }

state=$(device get-state 2>&1) || fail "no phone: $state (is USB debugging on, and this computer allowed?)"
[ "$state" = device ] || fail "the phone is $state; unlock it and allow this computer"

stop_server() { phone "[ ! -f $place/pid ] || kill \$(cat $place/pid) 2> /dev/null; rm -f $place/pid" || true; }
if [ -n "$stop" ]; then
    stop_server
    echo "stopped"
    exit 0
fi

case $tracker in
    127.0.0.1:* | localhost:*) port=${tracker##*:} ;;
    '') fail "--tracker 127.0.0.1:PORT is missing" ;;
    *) fail "the phone reaches only this machine through the cable: --tracker 127.0.0.1:PORT" ;;
esac

abi=$(phone getprop ro.product.cpu.abi | tr -d '\r')
case $abi in
    arm64-v8a) arch=aarch64 ;;
    armeabi-v7a) arch=armhf ;;
    x86_64) arch=x86_64-static ;;
    *) fail "no server for phones of kind $abi" ;;
esac
if [ -z "$program" ]; then
    folder=build-$arch
    [ -z "$key_file" ] || folder=build-$arch-tls
    program=$root/$folder/rpc-server/kiln-rpc-server
fi
[ -x "$program" ] || fail "$program is missing; make it with: ./dev cross $arch"
[ -n "$key" ] || key=$(phone getprop ro.product.model | tr -d '\r' | tr ' ' '-')

home=${KILN_HOME:-$HOME/.local/state/kiln}
secret=${key_file:-$home/token}
[ -r "$secret" ] || fail "$secret cannot be read; start the tracker first, or name a key with --key-file"

stop_server
phone "mkdir -p $place && chmod 700 $place"
device push "$program" "$place/kiln-rpc-server" > /dev/null
device push "$secret" "$place/$([ -n "$key_file" ] && echo key || echo token)" > /dev/null
phone "chmod 700 $place/kiln-rpc-server; chmod 600 $place/key $place/token 2> /dev/null; true"
device reverse "tcp:$port" "tcp:$port" > /dev/null
# In a session of its own: it stays when the cable's shell ends.
phone "cd $place && : > log && KILN_HOME=$place TMPDIR=$place setsid ./kiln-rpc-server --tracker 127.0.0.1:$port --key '$key' > log 2>&1 < /dev/null & echo \$! > $place/pid"

tries=0
until phone "grep -q 'connected to the tracker' $place/log"; do
    phone "kill -0 \$(cat $place/pid)" 2> /dev/null || fail "the server ended: $(phone "tail -n 3 $place/log")"
    tries=$((tries + 1))
    [ $tries -lt 240 ] || fail "the server runs but does not reach the tracker: $(phone "tail -n 3 $place/log")"
    sleep 0.5
done
echo "$key serves; its log: adb shell cat $place/log; to end it: deploy/android/push.sh --stop"
