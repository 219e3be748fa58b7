#!/bin/bash
# Runs as a service of a Debian that systemd booted (tests/packages/boot.sh), without network: the services of the packages do their work,
# end, start again, start at boot, are upgraded and purged.
#
# usage: booted.sh first|second OLD-VERSION NEW-VERSION      before and after a reboot
set -euo pipefail
old=$2 new=$3
. /packages/common.sh

services=(kiln-tracker kiln-tuner kiln-rpc-server kiln-web)
as_kiln() { runuser -u kiln -- env KILN_HOME=/var/lib/kiln KILN_TRACKER=127.0.0.1:9477 "$@"; }
as_ann() { runuser -u ann -- env HOME=/home/ann KILN_TRACKER=127.0.0.1:9477 "$@"; }
pid_of() { systemctl show -P MainPID "$1"; }
logs() { journalctl --no-pager --quiet --boot --lines 40 --unit "$1" >&2; }

# Asks again until the answer is yes; a machine that is busy takes its time.
wait_for() { # WHAT COMMAND...
    local end=$((SECONDS + 120)) service
    until "${@:2}" > /tmp/wait.log 2>&1; do
        if ((SECONDS > end)); then
            cat /tmp/wait.log >&2
            for service in "${services[@]}"; do logs "$service"; done
            fail "$1: not within 120 s"
        fi
    done
}
state_of() { printf '%s %s' "$(systemctl is-active "$1")" "$(systemctl is-enabled "$1")"; }
restarted() { [ "$(systemctl show -P NRestarts "$1")" -ge 1 ] && is_active "$1"; }
said() { # SERVICE TEXT
    journalctl --quiet --boot --unit "$1" | grep -qF "$2" || { logs "$1" && fail "$1 does not say: $2"; }
}
is_active() { systemctl is-active --quiet "$1"; }
check_active() {
    local service
    for service in "${services[@]}"; do is_active "$service" || { logs "$service" && fail "$service is $(systemctl is-active "$service")"; }; done
}
board_is_free() { as_kiln kiln fleet list --json | python3 -c '
import json, sys
rows = [json.loads(line) for line in sys.stdin]
sys.exit(not any("b1" in str(row) and "free" in str(row) for row in rows))'; }
web() { # PATH [TOKEN]: prints the body
    python3 -c '
import sys, urllib.request
head = {"Authorization": "Bearer " + sys.argv[2]} if len(sys.argv) > 2 else {}
print(urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:9480" + sys.argv[1], headers=head), timeout=20).read().decode())' "$@"
}
web_knows() { web "/api/v1/$1" "$(cat /home/ann/token)" | grep -q "$2"; }
check_all() {
    check_active
    wait_for "the board is offered again" board_is_free
    wait_for "kiln-web knows the board" web_knows boards '"b1"'
    check_active
}

# What the units promise, read from the running processes.
check_sandbox() { # SERVICE USER
    local pid
    pid=$(pid_of "$1")
    [ "$(stat -c %U "/proc/$pid")" = "$2" ] || fail "$1 runs as $(stat -c %U "/proc/$pid"), not as $2"
    grep -qP '^NoNewPrivs:\t1' "/proc/$pid/status" || fail "$1 may gain rights"
    grep -qP '^Seccomp:\t2' "/proc/$pid/status" || fail "$1 has no filter of system calls"
    ! nsenter --target "$pid" --mount -- test -w /usr -o -w /etc || fail "$1 could write below / (ProtectSystem)"
    [ -z "$(nsenter --target "$pid" --mount -- ls /home)" ] || fail "$1 sees /home (ProtectHome)"
    [ -z "$(nsenter --target "$pid" --mount -- ls /tmp)" ] || fail "$1 sees the /tmp of others (PrivateTmp)"
}

tune() { # LOG OPTIONS...
    as_ann kiln tune /packages/digits.onnx --tracker 127.0.0.1:9477 --trials 24 --out /home/ann/digits.kiln "${@:2}" > "$1" 2>&1 || {
        cat "$1" >&2
        local service
        for service in "${services[@]}"; do logs "$service"; done
        fail "a job on the fleet failed"
    }
}
count_records() { as_kiln kiln db --db /var/lib/kiln/kiln.db sql 'SELECT count(*) FROM record' --csv 2>&1 | tail -1; }

first() {
    list_files > /packages/files-before
    list_users > /packages/users-before
    say "installing $old"
    install_all old
    local service
    for service in "${services[@]}"; do
        [ "$(state_of "$service")" = "inactive disabled" ] || fail "$service is $(state_of "$service") after installation"
    done

    say "a tracker without a key says so, and starts once there is one"
    ! systemctl start kiln-tracker 2> /dev/null || fail "the tracker starts without a key"
    said kiln-tracker "kiln key new"

    say "starting them as docs/how-to/install.md says"
    useradd --create-home ann
    echo KILN_TRACKER=127.0.0.1:9477 > /etc/default/kiln
    as_kiln kiln key new board/b1 -o /var/lib/kiln/b1.key > /dev/null
    wait_for "the tracker starts" is_active kiln-tracker
    as_kiln kiln key new client/ann -o /var/lib/kiln/ann.key > /dev/null
    as_kiln kiln key new client/ann --web -o /var/lib/kiln/ann.token > /dev/null
    install -D -m 600 /var/lib/kiln/b1.key /var/lib/kiln-board/key
    install -D -m 600 /var/lib/kiln/ann.key /home/ann/.local/state/kiln/key
    install -m 600 /var/lib/kiln/ann.token /home/ann/token
    chown -R ann: /home/ann
    systemctl enable --now "${services[@]}" 2> /dev/null
    check_all
    for service in "${services[@]:1}"; do [ "$(systemctl show -P NRestarts "$service")" = 0 ] || { logs "$service" && fail "$service needed more than one start"; }; done

    say "the sandboxes hold"
    for service in kiln-tracker kiln-tuner kiln-web; do check_sandbox "$service" kiln; done
    check_sandbox kiln-rpc-server kiln-board
    [ "$(stat -c '%U %a' /var/lib/kiln /var/lib/kiln-board /var/lib/kiln-board/state | paste -s)" = "kiln 700	root 700	kiln-board 700" ] ||
        fail "the folders of state belong to others: $(stat -c '%n %U %a' /var/lib/kiln /var/lib/kiln-board /var/lib/kiln-board/state)"
    pgrep --parent "$(pid_of kiln-rpc-server)" --euid root > /dev/null || fail "the board's server has no helper with rights"

    say "a job"
    tune /tmp/tune.log --job nightly
    as_ann kiln-run /home/ann/digits.kiln --bench > /dev/null || fail "kiln-run failed"
    [ "$(count_records)" -ge 24 ] || fail "the tuner's database has $(count_records) records"
    web_knows jobs nightly || fail "kiln-web does not show the job"
    web / | grep -qi '<!doctype html>' || fail "kiln-web has no page"

    say "systemctl reload and restart, kill -9"
    systemctl reload kiln-tracker
    for service in "${services[@]}"; do
        systemctl restart "$service"
        check_all
    done
    for service in "${services[@]}"; do
        kill -9 "$(pid_of "$service")"
        wait_for "$service comes back" restarted "$service"
        check_all
    done
    count_records > /packages/records
}

second() {
    say "all came back at boot"
    check_all
    [ "$(count_records)" = "$(cat /packages/records)" ] || fail "there were $(cat /packages/records) records before the reboot, and $(count_records) after it"
    web_knows jobs nightly || fail "the tracker forgot its jobs at the reboot"
    local service before=()
    for service in "${services[@]}"; do before+=("$(pid_of "$service")"); done

    say "upgrading to $new while all run"
    install_all new
    check_packages "$new"
    check_all
    for service in "${services[@]}"; do
        [ "$(pid_of "$service")" != "${before[0]}" ] || fail "$service was not restarted by the upgrade"
        before=("${before[@]:1}")
        [ "$(readlink "/proc/$(pid_of "$service")/exe")" = "/usr/bin/$service" ] || fail "$service runs a program that is gone"
        [ "$(state_of "$service")" = "active enabled" ] || fail "$service is $(state_of "$service") after the upgrade"
    done
    [ "$(count_records)" = "$(cat /packages/records)" ] || fail "the upgrade lost records"
    web_knows jobs nightly || fail "the upgrade lost the tracker's jobs"
    tune /tmp/tune.log --job again
    for service in "${services[@]}"; do
        ! journalctl --quiet --boot --priority err --unit "$service" | grep . || fail "$service has logged errors"
    done

    say "purging while all run"
    purge_all
    for service in "${services[@]}"; do
        ! is_active "$service" || fail "$service runs, though its package is gone"
        [ ! -e "/etc/systemd/system/multi-user.target.wants/$service.service" ] || fail "$service is still enabled"
    done
    ! pgrep -l kiln || fail "programs of Kiln are left"
    userdel --remove ann 2> /dev/null # it has no mail
    list_files > /tmp/files-after
    list_users > /tmp/users-after
    diff /packages/files-before /tmp/files-after || fail "purging left or removed files"
    diff /packages/users-before /tmp/users-after || fail "purging left or removed users"
}

"$1"
