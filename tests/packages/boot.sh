#!/bin/bash
# Boots the Debian in a folder by systemd-nspawn, runs a command there as a service and shuts it down: systemd is process 1, in namespaces of
# its own, without network. Prints what the command prints. Exit code: that of the command; 77: nothing boots here, standard error says why.
#
# usage: boot.sh FOLDER COMMAND [WORD...]      as root; words without spaces
set -euo pipefail
folder=$1
shift
how=(--quiet --boot --directory="$folder" --machine="kiln-$$" --register=no --private-network --console=read-only
    --resolv-conf=off --timezone=off --link-journal=no)
# Without a systemd of this machine there is nobody to ask for a scope.
[ -d /run/systemd/system ] || how+=(--keep-unit)

boot() { # SECONDS COMMAND [WORD...]: exit code of the command, or that of a systemd-nspawn which fails
    cat > "$folder/etc/systemd/system/kiln-booted.service" << UNIT
[Unit]
Requires=multi-user.target
After=multi-user.target

[Service]
Type=oneshot
ExecStart=${*:2}
ExecStopPost=/bin/systemctl exit \$EXIT_STATUS
StandardOutput=append:/packages/output
StandardError=inherit
UNIT
    SYSTEMD_COLORS=0 timeout --kill-after=10 "$1" systemd-nspawn "${how[@]}" -- systemd.unit=kiln-booted.service < /dev/null > "$folder/packages/console" 2>&1
}

code=0
boot 300 /bin/true || code=$?
if [ "$code" -ne 0 ]; then
    printf 'systemd does not boot here (%s): %s\n' "$code" "$(grep -v '^ *$' "$folder/packages/console" | tail -1)" >&2
    exit 77
fi
rm -f "$folder/packages/output"
boot 1800 "$@" || code=$?
cat "$folder/packages/output"
exit "$code"
