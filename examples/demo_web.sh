#!/usr/bin/env bash
# A live search in the dashboard: a tracker, a tuner, a board and kiln-web on this machine, and a job that tunes the small network of
# handwritten digits (or MODEL.onnx). Run it as `./dev demo --web [MODEL.onnx]`; Ctrl-C ends everything. KILN_BIN is the folder of the build,
# KILN_DEMO_SECONDS how long the job may search.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=${KILN_BIN:?which build folder?}
model=${1:-$here/digits/digits.onnx}
work=$(mktemp -d)
export KILN_HOME=$work/home
trap 'trap - EXIT; kill $(jobs -p) 2> /dev/null || true; wait; rm -rf "$work"' EXIT
trap 'exit 0' INT TERM

say() { printf '\n== %s\n' "$*"; }
until_there() { # FILE: waits until it has something in it
    for ((i = 0; i < 300; i++)); do
        [ ! -s "$1" ] || return 0
        read -r -t 0.1 _ <> <(:) || true
    done
    cat "$work"/*.log >&2
    exit 1
}
start() { # NAME ARGUMENT...: in the background, its log in a file
    local name=$1
    shift
    "$@" --with-parent > "$work/$name.out" 2> "$work/$name.log" &
}

say "Starting a tracker, a tuner, a board and the web server"
start tracker "$bin/tracker/kiln-tracker" --listen 127.0.0.1:0 --port-file "$work/port"
until_there "$work/port"
tracker=127.0.0.1:$(< "$work/port")
start tuner "$bin/tuner/kiln-tuner" --tracker "$tracker" --db "$work/kiln.db"
start board "$bin/rpc-server/kiln-rpc-server" --tracker "$tracker" --key here
start web "$bin/web/kiln-web" --tracker "$tracker" --listen 0 --db "$work/kiln.db" --link
until_there "$work/web.out"

say "Tuning $(basename "$model") for at most ${KILN_DEMO_SECONDS:-600} s"
"$bin/cli/kiln" tune "$model" --tracker "$tracker" --seconds "${KILN_DEMO_SECONDS:-600}" --trials 20000 --job demo --detach
say "Watch it here; Ctrl-C ends the demo"
cat "$work/web.out"
wait
