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

cat > "$folder/etc/systemd/system/kiln-booted.service" << UNIT
[Unit]
Requires=multi-user.target
After=multi-user.target

[Service]
Type=oneshot
ExecStart=/bin/touch /packages/has-booted
ExecStart=$*
ExecStopPost=/bin/systemctl exit \$EXIT_STATUS
StandardOutput=append:/packages/output
StandardError=inherit
UNIT
rm -f "$folder/packages/has-booted" "$folder/packages/output"
code=0
SYSTEMD_COLORS=0 timeout --kill-after=10 1800 systemd-nspawn "${how[@]}" -- systemd.unit=kiln-booted.service < /dev/null > "$folder/packages/console" 2>&1 || code=$?
if [ ! -e "$folder/packages/has-booted" ]; then
    printf 'systemd does not boot here (%s): %s\n' "$code" "$(grep -v '^ *$' "$folder/packages/console" | tail -1)" >&2
    exit 77
fi
cat "$folder/packages/output"
exit "$code"
