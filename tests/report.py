#!/usr/bin/env python3
"""Turns words of the command line into a selection of tests, and what `meson test` left into one line.

    report.py names FOLDER              the names of all tests
    report.py select FOLDER WORD...     first line: a GoogleTest filter or nothing; then arguments for `meson test`
    report.py summary FOLDER STATUS     what failed, what was skipped and why, "N passed, N failed, N skipped"

A GoogleTest program counts by its tests, every other program as one.
"""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as xml

# Options of `meson test` that take a value; the word after one is not the name of a test.
VALUED = {"--suite", "--no-suite", "--repeat", "--num-processes", "-j", "--timeout-multiplier", "-t", "--setup",
          "--logbase", "--wrapper", "--wrap", "--test-args", "--maxfail", "--gdb-path", "-C"}


def programs(folder):
    """Every meson test: (name, GoogleTest program or None)."""
    listing = subprocess.run(["meson", "introspect", "--tests", folder], capture_output=True, text=True, check=True)
    for test in json.loads(listing.stdout):
        command = test["cmd"]
        if "--" in command:  # tests/broker/with VERSION -- program
            command = command[command.index("--") + 1:]
        program = os.path.abspath(os.path.join(folder, command[0]))
        yield test["name"], program if test["protocol"] == "gtest" else None


def tests_of(program, pattern="*"):
    try:
        listing = subprocess.run([program, "--gtest_list_tests", "--gtest_filter=" + pattern],
                                 capture_output=True, text=True).stdout
    except OSError:
        return []
    found, group = [], ""
    for line in listing.splitlines():
        name = line.split("#")[0].rstrip()
        if name.startswith("  "):
            found.append(group + name.strip())
        elif name.endswith("."):
            group = name
    return found


def names(folder):
    seen = {}
    for name, program in programs(folder):
        tests = seen.setdefault(program, tests_of(program)) if program else []
        print("\n    ".join([name] + tests))


def select(folder, words):
    known = list(programs(folder))
    passed, chosen, patterns = [], [], []
    words = iter(words)
    for word in words:
        if word.startswith("-"):
            passed.append(word)
            if word in VALUED:
                passed.append(next(words, ""))
        elif any(word == name for name, _ in known):
            chosen.append(word)
        else:
            patterns.append(word if "." in word or "*" in word else f"*{word}*")
    if patterns:
        pattern = ":".join(patterns)
        having = {}
        for _, program in known:
            if program and program not in having:
                having[program] = bool(tests_of(program, pattern))
        matching = [name for name, program in known if having.get(program) and (not chosen or name in chosen)]
        if not matching:
            sys.exit(f"no test is called {pattern} (tests/run --list tells what there is)")
        chosen = matching
        print(pattern)
    else:
        print()
    print("\n".join(passed + chosen), end="\n" if passed + chosen else "")


def reason(text):
    """The line in which a script said why it skipped."""
    lines = [line for line in text.splitlines() if line.startswith("*** SKIPPED")]
    return lines[-1].removeprefix("*** SKIPPED, NOT PASSED: ") if lines else "no reason given"


def summary(folder, status):
    must = os.environ.get("ACQUIT_MAY_NOT_SKIP", "").split()
    passed, failed, skipped = 0, [], []
    try:
        with open(os.path.join(folder, "meson-logs", "testlog.json"), encoding="utf8") as log:
            runs = [json.loads(line) for line in log]
    except FileNotFoundError:
        runs = []
    for run in runs:
        name = run["name"].split(" / ")[-1]
        result = run["result"]
        cases = []
        try:
            cases = list(xml.parse(os.path.join(folder, name + ".xml")).iter("testcase"))
        except (FileNotFoundError, xml.ParseError):
            pass
        if result == "SKIP":
            why = reason(run.get("stdout", "") + run.get("stderr", ""))
            if name in must:
                failed.append(f"{name}: may not be skipped here, but was: {why}")
            else:
                skipped.append(f"{name}: {why}")
            continue
        before = len(failed)
        for case in cases:
            full = f"{name}: {case.get('classname')}.{case.get('name')}"
            if case.find("failure") is not None or case.find("error") is not None:
                failed.append(full)
            elif case.get("result") == "skipped" or case.find("skipped") is not None:
                skipped.append(full)
            elif case.get("status") == "run":
                passed += 1
        if result not in ("OK", "EXPECTEDFAIL"):
            if len(failed) == before:  # it crashed, leaked, or took too long
                failed.append(f"{name}: {result} ({run.get('returncode')})")
        elif not cases:
            passed += 1
    if not runs or (status != 0 and not failed):
        failed.append(f"meson test ended with status {status} and " + ("ran nothing" if not runs else "no test to blame"))
    print()
    for line in skipped:
        print("SKIPPED", line)
    for line in failed:
        print("FAILED ", line)
    counts = f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped"
    with open(os.path.join(folder, "counts.txt"), "w", encoding="utf8") as file:
        print(counts, file=file)
    print(counts)
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    command, folder, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
    if command == "names":
        names(folder)
    elif command == "select":
        select(folder, rest)
    elif command == "summary":
        sys.exit(summary(folder, int(rest[0])))
    else:
        sys.exit(__doc__)
