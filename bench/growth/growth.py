#!/usr/bin/env python3
"""The rounds and the table of bench/growth/run, which says how to call it."""

import argparse
import json
import re
import statistics
import subprocess
import sys

# What grows, then rows: title, loops, connections of each, channels of each, messages in all, prefetch, timers.
GROUPS = [
    ("channels of one connection, prefetch 256 each", [
        ("1 channel", 1, 1, 1, 2_000_000, 256, 0),
        ("10 channels", 1, 1, 10, 2_000_000, 256, 0),
        ("100 channels", 1, 1, 100, 2_000_000, 256, 0),
        ("1,000 channels", 1, 1, 1000, 4_000_000, 256, 0),
    ]),
    ("connections of one loop, prefetch 256 each", [
        ("1 connection", 1, 1, 1, 2_000_000, 256, 0),
        ("10 connections", 1, 10, 1, 2_000_000, 256, 0),
        ("100 connections", 1, 100, 1, 2_000_000, 256, 0),
    ]),
    ("loops, a thread and a connection each, prefetch 4096", [
        ("1 loop", 1, 1, 1, 4_000_000, 4096, 0),
        ("2 loops", 2, 1, 1, 8_000_000, 4096, 0),
    ]),
    ("messages, prefetch 4096", [
        ("1 million", 1, 1, 1, 1_000_000, 4096, 0),
        ("10 million", 1, 1, 1, 10_000_000, 4096, 0),
    ]),
    ("timers pending in the loop, prefetch 4096", [
        ("no timer", 1, 1, 1, 2_000_000, 4096, 0),
        ("1,000 timers", 1, 1, 1, 2_000_000, 4096, 1000),
        ("1,000,000 timers", 1, 1, 1, 2_000_000, 4096, 1_000_000),
    ]),
]


def measure(folder, row, share):
    _, loops, connections, channels, messages, prefetch, timers = row
    each = max(1, round(messages * share / (loops * connections * channels)))
    server = subprocess.Popen(
        [folder + "/firehose/acquit-firehose", "--listen", "127.0.0.1:0", "--messages", str(each), "--size", "16",
         "--connections", str(loops * connections)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        address = None
        for said in server.stdout:
            found = re.search(r"listening on (\S+)", said)
            if found:
                address = found.group(1)
                break
        if not address:
            sys.exit("growth: acquit-firehose did not begin to listen")
        client = subprocess.run(
            [folder + "/growth/acquit-growth", address, "--loops", str(loops), "--connections", str(connections),
             "--channels", str(channels), "--each", str(each), "--prefetch", str(prefetch), "--timers", str(timers)],
            stdout=subprocess.PIPE, text=True, timeout=300)
        if client.returncode != 0:
            sys.exit(f"growth: {row[0]}: acquit-growth failed")
        said, _ = server.communicate(timeout=30)
        if server.returncode != 0:
            sys.exit(f"growth: {row[0]}: the server did not agree:\n{said}")
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
    return json.loads(client.stdout)


def mib(size):
    return f"{size / 1048576:.1f}"


def table(results):
    heads = ("", "ns CPU", "against", "million/s", "messages", "enters", "RSS MiB", "all open", "half", "end", "heap")
    widths = (20, 8, 9, 11, 10, 9, 9, 10, 8, 8, 7)
    notes = ("", "/message", "the first", "", "/frame", "/1000", "before", "", "way", "", "")
    for cells in (heads, notes):
        print("".join(c.ljust(w) if i == 0 else c.rjust(w + 1) for i, (c, w) in enumerate(zip(cells, widths))))
    for title, rows in GROUPS:
        print("\n" + title)
        first = results[title][rows[0][0]]["cpu_ns"]
        for row in rows:
            r = results[title][row[0]]
            cells = ("  " + row[0], f"{r['cpu_ns']:.0f}", f"{r['cpu_ns'] / first:.2f}", f"{r['rate'] / 1e6:.2f}",
                     f"{1 / r['frames']:.0f}", f"{r['enters'] * 1000:.2f}", mib(r["rss_before"]), mib(r["rss_open"]),
                     mib(r["rss_half"]), mib(r["rss_end"]), f"{r['allocations']:.0f}")
            print("".join(c.ljust(w) if i == 0 else c.rjust(w + 1) for i, (c, w) in enumerate(zip(cells, widths))))
    print("\n16 byte bodies, consumed by a loop over deliveries, acked. 'all open': every window is full and nothing is "
          "handled yet.\n'heap': allocations in the second half, of all messages. 'enters': io_uring_enter calls per "
          "1,000 messages.\nOne consumer with a window of 256 waits for the round trip; several fill each other's waits.")


def main():
    options = argparse.ArgumentParser(prog="bench/growth/run")
    options.add_argument("folder", help=argparse.SUPPRESS)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--short", action="store_true")
    options.add_argument("--json")
    chosen = options.parse_args()
    count = sum(len(rows) for _, rows in GROUPS)
    measured = {}
    for number in range(chosen.rounds):
        done = 0
        for title, rows in GROUPS:
            for row in rows:
                done += 1
                print(f"round {number + 1} of {chosen.rounds}: {done:2} of {count}  {row[0]:<20}", file=sys.stderr,
                      end="\r" if sys.stderr.isatty() else "\n", flush=True)
                result = measure(chosen.folder, row, 0.1 if chosen.short else 1)
                measured.setdefault(title, {}).setdefault(row[0], []).append(result)
    results = {title: {name: {key: statistics.median(run[key] for run in runs) for key in runs[0]}
                       for name, runs in rows.items()} for title, rows in measured.items()}
    print(" " * 60, file=sys.stderr, end="\r")
    table(results)
    if chosen.json:
        with open(chosen.json, "w", encoding="utf8") as file:
            json.dump(results, file, indent=2)


if __name__ == "__main__":
    main()
