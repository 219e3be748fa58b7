# What the scripts that try the packages share. They run as root in a fresh Debian, where the packages lie in /packages/old and
# /packages/new.
export DEBIAN_FRONTEND=noninteractive

say() { printf '## %s\n' "$*"; }
fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}
install_all() { # old|new
    apt-get install -qq -y --no-install-recommends "/packages/$1"/*.deb > /tmp/apt.log 2>&1 || { tail -20 /tmp/apt.log >&2 && fail "the packages of $1 do not install"; }
}
ours() { for package in /packages/new/*.deb; do dpkg-deb -f "$package" Package; done; }
purge_all() {
    # shellcheck disable=SC2046 # names
    apt-get purge -qq -y $(ours) > /tmp/apt.log 2>&1 || { tail -20 /tmp/apt.log >&2 && fail "the packages do not purge"; }
}
check_packages() { # VERSION
    local package
    for package in $(ours); do
        [ "$(dpkg-query -W -f '${db:Status-Status} ${Version}' "$package")" = "installed $1" ] || fail "$package is not installed in version $1"
    done
}

# Every file, with its kind and owner, but for what package managers, loaders and a running system write by themselves.
list_files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /packages -o -path /run -o -path /var/cache -o -path /var/log \
        -o -path /var/tmp -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/lib/systemd \) -prune -o -printf '%p %y %u %g\n' |
        grep -vE '^/etc/(ld\.so\.cache|(passwd|group|shadow|gshadow|subuid|subgid)-?|\.pwd\.lock|resolv\.conf) ' | sort
}
list_users() { cut -d : -f 1,3 /etc/passwd /etc/group | sort; }
