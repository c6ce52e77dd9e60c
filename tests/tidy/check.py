#!/usr/bin/env python3
"""Checks of the house that no compiler makes.

    check.py CHECKOUT                         arrows between rooms, file lengths, where libraries may be included,
                                              ports and paths of one machine
    check.py CHECKOUT --headers CACHE COMPILER...   each header of the rooms compiles alone; what did not change since
                                              the last run is not compiled again (CACHE is a folder)

Prints a line per finding, file:line: reason; exits 1 where there is one.
"""

import concurrent.futures
import hashlib
import os
import pathlib
import re
import subprocess
import sys

ROOMS = ("runtime", "amqp", "settle")
LINES_MAX = 600

# (files that the rule is about, what no line of them may match, why)
RULES = [
    (r"runtime/", r"#\s*include <acquit/(amqp|settle|acquit\.h)", "runtime knows nothing of amqp and settle"),
    (r"amqp/", r"#\s*include <acquit/(settle|acquit\.h)", "amqp knows nothing of settle"),
    (r"amqp/wire/", r"#\s*include <acquit/amqp/(?!wire/)", "wire stands alone"),
    (r"amqp/session/", r"#\s*include <acquit/amqp/(?!wire/|session/)", "session knows wire and itself"),
    (r"amqp/(wire|session)/", r"#\s*include <acquit/runtime/(?!assert\.h|detail/)", "wire and session do no I/O"),
    (r"amqp/(wire|session)/", r"#\s*include <(coroutine|thread|mutex|future|unistd\.h|fcntl\.h|poll\.h|sys/.*|netinet/.*)>",
     "wire and session have no coroutine, thread or file descriptor"),
    (r"amqp/(wire|session)/", r"\bco_(await|return|yield)\b", "wire and session have no coroutine"),
    (r"amqp/(wire|session)/", r"_clock::now\b|\bclock_gettime\b|\btime\(nullptr\)", "time is passed into wire and session"),
    (r"amqp/(wire|session)/", r"\bthrow\b(?!\()", "wire and session answer with a status, they throw nothing"),
    (r"(?!runtime/ring[._]).*\.(h|cc)$", r"#\s*include <liburing", "liburing is included in runtime/ring.* only"),
    (r"(?!runtime/tls_).*\.(h|cc)$", r"#\s*include <openssl/", "OpenSSL is included in runtime/tls_* only"),
    (r"(runtime|amqp|settle)/.*\.(h|cc)$", r"#\s*include \"", "headers are included as <acquit/room/name.h>"),
    # resolve() and a name below .invalid reach nobody.
    (r"(tests|bench)/(?!.*uri)", r"^(?!.*(resolve\(|\.invalid)).*\b567[12]\b", "a test takes an idle port, never RabbitMQ's own"),
    (r"", r"(?<![\w.$}\])\"'])/(work|home|root|tmp)/\w", "a path of one machine"),
]
# Files that name the forbidden thing because it is their subject.
EXEMPT = {"tests/tidy/check.py", "tests/tidy/check_test.py", "tests/broker/reachable_test.cc"}
SKIPPED = {".git", "build", "subprojects", "corpus", "__pycache__", ".cache"}


def files(checkout):
    for folder, folders, names in os.walk(checkout):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        for name in sorted(names):
            path = pathlib.Path(folder, name)
            relative = path.relative_to(checkout).as_posix()
            if relative in EXEMPT or path.is_symlink():
                continue
            try:
                yield relative, path.read_text(encoding="utf8").splitlines()
            except UnicodeDecodeError:
                continue  # a picture, a fuzzer's input


def without_comment(relative, line):
    """Code rules are about code: a comment may say that nothing is thrown here."""
    return re.sub(r"//.*", "", line) if relative.endswith((".h", ".cc")) else line


def findings(checkout):
    rules = [(re.compile(where), re.compile(what), why) for where, what, why in RULES]
    for relative, lines in files(checkout):
        if len(lines) > LINES_MAX and relative.endswith((".h", ".cc", ".py")):
            yield f"{relative}:{LINES_MAX + 1}: longer than {LINES_MAX} lines; split it by nouns"
        for where, what, why in rules:
            if not where.match(relative):
                continue
            for number, line in enumerate(lines, 1):
                if what.search(without_comment(relative, line) if where.pattern else line):
                    yield f"{relative}:{number}: {why}"


def digest(checkout, header, seen):
    """Hash of a header and of all of ours that it includes."""
    path = pathlib.Path(checkout, header)
    if header in seen or not path.is_file():
        return b""
    seen.add(header)
    text = path.read_bytes()
    total = hashlib.sha256(text)
    for name in re.findall(rb"#\s*include <acquit/([^>]+)>", text):
        name = name.decode()
        total.update(digest(checkout, "settle/acquit.h" if name == "acquit.h" else name, seen))
    return total.digest()


def compiles_alone(checkout, header, cache, compiler):
    name = "acquit/" + ("acquit.h" if header == "settle/acquit.h" else header)
    key = hashlib.sha256(repr((compiler, name)).encode() + digest(checkout, header, set())).hexdigest()
    mark = pathlib.Path(cache, key)
    if mark.exists():
        return None
    run = subprocess.run(compiler + ["-fsyntax-only", "-x", "c++", "-"], input=f"#include <{name}>\n#include <{name}>\n",
                         capture_output=True, text=True)
    if run.returncode == 0:
        mark.touch()
        return None
    return f"{header}:1: does not compile alone\n{run.stderr}"


def check_headers(checkout, cache, compiler):
    os.makedirs(cache, exist_ok=True)
    headers = [relative for relative, _ in files(checkout)
               if relative.endswith(".h") and relative.split("/")[0] in ROOMS]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda header: compiles_alone(checkout, header, cache, compiler), headers)
        return [result for result in results if result]


def main(arguments):
    if not arguments or arguments[0].startswith("-"):
        sys.exit(__doc__)
    checkout = os.path.abspath(arguments[0])
    if arguments[1:2] == ["--headers"]:
        found = check_headers(checkout, arguments[2], arguments[3:])
    else:
        found = list(findings(checkout))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
