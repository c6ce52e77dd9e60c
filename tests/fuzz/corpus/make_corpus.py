#!/usr/bin/env python3
"""Writes the seed inputs of the frame and table fuzzers, each in the folder of its name, next to this file.

Independent of the library on purpose: built from AMQP 0-9-1 by struct.pack.
"""
import pathlib
import struct

HERE = pathlib.Path(__file__).parent


def short(text):
    return bytes([len(text)]) + text


def long(data):
    return struct.pack(">I", len(data)) + data


def frame(kind, channel, payload):
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def method(channel, class_id, method_id, arguments=b""):
    return frame(1, channel, struct.pack(">HH", class_id, method_id) + arguments)


def header(channel, size, properties):
    return frame(2, channel, struct.pack(">HHQ", 60, 0, size) + properties)


def deliver(tag, properties, *bodies):
    arguments = short(b"ctag") + struct.pack(">QB", tag, 1) + short(b"exchange") + short(b"key")
    out = method(1, 60, 60, arguments) + header(1, sum(map(len, bodies)), properties)
    return out + b"".join(frame(3, 1, body) for body in bodies)


FIELDS = {
    "bool": b"t\x01", "int8": b"b\xff", "uint8": b"B\xff", "int16": b"s\x00\x80", "int16_u": b"U\x00\x80",
    "uint16": b"u\xff\xff", "int32": b"I\xff\xff\xff\xff", "uint32": b"i\xff\xff\xff\xff",
    "int64": b"l" + struct.pack(">q", -5), "int64_l": b"L" + struct.pack(">q", -5), "float": b"f" + struct.pack(">f", 1.5),
    "double": b"d" + struct.pack(">d", -1.5), "decimal": b"D\x02" + struct.pack(">i", 314), "string": b"S" + long(b"text"),
    "bytes": b"x" + long(b"\x00\xff"), "time": b"T" + struct.pack(">Q", 1700000000), "void": b"V",
    "array": b"A" + long(b"t\x01" + b"S" + long(b"x") + b"s\x00\x01"), "table": b"F" + long(short(b"k") + b"t\x01"),
}


def table(**fields):
    return b"".join(short(name.replace("_", "-").encode()) + value for name, value in fields.items())


DEATH = table(count=FIELDS["int64"], reason=FIELDS["string"], queue=FIELDS["string"], time=FIELDS["time"],
              routing_keys=b"A" + long(b"S" + long(b"a")))
X_DEATH = table(x_death=b"A" + long(b"F" + long(DEATH)))
NESTED = b""
for _ in range(70):
    NESTED = b"A" + long(NESTED)

TABLES = {name: table(n=value) for name, value in FIELDS.items()}
TABLES |= {
    "empty": b"", "all": table(**FIELDS), "x_death": X_DEATH, "nested": table(a=NESTED),
    "unknown_letter": table(a=FIELDS["bool"]) + short(b"z") + b"Z\x01\x02" + table(b=FIELDS["bool"]),
    "length_wraps": short(b"n") + b"S\xff\xff\xff\xffabc", "repeated": table(a=FIELDS["bool"]) * 2,
}

PROPERTIES = struct.pack(">H", 0xFFFC) + (
    short(b"text/plain") + short(b"gzip") + long(X_DEATH) + b"\x02\x09" + short(b"corr") + short(b"reply") +
    short(b"60000") + short(b"id") + struct.pack(">Q", 1700000000) + short(b"type") + short(b"guest") +
    short(b"app") + short(b"cluster"))

FRAMES = {
    "start": method(0, 10, 10, b"\x00\x09" + long(table(**FIELDS)) + long(b"PLAIN AMQPLAIN") + long(b"en_US")),
    "start_ok": method(0, 10, 11, long(b"") + short(b"PLAIN") + long(b"\0u\0p") + short(b"en_US")),
    "tune_open": method(0, 10, 30, struct.pack(">HIH", 2047, 131072, 60)) + method(0, 10, 40, short(b"/") + b"\0\0"),
    "close": method(1, 20, 40, struct.pack(">H", 406) + short(b"PRECONDITION_FAILED") + struct.pack(">HH", 60, 80)),
    "declare_consume": method(1, 50, 10, b"\0\0" + short(b"q") + b"\x02" + long(X_DEATH)) +
                       method(1, 60, 20, b"\0\0" + short(b"q") + short(b"t") + b"\0" + long(b"")),
    "deliver": deliver(1, b"\0\0", b"hello"),
    "deliver_empty": deliver(2, b"\0\0"),
    "deliver_full": deliver(3, PROPERTIES, b"x" * 40),
    "deliver_two_bodies": deliver(4, PROPERTIES, b"he", b"llo"),
    "deliver_many": b"".join(deliver(tag, b"\x80\x01\0\0\x01a", b"b\0c") for tag in range(1, 4)),
    "acks": b"".join(method(1, 60, m, struct.pack(">QB", 7, 1)) for m in (80, 90, 120)),
    "heartbeat": frame(8, 0, b"") * 2,
    "heartbeat_with_payload": frame(8, 0, b"x"),
    "unknown_type": b"AMQP\x00\x00\x09\x01",
    "unknown_method": method(1, 60, 61, b"\0"),
    "undersized": struct.pack(">BHI", 2, 1, 3) + b"abc\xce",
    "length_wraps": struct.pack(">BHI", 3, 1, 0xFFFFFFF8),
    "end_missing": frame(3, 1, b"abc")[:-1] + b"\xcd",
    "string_wraps": method(0, 10, 20, b"\xff\xff\xff\xffabc"),
    "largest": frame(3, 1, b"\xce" * 4096),
    "too_large": frame(3, 1, b"\xce" * 4097),
}

for folder, inputs in (("frame", FRAMES), ("table", TABLES)):
    (HERE / folder).mkdir(exist_ok=True)
    for name, data in inputs.items():
        (HERE / folder / name).write_bytes(data)
