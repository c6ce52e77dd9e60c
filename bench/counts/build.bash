# Sourced: builds acquit-counts as `tests/run --suite counts` does, in the folder of bench/run.
folder=build/bench
tests/setup bench >&2
configure $folder -Dbench=true --buildtype=release -Ddefault_library=static >&2
build $folder bench/counts/acquit-counts >&2
program=$folder/bench/counts/acquit-counts
