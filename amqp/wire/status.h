#pragma once

#include <acquit/amqp/wire/constants.h>

#include <cstdint>

/// What is wrong with bytes from the network. Malformed input is a value here, never an exception
/// and never an assert: the session turns it into a close of the scope it concerns.
///
///     if (status s = decode(arguments, message); !s)
///         close(s.scope, s.code, describe(s));
namespace acquit::amqp::wire {

enum class fault : std::uint8_t {
    none,
    truncated,          ///< a field runs past the end of its frame or table
    frame_end_missing,  ///< the octet after the payload is not 0xCE
    frame_too_large,    ///< beyond frame_max, or a heartbeat with a payload
    frame_too_small,    ///< a method below 4 or a content header below 14 bytes of payload
    unknown_frame_type, ///< the first octet is none of 1, 2, 3, 8
    unknown_method,     ///< no such class and method id
    bad_field,          ///< a value outside its type, or a field type letter nobody knows
    trailing_bytes,     ///< something follows where nothing may
    nesting_too_deep,   ///< tables and arrays in each other beyond nesting_max
};

/// How much of the connection a fault takes down.
enum class fault_scope : std::uint8_t {
    connection, ///< framing is lost or the peer breaks the protocol: close the connection
    channel,    ///< this channel only
    content,    ///< this message only: it is delivered, its table or properties stay undecodable
};

struct status {
    fault what = fault::none;
    fault_scope scope = fault_scope::connection;
    reply_code code = reply_code::success;

    constexpr bool ok() const noexcept { return what == fault::none; }
    constexpr explicit operator bool() const noexcept { return ok(); }
    friend constexpr bool operator==(const status&, const status&) noexcept = default;
};

/// The status of a fault with the reply code that AMQP 0-9-1 1.1 foresees for it.
constexpr status failure(fault what, fault_scope scope = fault_scope::connection) noexcept
{
    switch (what) {
    case fault::none:
        return {};
    case fault::truncated:
    case fault::bad_field:
    case fault::trailing_bytes:
    case fault::nesting_too_deep:
        return {what, scope, reply_code::syntax_error};
    case fault::unknown_method:
        return {what, scope, reply_code::command_invalid};
    case fault::frame_end_missing:
    case fault::frame_too_large:
    case fault::frame_too_small:
    case fault::unknown_frame_type:
        break;
    }
    return {what, scope, reply_code::frame_error};
}

/// A phrase for a log line or a reply text, "frame_end is missing"; static storage.
const char* describe(fault what) noexcept;
inline const char* describe(const status& s) noexcept
{
    return describe(s.what);
}

} // namespace acquit::amqp::wire
