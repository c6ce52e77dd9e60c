#include <acquit/amqp/wire/frame.h>

#include <algorithm>
#include <cstring>

namespace acquit::amqp::wire {

namespace {

// What a payload of each type has at least and at most, in bytes.
struct payload_bounds {
    std::uint64_t min;
    std::uint64_t max;
};

constexpr frame_status failed(fault what) noexcept
{
    return {.state = frame_state::fault, .wanted = 0, .error = failure(what)};
}

constexpr frame_status need(std::uint64_t bytes) noexcept
{
    return {
        .state = frame_state::need_more, .wanted = static_cast<std::size_t>(bytes), .error = {}};
}

} // namespace

frame_status parse_frame(std::span<const std::byte> input, std::uint32_t frame_max,
                         frame_view& out) noexcept
{
    if (input.empty())
        return need(frame_overhead);
    auto type = detail::load_u8(input.data());
    payload_bounds bounds{0, frame_max};
    switch (type) {
    case frame_method:
        bounds.min = 4; // class id, method id
        break;
    case frame_header:
        bounds.min = 14; // class id, weight, body size, flags
        bounds.max = std::max<std::uint64_t>(frame_max, header_frame_size_max - frame_overhead);
        break;
    case frame_body:
        break;
    case frame_heartbeat:
        bounds.max = 0;
        break;
    default:
        return failed(fault::unknown_frame_type);
    }
    if (input.size() < frame_head_size)
        return need(frame_overhead);
    std::uint64_t payload_size = detail::load_u32(input.data() + 3);
    if (payload_size < bounds.min)
        return failed(fault::frame_too_small);
    if (payload_size > bounds.max)
        return failed(fault::frame_too_large);
    std::uint64_t size = payload_size + frame_overhead; // 64 bits: cannot wrap
    if (input.size() < size)
        return need(size);
    auto payload = input.subspan(frame_head_size, static_cast<std::size_t>(payload_size));
    if (detail::load_u8(payload.data() + payload.size()) != frame_end)
        return failed(fault::frame_end_missing);
    out = {.type = type,
           .channel = detail::load_u16(input.data() + 1),
           .payload = payload,
           .size = static_cast<std::size_t>(size)};
    return {};
}

bool begins_protocol_header(std::span<const std::byte> input) noexcept
{
    auto size = std::min<std::size_t>(input.size(), 4);
    return size > 0 && std::memcmp(input.data(), protocol_header.data(), size) == 0;
}

std::size_t encode_body_frame(std::span<std::byte> out, std::uint16_t channel,
                              std::span<const std::byte> payload, std::uint32_t frame_max) noexcept
{
    if (payload.size() > body_payload_max(frame_max))
        return 0;
    return build_frame(out, frame_body, channel, [&](writer& w) { w.bytes(payload); });
}

std::size_t encode_heartbeat(std::span<std::byte> out) noexcept
{
    return build_frame(out, frame_heartbeat, 0, [](writer&) {});
}

} // namespace acquit::amqp::wire
