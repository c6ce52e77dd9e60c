#!/usr/bin/env python3
"""Instructions per message, as callgrind counts them, against what is recorded in expected.json.

    counts.py check PROGRAM BUILD      compares; status 1 where a count is more than 3 % off, 77 where nothing can be
                                       said here (then the last line says why)
    counts.py record PROGRAM BUILD     writes what it counts into expected.json, for this BUILD
    counts.py profile PROGRAM SCENARIO [own|all]
                                       instructions per message of each function: its own, or with all it calls

PROGRAM is acquit-counts, BUILD names compiler and options, such as "clang-19 -O3": counts hold for one of them.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

TOLERANCE = 0.03
HERE = os.path.dirname(os.path.abspath(__file__))
EXPECTED = os.path.join(HERE, "expected.json")


def skip(why):
    print("*** SKIPPED, NOT PASSED: " + why)
    sys.exit(77)


def die(why):
    sys.exit("counts: " + why)


def scenarios(program):
    """The program lists them when it is asked for nothing."""
    said = subprocess.run([program], capture_output=True, text=True).stderr
    return [line.strip() for line in said.splitlines()[1:]]


def run(program, scenario, out):
    """Counts one scenario into the file `out`; gives the number of messages."""
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--toggle-collect=acquit_counted", "--toggle-collect=acquit_not_counted",
         "--callgrind-out-file=" + out, program, scenario],
        capture_output=True, text=True, timeout=300)
    messages = re.search(r"^messages (\d+)$", done.stdout, re.M)
    if done.returncode != 0 or not messages:
        die(f"{scenario} failed:\n{done.stdout}{done.stderr}")
    return int(messages.group(1))


def count(program, scenario):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        messages = run(program, scenario, out)
        with open(out, encoding="utf8") as file:
            total = re.search(r"^(?:summary|totals): (\d+)", file.read(), re.M)
    if not total or int(total.group(1)) == 0:
        die(f"callgrind counted nothing in {scenario}: is the program stripped of its symbols?")
    return int(total.group(1)) / messages


def read_expected():
    with open(EXPECTED, encoding="utf8") as file:
        return json.load(file)


def line(*cells):
    print("{:<20}{:>14}{:>10}{:>9}{:>9}".format(*cells), flush=True)


def measure(program, known, targets):
    """Prints the table as it comes about; gives the counts."""
    line("scenario", "instructions", "recorded", "change", "target")
    counted = {}
    for scenario in scenarios(program):
        now = counted[scenario] = round(count(program, scenario), 1)
        then = known.get(scenario)
        target = targets.get(scenario)
        line(scenario, now, then if then else "-", f"{now / then - 1:+.1%}" if then else "new",
             "" if target is None else f"{target}" if now <= target else f"{target} !")
    return counted


def check(program, build):
    all_known = read_expected()
    if not shutil.which("valgrind"):
        skip("there is no valgrind here (apt-get install valgrind)")
    if build not in all_known["builds"]:
        skip(f"no counts are recorded for {build}, only for {', '.join(all_known['builds'])}")
    known = all_known["builds"][build]
    print(f"instructions per message, {build}; 16 bytes, prefetch 4096\n")
    counted = measure(program, known, all_known["targets"])
    off = [name for name in counted.keys() | known.keys()
           if name not in counted or name not in known or abs(counted[name] / known[name] - 1) > TOLERANCE]
    missed = [name for name, target in all_known["targets"].items() if counted.get(name, 0) > target]
    print()
    if missed:
        print(f"! above its target: {', '.join(missed)}")
    if off:
        print(f"more than {TOLERANCE:.0%} off what is recorded: {', '.join(sorted(off))}\n"
              "If that is meant, fewer or more, record the new counts and commit them with the change that made them:\n"
              "    bench/counts/record\n"
              "Where the instructions go: bench/counts/profile SCENARIO")
        sys.exit(1)
    print(f"all within {TOLERANCE:.0%}")


def record(program, build):
    if not shutil.which("valgrind"):
        die("there is no valgrind here (apt-get install valgrind)")
    expected = read_expected()
    print(f"instructions per message, {build}\n")
    expected["builds"][build] = measure(program, expected["builds"].get(build, {}), expected["targets"])
    with open(EXPECTED, "w", encoding="utf8") as file:
        json.dump(expected, file, indent=4)
        file.write("\n")
    print(f"\nrecorded in {os.path.relpath(EXPECTED)}")


def profile(program, scenario, which="own"):
    known = scenarios(program)
    if scenario not in known:
        die(f"what is {scenario}? One of {', '.join(known)}")
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        messages = run(program, scenario, out)
        said = subprocess.run(["callgrind_annotate", "--threshold=100", "--inclusive=" + ("no", "yes")[which == "all"], out],
                              capture_output=True, text=True).stdout
    for text in said.splitlines():
        found = re.match(r"\s*([\d,]+) \(\s*[\d.]+%\)\s+(.*)", text)
        if not found:
            continue
        each = int(found.group(1).replace(",", "")) / messages
        if each < 0.5:
            break
        name = re.sub(r"^\?\?\?:|^.*/(?=[^/]*:)|\s*\[/.*\]", "", found.group(2))
        print(f"{each:9.1f}  {name[:150]}")


if __name__ == "__main__":
    commands = {"check": check, "record": record, "profile": profile}
    if len(sys.argv) < 4 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])
