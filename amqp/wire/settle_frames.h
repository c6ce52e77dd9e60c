#pragma once

#include <acquit/amqp/wire/constants.h>
#include <acquit/amqp/wire/detail/bytes.h>

#include <cstddef>
#include <cstdint>

/// The three frames that answer deliveries. They have one size and no variable part, so they are
/// written without checks: the caller makes sure of settle_frame_size bytes.
///
///     0      1         3             7          9           11             19     20
///     +------+---------+-------------+----------+-----------+--------------+------+------+
///     | 1    | channel | 13          | class 60 | method id | delivery tag | bits | 0xCE |
///     +------+---------+-------------+----------+-----------+--------------+------+------+
///
///     ack     80   bit 0 multiple
///     reject  90   bit 0 requeue
///     nack   120   bit 0 multiple, bit 1 requeue      (RabbitMQ: an extension)
namespace acquit::amqp::wire {

inline constexpr std::size_t settle_frame_size = 21;

namespace detail {

inline std::byte* write_settle(std::byte* out, std::uint16_t channel, std::uint16_t method,
                               std::uint64_t delivery_tag, unsigned bits) noexcept
{
    store_u8(out, frame_method);
    store_u16(out + 1, channel);
    store_u32(out + 3, 13);
    store_u32(out + 7, std::uint32_t{class_basic} << 16 | method);
    store_u64(out + 11, delivery_tag);
    store_u8(out + 19, static_cast<std::uint8_t>(bits));
    store_u8(out + 20, frame_end);
    return out + settle_frame_size;
}

} // namespace detail

/// Each writes settle_frame_size bytes at `out` and returns the byte after them.
inline std::byte* write_ack(std::byte* out, std::uint16_t channel, std::uint64_t delivery_tag,
                            bool multiple) noexcept
{
    return detail::write_settle(out, channel, 80, delivery_tag, multiple);
}
inline std::byte* write_reject(std::byte* out, std::uint16_t channel, std::uint64_t delivery_tag,
                               bool requeue) noexcept
{
    return detail::write_settle(out, channel, 90, delivery_tag, requeue);
}
inline std::byte* write_nack(std::byte* out, std::uint16_t channel, std::uint64_t delivery_tag,
                             bool multiple, bool requeue) noexcept
{
    return detail::write_settle(out, channel, 120, delivery_tag,
                                static_cast<unsigned>(multiple) | static_cast<unsigned>(requeue)
                                                                      << 1);
}

} // namespace acquit::amqp::wire
