#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

/// The numbers of AMQP 0-9-1: frame types, class ids, reply codes, sizes. Method ids stand in the
/// method structs (methods_*.h), next to the fields they name.
namespace acquit::amqp::wire {

// Frame types, the first octet of a frame (AMQP 0-9-1 2.3.5, 4.2.3).
inline constexpr std::uint8_t frame_method = 1;
inline constexpr std::uint8_t frame_header = 2;
inline constexpr std::uint8_t frame_body = 3;
inline constexpr std::uint8_t frame_heartbeat = 8;

/// The last octet of every frame (AMQP 0-9-1 4.2.3).
inline constexpr std::uint8_t frame_end = 0xCE;

/// type(1) + channel(2) + size(4).
inline constexpr std::size_t frame_head_size = 7;

/// What a frame adds to its payload, in bytes: head and end octet.
inline constexpr std::size_t frame_overhead = 8;

/// The smallest frame_max to negotiate, in bytes. The specification says 4096; RabbitMQ >= 4.0
/// refuses less than 8192 (it resets the connection without a word).
inline constexpr std::uint32_t frame_size_min = 8192;

/// The largest content header frame that is read, whole, in bytes. RabbitMQ sends header frames
/// beyond frame_max (it adds x-death and the like to headers that already filled a frame), so they
/// have a bound of their own.
inline constexpr std::uint32_t header_frame_size_max = 1024 * 1024;

/// What a client sends first, and what a server answers when it speaks another version (AMQP 0-9-1
/// 4.2.2).
inline constexpr std::array<std::byte, 8> protocol_header{
    std::byte{'A'}, std::byte{'M'}, std::byte{'Q'}, std::byte{'P'},
    std::byte{0},   std::byte{0},   std::byte{9},   std::byte{1}};

inline constexpr std::uint16_t class_connection = 10;
inline constexpr std::uint16_t class_channel = 20;
inline constexpr std::uint16_t class_exchange = 40;
inline constexpr std::uint16_t class_queue = 50;
inline constexpr std::uint16_t class_basic = 60;
inline constexpr std::uint16_t class_confirm = 85; // RabbitMQ: publisher confirms
inline constexpr std::uint16_t class_tx = 90;

/// AMQP 0-9-1 1.1. A peer may send other numbers; the code field of a method is therefore a plain
/// uint16_t.
enum class reply_code : std::uint16_t {
    success = 200,
    content_too_large = 311,
    no_route = 312, // RabbitMQ: a mandatory message that no queue took
    no_consumers = 313,
    connection_forced = 320,
    invalid_path = 402,
    access_refused = 403,
    not_found = 404,
    resource_locked = 405,
    precondition_failed = 406,
    frame_error = 501,
    syntax_error = 502,
    command_invalid = 503,
    channel_error = 504,
    unexpected_frame = 505,
    resource_error = 506,
    not_allowed = 530,
    not_implemented = 540,
    internal_error = 541,
};

/// "PRECONDITION_FAILED" and so on, as servers begin their reply texts; "UNKNOWN" for numbers not
/// listed.
const char* reply_name(reply_code code) noexcept;
inline const char* reply_name(std::uint16_t code) noexcept
{
    return reply_name(reply_code{code});
}

} // namespace acquit::amqp::wire
