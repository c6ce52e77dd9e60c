#include <acquit/amqp/wire/deliver_fast.h>
#include <acquit/amqp/wire/frame.h>

#include <algorithm>

namespace acquit::amqp::wire {

namespace {

// deliver with three empty strings: ids, three length octets, tag, bits.
constexpr std::size_t deliver_payload_min = 4 + 3 + 8 + 1;
constexpr std::size_t header_payload_min = 14;
constexpr std::uint32_t deliver_ids = std::uint32_t{class_basic} << 16 | 60;

bool ends_at(const std::byte* octet) noexcept
{
    return detail::load_u8(octet) == frame_end;
}

} // namespace

bool parse_delivery(std::span<const std::byte> input, std::uint32_t frame_max,
                    delivery_frames& out) noexcept
{
    // Every comparison is of a size with what remains, in 64 bits; nothing is added to a pointer
    // before that.
    const std::byte* method = input.data();
    std::uint64_t left = input.size();
    if (left < 2 * frame_overhead + deliver_payload_min + header_payload_min)
        return false;
    std::uint64_t size = detail::load_u32(method + 3);
    auto channel = detail::load_u16(method + 1);
    if (detail::load_u8(method) != frame_method || detail::load_u32(method + 7) != deliver_ids ||
        channel == 0 || size > frame_max || size < deliver_payload_min ||
        left < size + 2 * frame_overhead + header_payload_min || !ends_at(method + 7 + size))
        return false;

    // The fixed part is within deliver_payload_min; each string adds its length to what is needed.
    const std::byte* at = method + 11;
    std::uint64_t needed = deliver_payload_min;
    std::size_t length = detail::load_u8(at);
    if ((needed += length) > size)
        return false;
    out.consumer_tag = detail::as_text(at + 1, length);
    at += 1 + length;
    out.delivery_tag = detail::load_u64(at);
    out.redelivered = (detail::load_u8(at + 8) & 1) != 0;
    at += 9;
    length = detail::load_u8(at);
    if ((needed += length) > size)
        return false;
    out.exchange = detail::as_text(at + 1, length);
    at += 1 + length;
    length = detail::load_u8(at);
    if ((needed += length) > size)
        return false;
    out.routing_key = detail::as_text(at + 1, length);

    const std::byte* header = method + size + frame_overhead;
    left -= size + frame_overhead;
    size = detail::load_u32(header + 3);
    if (detail::load_u8(header) != frame_header || detail::load_u16(header + 1) != channel ||
        detail::load_u16(header + 7) != class_basic || size < header_payload_min ||
        size > std::max<std::uint64_t>(frame_max, header_frame_size_max - frame_overhead) ||
        left < size + frame_overhead || !ends_at(header + 7 + size))
        return false;
    out.properties = {header + 19, static_cast<std::size_t>(size - 12)};
    std::uint64_t body_size = detail::load_u64(header + 11);

    const std::byte* body = header + size + frame_overhead;
    left -= size + frame_overhead;
    out.channel = channel;
    out.body = {};
    out.consumed = static_cast<std::size_t>(body - method);
    if (body_size == 0)
        return true;
    if (left < frame_overhead)
        return false;
    size = detail::load_u32(body + 3);
    if (detail::load_u8(body) != frame_body || detail::load_u16(body + 1) != channel ||
        size != body_size || size > frame_max || left < size + frame_overhead ||
        !ends_at(body + 7 + size))
        return false;
    out.body = {body + 7, static_cast<std::size_t>(size)};
    out.consumed += static_cast<std::size_t>(size + frame_overhead);
    return true;
}

} // namespace acquit::amqp::wire
