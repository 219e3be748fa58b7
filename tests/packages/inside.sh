#!/bin/bash
# Runs inside a fresh Debian 12 as root (./dev test packages): installs an older version of the packages, upgrades to the present one, uses
# what is installed, and purges it. The packages lie in /packages/old and /packages/new.
#
# usage: inside.sh OLD-VERSION NEW-VERSION
set -euo pipefail
old=$1 new=$2
export KILN_HOME=/tmp/kiln-home
. /packages/common.sh

check_version() { # VERSION
    local program shown
    for program in /usr/bin/kiln*; do
        shown=$("$program" --version)
        case $shown in *"$1"*) ;; *) fail "$program --version says $shown, not $1" ;; esac
    done
}

say "what the packages depend on"
apt-get update -qq
apt-get install -s --no-install-recommends /packages/old/*.deb | sed -n 's/^Inst \([^ ]*\) .*/\1/p' | grep -vxF "$(ours)" > /tmp/dependencies
xargs apt-get install -qq -y --no-install-recommends < /tmp/dependencies > /tmp/apt.log 2>&1 || fail "what the packages depend on does not install"
list_files > /tmp/files-before
list_users > /tmp/users-before

say "installing $old"
install_all old
check_packages "$old"
echo KILN_TRACKER=tracker.lab:9477 > /etc/default/kiln # as an administrator would
runuser -u kiln -- env KILN_HOME=/var/lib/kiln kiln key new board/b1 -o /var/lib/kiln/b1.key > /dev/null
install -D -m 600 /var/lib/kiln/b1.key /var/lib/kiln-board/key

say "upgrading to $new"
install_all new
check_packages "$new"
check_version "$new"
grep -qx KILN_TRACKER=tracker.lab:9477 /etc/default/kiln || fail "the upgrade changed /etc/default/kiln"
[ -s /var/lib/kiln/keys ] || fail "the upgrade removed the tracker's keys"

say "pages, completions, units"
for program in $(basename -a /usr/bin/kiln*); do
    for file in "man/man1/$program.1.gz" "bash-completion/completions/$program" "zsh/vendor-completions/_$program" "fish/vendor_completions.d/$program.fish"; do
        [ -s "/usr/share/$file" ] || fail "/usr/share/$file is missing"
    done
done
for unit in $(basename -s .service /lib/systemd/system/kiln-*); do
    found=$(systemd-analyze verify "/lib/systemd/system/$unit.service" 2>&1) || fail "systemd-analyze verify $unit: $found"
    [ -z "$found" ] || fail "systemd-analyze verify $unit: $found"
    [ ! -e "/etc/systemd/system/multi-user.target.wants/$unit.service" ] || fail "$unit is enabled, though nobody said so"
done
# Exposure levels, ten times, as of today: a unit that loses a restriction is noticed.
declare -A exposure=([kiln-tracker]=16 [kiln-tuner]=27 [kiln-rpc-server]=46 [kiln-web]=27)
for unit in $(basename -s .service /lib/systemd/system/kiln-*); do
    systemd-analyze security --offline=true --no-pager --threshold="${exposure[$unit]}" "/lib/systemd/system/$unit.service" > /tmp/security ||
        fail "systemd-analyze security: $(tail -1 /tmp/security), above ${exposure[$unit]} tenths"
done

say "tuning with the installed programs"
cd /tmp
kiln zoo gemm:32x32x32 -o m.onnx
kiln tune m.onnx --trials 8 --out m.kiln > tune.log 2>&1 || { cat tune.log >&2 && fail "kiln tune failed"; }
kiln-run m.kiln --bench > run.log || fail "kiln-run failed"
python3 -c '
import kiln
module = kiln.load("/tmp/m.kiln")
assert [port.name for port in module.inputs], module
' || fail "the module kiln of Python failed"

say "a tracker as the unit starts it"
kiln-tracker --listen unix:/tmp/tracker.sock --state /tmp/tracker --port-file /tmp/ready 2> /tmp/tracker.log &
tracker=$!
kiln-rpc-server --tracker unix:/tmp/tracker.sock --key b1 --state /tmp/board --calibrate never 2> /tmp/board.log &
board=$!
seen=
for ((i = 0; i < 3000 && ${#seen} == 0; i++)); do
    seen=$(kiln fleet list --tracker unix:/tmp/tracker.sock --json 2> /tmp/fleet.log | grep b1 || true)
    kill -0 $tracker $board 2> /dev/null || { cat /tmp/tracker.log /tmp/board.log >&2 && fail "tracker or board ended"; }
done
[ -n "$seen" ] || { cat /tmp/tracker.log /tmp/board.log /tmp/fleet.log >&2 && fail "the board does not appear"; }
kill $board $tracker
wait $board $tracker || true

say "purging"
purge_all
list_files > /tmp/files-after
list_users > /tmp/users-after
diff /tmp/files-before /tmp/files-after || fail "purging left or removed files"
diff /tmp/users-before /tmp/users-after || fail "purging left or removed users"
say "nothing is left"
