#include <acquit/amqp/session/tuning.h>
#include <acquit/amqp/wire/constants.h>

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace acquit::amqp {

namespace {

constexpr std::uint32_t frame_size_default = 131072;
constexpr std::uint32_t frame_size_of_specification = 4096;
constexpr std::uint16_t channel_max_default = std::numeric_limits<std::uint16_t>::max();

// The smaller of two limits where 0 is none.
template <class Number>
Number smaller_limit(Number a, Number b, Number if_none)
{
    if (a == 0 || b == 0) {
        const Number one = a == 0 ? b : a;
        return one == 0 ? if_none : one;
    }
    return std::min(a, b);
}

} // namespace

tuning negotiate(const tuned& ours, const tuned& offer)
{
    if (offer.frame_size_max != 0 && offer.frame_size_max < wire::frame_size_min) {
        return {{},
                fmt::format("the server offers a frame_max of {} bytes; the least that works is {}",
                            offer.frame_size_max, wire::frame_size_min)};
    }
    tuning answer;
    answer.result.frame_size_max =
        std::max(wire::frame_size_min,
                 smaller_limit(ours.frame_size_max, offer.frame_size_max, frame_size_default));
    answer.result.channel_max =
        smaller_limit(ours.channel_max, offer.channel_max, channel_max_default);
    if (ours.heartbeat_s != 0) {
        answer.result.heartbeat_s =
            smaller_limit(ours.heartbeat_s, offer.heartbeat_s, ours.heartbeat_s);
    }
    return answer;
}

tuning accept(const tuned& offer, const tuned& answer)
{
    const auto above = [](auto limit, auto value) {
        return limit != 0 && (value == 0 || value > limit);
    };
    if (above(offer.frame_size_max, answer.frame_size_max)) {
        return {{},
                fmt::format("negotiated frame_max = {} is higher than the maximum allowed value {}",
                            answer.frame_size_max, offer.frame_size_max)};
    }
    if (answer.frame_size_max != 0 && answer.frame_size_max < frame_size_of_specification) {
        return {{},
                fmt::format("negotiated frame_max = {} is lower than the minimum allowed value {}",
                            answer.frame_size_max, frame_size_of_specification)};
    }
    if (above(offer.channel_max, answer.channel_max)) {
        return {
            {},
            fmt::format("negotiated channel_max = {} is higher than the maximum allowed value {}",
                        answer.channel_max, offer.channel_max)};
    }
    tuning agreed{answer, {}};
    if (agreed.result.frame_size_max == 0) {
        agreed.result.frame_size_max = frame_size_default;
    }
    if (agreed.result.channel_max == 0) {
        agreed.result.channel_max = channel_max_default;
    }
    return agreed;
}

} // namespace acquit::amqp
