# Sourced by the scripts that build: chooses the compiler, sets up a build folder when that is needed.

# CXX and CC: what the user named; else the first compiler here whose coroutines are sound (meson.build tells why).
choose_compiler() {
    local candidate
    [ -z "${CXX-}" ] || return 0
    for candidate in clang++-19 clang++ g++ g++-14 g++-13; do
        command -v "$candidate" >/dev/null || continue
        case $candidate in
        clang++-19) ;;
        clang*) [ "$($candidate -dumpversion | cut -d. -f1)" -ge 16 ] || continue ;;
        *) [ "$($candidate -dumpversion | cut -d. -f1)" -ge 13 ] || continue ;;
        esac
        export CXX=$candidate CC=${candidate/clang++/clang}
        CC=${CC/g++/gcc}
        # Where ccache is installed it is used, across checkouts too.
        if command -v ccache >/dev/null; then
            CXX="ccache $CXX" CC="ccache $CC"
        fi
        return 0
    done
    echo "no compiler with sound coroutines here: clang >= 16 or GCC >= 13 (on Debian 12: apt-get install clang-19)" >&2
    return 1
}

export CCACHE_NOHASHDIR=1

# configure FOLDER OPTION...: does nothing where the folder is configured with these options already.
configure() {
    local folder=$1 log
    shift
    if [ -f "$folder/build.ninja" ] && [ "$(cat "$folder/options.txt" 2>/dev/null)" = "$*" ]; then return 0; fi
    choose_compiler
    echo "configure: ${folder#"$PWD"/} with ${CXX#ccache }"
    mkdir -p "$folder"
    log=$folder/configure.log
    if [ -f "$folder/build.ninja" ]; then set -- --reconfigure "$@"; fi
    meson setup "$folder" "$@" >"$log" 2>&1 </dev/null || { tail -n 20 "$log" >&2; return 1; }
    if [ "${1-}" = --reconfigure ]; then shift; fi
    echo "$*" >"$folder/options.txt"
}

# build FOLDER [TARGET...]: quiet where nothing changed, the compiler's words where it fails.
build() {
    local folder=$1 started=$SECONDS
    shift
    if ninja -C "$folder" -n "$@" 2>/dev/null | grep -q 'no work to do'; then return 0; fi
    echo "build: ${folder#"$PWD"/}"
    if [ -t 1 ]; then
        ninja -C "$folder" --quiet "$@" 2>/dev/null || ninja -C "$folder" "$@"
    else
        ninja -C "$folder" "$@" >"$folder/build.log" 2>&1 || { grep -v '^\[' "$folder/build.log" | tail -n 60 >&2; return 1; }
    fi
    echo "build: done in $((SECONDS - started)) s"
}

# The Debian mirror of ACQUIT_DEBIAN_MIRROR, else the one that this machine's apt is set up with. Where there is none it
# fails and says what to do.
debian_mirror() {
    local file found
    if [ -n "${ACQUIT_DEBIAN_MIRROR-}" ]; then echo "$ACQUIT_DEBIAN_MIRROR" && return; fi
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
        [ -f "$file" ] || continue
        found=$(awk '!/^[ \t]*#/ { for (i = 1; i <= NF; i++) if ($i ~ /^[a-z]+:\/\/.*\/debian\/?$/) { print $i; exit } }' "$file")
        if [ -n "$found" ]; then echo "$found" && return; fi
    done
    echo 'apt names no Debian mirror here: set ACQUIT_DEBIAN_MIRROR to the address of one' >&2
    return 1
}
