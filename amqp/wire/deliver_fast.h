#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace acquit::amqp::wire {

/// A whole delivery, as parse_delivery finds it. Everything points into the input.
struct delivery_frames {
    std::uint16_t channel = 0;
    bool redelivered = false;
    std::uint64_t delivery_tag = 0;
    std::string_view consumer_tag;
    std::string_view exchange;
    std::string_view routing_key;
    std::span<const std::byte>
        properties; ///< flags and values, undecoded: make a properties_view of it
    std::span<const std::byte> body;
    std::size_t consumed = 0; ///< bytes of the frames together
};

/// The common case in one pass. True when `input` begins with
///
///     | method frame: basic.deliver | header frame: class 60 | body frame with the whole body;
///     none when it is empty |
///
/// all complete, on one channel (not 0), each well-formed and within `frame_max` by the rules of
/// parse_frame. False is no error: it says "use the general path", which finds out what there is
/// instead, and what may be wrong with it. `out` is unspecified then. About 130 instructions, no
/// loop: this is the cost of a message.
bool parse_delivery(std::span<const std::byte> input, std::uint32_t frame_max,
                    delivery_frames& out) noexcept;

} // namespace acquit::amqp::wire
