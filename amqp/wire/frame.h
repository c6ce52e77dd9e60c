#pragma once

#include <acquit/amqp/wire/constants.h>
#include <acquit/amqp/wire/status.h>
#include <acquit/amqp/wire/writer.h>

#include <cstddef>
#include <cstdint>
#include <span>

/// Frames (AMQP 0-9-1 2.3.5, 4.2.3). Every frame:
///
///     0      1         3             7                  7+size
///     +------+---------+-------------+------------------+------+
///     | type | channel | size        | payload          | 0xCE |
///     +------+---------+-------------+------------------+------+
///
/// Payloads by type:
///
///     1 method     | class id(2) | method id(2) | arguments                     |   size >= 4
///     2 header     | class id(2) | weight(2) = 0 | body size(8) | flags(2) ... |   size >= 14, see
///     properties.h 3 body       | bytes of the content                                       |
///     size >= 0 8 heartbeat  | nothing                                                    |   size
///     == 0
namespace acquit::amqp::wire {

struct frame_view {
    std::uint8_t type = 0;
    std::uint16_t channel = 0;
    std::span<const std::byte> payload; ///< into the input
    std::size_t size = 0;               ///< the whole frame, in bytes: how far to advance
};

enum class frame_state : std::uint8_t { complete, need_more, fault };

struct frame_status {
    frame_state state = frame_state::complete;
    std::size_t wanted =
        0;        ///< need_more: bytes of input, in all, before another try can get further
    status error; ///< fault: always of connection scope

    constexpr bool complete() const noexcept { return state == frame_state::complete; }
    constexpr bool need_more() const noexcept { return state == frame_state::need_more; }
    constexpr bool failed() const noexcept { return state == frame_state::fault; }
};

/// Reads the frame that `input` begins with. Judges as early as the bytes allow: the type from the
/// first octet, the size from the head, before it asks for the payload; a size near 2^32 is
/// therefore refused, never waited for. `out` is written only when complete.
///
/// `frame_max` is the negotiated number, in bytes, taken literally (0 allows nothing). A payload of
/// up to frame_max itself is let through, eight bytes more than the specification allows, as
/// RabbitMQ does. Content headers are bounded by header_frame_size_max instead where that is
/// larger.
frame_status parse_frame(std::span<const std::byte> input, std::uint32_t frame_max,
                         frame_view& out) noexcept;

/// True when `input` is a beginning of "AMQP" or begins with it: a server that speaks another
/// version answers so, in place of a frame (AMQP 0-9-1 4.2.2).
bool begins_protocol_header(std::span<const std::byte> input) noexcept;

/// The largest body payload to send at once.
constexpr std::size_t body_payload_max(std::uint32_t frame_max) noexcept
{
    return frame_max > frame_overhead ? frame_max - frame_overhead : 0;
}

/// Writes seven octets at `out`; returns 7. Nothing is checked.
inline std::size_t write_frame_head(std::byte* out, std::uint8_t type, std::uint16_t channel,
                                    std::uint32_t payload_size) noexcept
{
    detail::store_u8(out, type);
    detail::store_u16(out + 1, channel);
    detail::store_u32(out + 3, payload_size);
    return frame_head_size;
}

/// Writes a frame whose payload `encode_payload(writer&)` writes, and sets its size afterwards.
/// Returns the bytes written, 0 when it does not fit or the encoder failed (then `out` may hold a
/// part of it).
template <class Encode>
std::size_t build_frame(std::span<std::byte> out, std::uint8_t type, std::uint16_t channel,
                        Encode&& encode_payload) noexcept
{
    writer w(out);
    w.u8(type);
    w.u16(channel);
    w.u32(0);
    encode_payload(w);
    auto payload_size = w.size() - frame_head_size;
    w.u8(frame_end);
    if (!w.ok() || payload_size > std::numeric_limits<std::uint32_t>::max()) [[unlikely]]
        return 0;
    w.patch_u32(3, static_cast<std::uint32_t>(payload_size));
    return w.size();
}

/// One body frame. Returns the bytes written; 0 when it does not fit or would be larger than
/// frame_max: contents are split by the caller, body_payload_max at a time.
std::size_t encode_body_frame(std::span<std::byte> out, std::uint16_t channel,
                              std::span<const std::byte> payload, std::uint32_t frame_max) noexcept;

/// 8 bytes, or 0 when they do not fit. Heartbeats travel on channel 0 (AMQP 0-9-1 4.2.7).
std::size_t encode_heartbeat(std::span<std::byte> out) noexcept;

} // namespace acquit::amqp::wire
