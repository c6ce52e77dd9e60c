# What the broker scripts share: where a RabbitMQ of a given version comes from, which ports are idle, who listens.
# Sourced, never run.

shopt -s inherit_errexit

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
checkout=$(cd "$here/../.." && pwd)
. "$checkout/tests/toolchain.bash"
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

# Downloads and unpacks rabbitmq-server of a Debian release and all that it depends on. Nothing is installed in the sense
# of dpkg: no maintainer script runs, no user is created, no service starts, because a node only needs the files. Any user
# may do it; apt works with folders of its own here and neither asks nor changes the machine's.
make_root() {
    local suite=$1 root=$2 log=$brokers/$1.log scratch=$brokers/$1.apt package mirror
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
        skip "RabbitMQ of Debian $suite is fetched by apt-get, which this machine does not have"
    say "unpacking RabbitMQ of Debian $suite into ${root#"$checkout"/} (some 200 MB, once)"
    rm -rf "$root" "$root.new" "$scratch"
    mkdir -p "$scratch"/{lists,cache/archives}/partial "$root.new"/{usr/{bin,sbin,lib,lib64},proc,dev,mnt,tmp,nodes}
    for package in bin sbin lib lib64; do ln -s "usr/$package" "$root.new/$package"; done
    : >"$scratch/status"
    mirror=$(debian_mirror) || skip "no RabbitMQ of Debian $suite without a mirror to fetch it from"
    echo "deb $mirror $suite main" >"$scratch/sources.list"
    local apt=(env LC_ALL=C apt-get -q -y --no-install-recommends
        -o Dir::Etc::SourceList="$scratch/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null
        -o Dir::State="$scratch" -o Dir::State::Lists="$scratch/lists" -o Dir::State::Status="$scratch/status"
        -o Dir::Cache="$scratch/cache" -o Debug::NoLocking=true -o APT::Sandbox::User=
        -o APT::Update::Post-Invoke= -o APT::Update::Post-Invoke-Success= -o APT::Update::Error-Mode=any)
    if ! "${apt[@]}" update >"$log" 2>&1; then
        # A mirror that lags, or a clock that runs ahead: signatures are still checked, only the date is not.
        grep -q 'is expired\|is not valid yet' "$log" || skip "no RabbitMQ of Debian $suite: $(grep -m1 '^E:' "$log") ($log)"
        say "the mirror's index of $suite does not agree with this machine's clock; taking it all the same"
        apt+=(-o Acquire::Check-Valid-Until=false -o Acquire::Check-Date=false)
        "${apt[@]}" update >>"$log" 2>&1 || skip "no RabbitMQ of Debian $suite: $(grep '^E:' "$log" | tail -1) ($log)"
    fi
    "${apt[@]}" install --download-only rabbitmq-server base-files dash coreutils sed grep libc-bin util-linux \
        >>"$log" 2>&1 || skip "no RabbitMQ of Debian $suite: $(grep '^E:' "$log" | tail -1) ($log)"
    for package in "$scratch"/cache/archives/*.deb; do
        dpkg-deb -x "$package" "$root.new" 2>>"$log" || die "cannot unpack ${package##*/}: $(tail -1 "$log")"
    done
    rm -rf "$scratch"
    touch "$root.new/.complete"
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
