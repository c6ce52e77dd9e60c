# What the broker scripts share: where a RabbitMQ of a given version comes from, which ports are idle, who listens.
# Sourced, never run.

shopt -s inherit_errexit

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
checkout=$(cd "$here/../.." && pwd)
brokers=$checkout/build/brokers # git-ignored; roots and running nodes live here
versions='3.10 4.0 4.3 system'

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { say "$*"; exit 1; }

# 77 is how Meson is told of a skipped test.
skip() {
    printf '\n*** SKIPPED, NOT PASSED: %s\n\n' "$*" >&2
    exit 77
}

# The Debian release whose rabbitmq-server package has this version.
suite_of() {
    case $1 in
    3.10) echo bookworm ;;
    4.0) echo trixie ;;
    4.3) echo sid ;;
    system) ;;
    *) die "no recipe for RabbitMQ $1; known: $versions" ;;
    esac
}

# The full version of the rabbitmq-server package below a root ('' is the system itself); fails where there is none.
version_in() {
    local server
    for server in "$1"/usr/lib/rabbitmq/lib/rabbitmq_server-*; do
        [ -d "$server" ] && echo "${server##*-}" && return 0
    done
    return 1
}

# Prints the root to run a version from: the system's own package where it is of that version (or `system`, whatever
# that is), else an unpacked Debian release below build/brokers, made when first asked for.
root_of() {
    local version=$1 suite root found
    if [ "$version" = system ]; then
        version_in '' >/dev/null || die "no RabbitMQ is installed on this machine (package rabbitmq-server)"
        echo /
        return
    fi
    suite=$(suite_of "$version")
    if found=$(version_in '') && [[ $found == "$version".* ]]; then
        echo /
        return
    fi
    root=$brokers/$suite
    mkdir -p "$brokers"
    (
        flock 9
        [ -e "$root/.complete" ] || make_root "$suite" "$root"
    ) 9>"$brokers/$suite.lock"
    found=$(version_in "$root") || die "$root holds no RabbitMQ; remove it to have it made again"
    [[ $found == "$version".* ]] ||
        skip "RabbitMQ $version is not to be had: Debian $suite now has $found (remove $root to look again)"
    echo "$root"
}

# Downloads and unpacks rabbitmq-server and what it needs. No maintainer script runs, no user is created, no service
# starts: a node only needs the files.
make_root() {
    local suite=$1 root=$2 log=$brokers/$1.log as_root=() how=()
    command -v mmdebstrap >/dev/null || skip "a root of Debian $suite needs mmdebstrap, which is not installed"
    if [ "$(id -u)" != 0 ]; then
        as_root=(unshare -r) # files of our own, in a namespace of our own
        unshare -r true 2>/dev/null || as_root=(sudo)
    fi
    say "unpacking RabbitMQ of Debian $suite into ${root#"$checkout"/} (about 200 MB, once)"
    rm -rf "$root.new"
    bootstrap() {
        "${as_root[@]}" mmdebstrap --mode=root --variant=extract "$@" \
            --include=rabbitmq-server,base-files,dash,coreutils,sed,grep,libc-bin,util-linux \
            --skip=output/dev --skip=output/mknod "$suite" "$root.new" >>"$log" 2>&1
    }
    : >"$log"
    if ! bootstrap; then
        # A mirror that lags, or a clock that runs ahead: signatures are still checked, only the date is not.
        grep -q 'is expired\|is not valid yet' "$log" || skip "no root of Debian $suite: $(grep '^E:' "$log" | head -1) ($log)"
        say "the mirror's index of $suite does not agree with this machine's clock; taking it all the same"
        rm -rf "$root.new"
        bootstrap --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Check-Date "false"' ||
            skip "no root of Debian $suite: $(grep '^E:' "$log" | tail -1) ($log)"
    fi
    mkdir -p "$root.new"/{proc,dev,mnt,tmp,nodes}
    touch "$root.new/.complete"
    rm -rf "$root"
    mv "$root.new" "$root"
}

# The inode of the socket that listens on a port; fails where nobody does.
listener() {
    awk -v port="$(printf ':%04X' "$1")" '$4 == "0A" && substr($2, length($2) - 4) == port { print $10; found = 1; exit }
        END { exit !found }' /proc/net/tcp /proc/net/tcp6
}

# Whether process $1 is who listens on port $2: another node may have been quicker to take it.
listens() {
    local inode fd
    inode=$(listener "$2") || return 1
    for fd in /proc/"$1"/fd/*; do
        [ "$(readlink "$fd")" != "socket:[$inode]" ] || return 0
    done
    return 1
}

# A port that nobody listens on, below the ephemeral range: no outgoing connection can be given it before the broker
# binds it.
idle_port() {
    local port
    while port=$((10000 + (RANDOM << 15 | RANDOM) % 22000)) && listener "$port" >/dev/null; do :; done
    echo "$port"
}
