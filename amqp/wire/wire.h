#pragma once

/// The codec of AMQP 0-9-1 with RabbitMQ's extensions: bytes to values and back, nothing else. No
/// I/O, no clock, no coroutine, no exception; malformed input is a `status`. Decoding copies
/// nothing and allocates nothing: strings, tables, bodies are views into the bytes that came in.
/// Both directions of every method are here, so that a client, a stand-in server and a fuzzer speak
/// the same code.
///
/// Where to begin: frame.h (what a frame is), methods_basic.h (what a method struct looks like),
/// deliver_fast.h and settle_frames.h (the two ends of the hot path), field_table.h and table.h
/// (reading and building tables).

#include <acquit/amqp/wire/constants.h>
#include <acquit/amqp/wire/deliver_fast.h>
#include <acquit/amqp/wire/field_table.h>
#include <acquit/amqp/wire/frame.h>
#include <acquit/amqp/wire/methods.h>
#include <acquit/amqp/wire/properties.h>
#include <acquit/amqp/wire/reader.h>
#include <acquit/amqp/wire/settle_frames.h>
#include <acquit/amqp/wire/status.h>
#include <acquit/amqp/wire/table.h>
#include <acquit/amqp/wire/writer.h>
