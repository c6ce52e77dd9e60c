#pragma once

#include <acquit/amqp/wire/constants.h>
#include <acquit/amqp/wire/detail/bytes.h>
#include <acquit/amqp/wire/settle_frames.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace acquit::firehose {

/// What a client does with a delivery.
enum class verdict : std::uint8_t { ack, reject, requeue, nack, nack_requeue };

struct settlement {
    std::uint16_t channel = 0;
    std::uint64_t tag = 0;
    verdict how = verdict::ack;
    bool multiple = false;
};

/// True when `input` begins with a whole, well-formed basic.ack, reject or nack. False says nothing
/// but that the session has to look at it.
inline bool parse_settlement(std::span<const std::byte> input, settlement& out) noexcept
{
    namespace detail = amqp::wire::detail;
    if (input.size() < amqp::wire::settle_frame_size)
        return false;
    const std::byte* const from = input.data();
    if (detail::load_u8(from) != amqp::wire::frame_method || detail::load_u32(from + 3) != 13 ||
        detail::load_u16(from + 7) != amqp::wire::class_basic ||
        detail::load_u8(from + 20) != amqp::wire::frame_end)
        return false;
    const auto bits = detail::load_u8(from + 19);
    out.channel = detail::load_u16(from + 1);
    out.tag = detail::load_u64(from + 11);
    switch (detail::load_u16(from + 9)) {
    case 80:
        out.how = verdict::ack;
        out.multiple = (bits & 1u) != 0;
        return true;
    case 90:
        out.how = (bits & 1u) != 0 ? verdict::requeue : verdict::reject;
        out.multiple = false;
        return true;
    case 120:
        out.how = (bits & 2u) != 0 ? verdict::nack_requeue : verdict::nack;
        out.multiple = (bits & 1u) != 0;
        return true;
    default:
        return false;
    }
}

} // namespace acquit::firehose
