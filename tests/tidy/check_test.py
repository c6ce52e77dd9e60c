#!/usr/bin/env python3
"""Every rule of check.py is broken once here, so that none can rot into one that finds nothing."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import check


class Checkout(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, text):
        path = pathlib.Path(self.folder.name, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf8")

    def found(self):
        return list(check.findings(self.folder.name))

    def test_a_file_that_breaks_a_rule_is_named_with_its_line(self):
        broken = {
            "runtime/loop.h": "#include <acquit/amqp/frame.h>",
            "runtime/task.h": "#include <acquit/acquit.h>",
            "amqp/channel.h": "#include <acquit/settle/ledger.h>",
            "amqp/wire/frame.h": "#include <acquit/amqp/channel.h>",
            "amqp/wire/table.h": "#include <acquit/amqp/session/session.h>",
            "amqp/session/session.h": "#include <acquit/amqp/channel.h>",
            "amqp/session/tune.h": "#include <acquit/runtime/task.h>",
            "amqp/session/close.h": "#include <coroutine>",
            "amqp/session/fd.cc": "#include <unistd.h>",
            "amqp/session/co.cc": "co_return 1;",
            "amqp/session/clock.cc": "auto now = std::chrono::steady_clock::now();",
            "amqp/wire/throwing.cc": "throw 1;",
            "runtime/stream.cc": "#include <liburing.h>",
            "runtime/stream_tls.cc": "#include <openssl/ssl.h>",
            "settle/quoted.cc": '#include "ledger.h"',
            "tests/port_test.cc": "connect(5672);",
            "bench/load.cc": "connect(5671);",
            "README.md": "cd /home/" + "somebody",
            "settle/long.cc": "\n" * 601,
        }
        for name, line in broken.items():
            self.write(name, "\n" + line + "\n")
        found = self.found()
        for name in broken:
            with self.subTest(name):
                self.assertEqual(len([line for line in found if line.startswith(name + ":")]), 1, found)

    def test_what_keeps_the_rules_is_not_named(self):
        kept = {
            "amqp/channel.h": "#include <acquit/runtime/task.h>\n#include <acquit/amqp/session/session.h>",
            "amqp/session/session.h": "#include <acquit/amqp/wire/frame.h>\n// nothing is ever thrown: no throw here",
            "settle/service.h": "#include <acquit/amqp/channel.h>\nthrow error();",
            "runtime/ring.h": "#include <liburing.h>",
            "runtime/ring_probe.cc": "#include <liburing.h>",
            "runtime/tls_stream.cc": "#include <openssl/ssl.h>",
            "tests/amqp/uri_test.cc": "EXPECT_EQ(port, 5672);",
            "tests/runtime/resolve_test.cc": 'co_await resolve("10.1.2.3", 5672);',
        }
        for name, text in kept.items():
            self.write(name, text + "\n")
        self.assertEqual(self.found(), [])

    def test_a_header_that_needs_another_one_is_found_and_a_sound_one_is_compiled_once(self):
        compiler = os.environ.get("ACQUIT_COMPILER", "c++").split() + ["-std=c++20", "-I" + self.folder.name + "/include"]
        os.makedirs(self.folder.name + "/include")
        os.makedirs(self.folder.name + "/runtime")
        os.symlink("..", self.folder.name + "/include/acquit")
        self.write("runtime/sound.h", "#pragma once\n#include <string>\ninline std::string name;\n")
        self.write("runtime/needy.h", "#pragma once\n#include <acquit/runtime/sound.h>\ninline std::vector<int> all;\n")
        self.write("runtime/twice.h", "int defined_twice = 0;\n")
        cache = self.folder.name + "/build"
        found = check.check_headers(self.folder.name, cache, compiler)
        self.assertEqual([line.split(":")[0] for line in found], ["runtime/needy.h", "runtime/twice.h"])
        self.assertEqual(len(os.listdir(cache)), 1)
        self.write("runtime/needy.h", "#pragma once\n#include <vector>\ninline std::vector<int> all;\n")
        self.assertEqual(len(check.check_headers(self.folder.name, cache, compiler)), 1)
        self.assertEqual(len(os.listdir(cache)), 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
