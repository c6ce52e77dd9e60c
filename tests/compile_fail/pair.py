#!/usr/bin/env python3
"""Compiles a source twice: as it is it has to compile, with -DMUST_FAIL it may not, and for the reason that it names.

    pair.py SOURCE COMPILER...

The source holds the misuse between `#ifdef MUST_FAIL` and `#endif`, beside the same thing done right, and in a comment
what the compiler has to say (a regular expression, over all of its output):

    // expect: deleted function|cannot be copied

So a pair cannot rot: if the names in it go, the right half fails; if the misuse is allowed one day, the wrong one does;
and an error about anything else does not count.
"""

import pathlib
import re
import subprocess
import sys


def compiles(compiler, source, *flags):
    run = subprocess.run([*compiler, *flags, "-fsyntax-only", source], capture_output=True, text=True)
    return run.returncode == 0, run.stdout + run.stderr


def main(source, compiler):
    text = pathlib.Path(source).read_text(encoding="utf8")
    expected = re.findall(r"^// expect: (.+)$", text, re.MULTILINE)
    if len(expected) != 1 or "#ifdef MUST_FAIL" not in text:
        sys.exit(f"{source}: needs one line `// expect: REGEX` and a part in `#ifdef MUST_FAIL`")
    good, said = compiles(compiler, source)
    if not good:
        sys.exit(f"{source}: the right half does not compile\n{said}")
    good, said = compiles(compiler, source, "-DMUST_FAIL")
    if good:
        sys.exit(f"{source}: the misuse compiles")
    if not re.search(expected[0], said):
        sys.exit(f"{source}: fails, but says nothing like {expected[0]!r}:\n{said}")
    print("fails as it should:", re.search(".*(" + expected[0] + ").*", said).group(0))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
