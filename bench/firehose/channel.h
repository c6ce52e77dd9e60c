#pragma once

#include "belt.h"
#include "queues.h"
#include "unsettled.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace acquit::firehose {

class client;
struct channel;

/// Gets deliveries of one queue, within a window. Lives as long as its channel, because answers may
/// come after its cancel.
struct consumer {
    client* owner = nullptr;
    channel* on = nullptr;
    queue* from = nullptr;
    std::string tag;
    std::unique_ptr<belt> deliveries; ///< null once cancelled and the last bytes are gone
    std::uint8_t slot = 0;
    bool no_ack = false;
    bool cancelled = false;
    bool waiting = false;          ///< stands in the owner's list of those that can be served
    std::uint64_t prefetch = 0;    ///< 0: no limit
    std::uint64_t outstanding = 0; ///< delivered, not settled
    std::uint64_t in_batch = 0;    ///< deliveries whose bytes are not sent yet

    /// How many may be sent now.
    [[nodiscard]] std::uint64_t sendable() const noexcept;
};

struct channel {
    std::uint16_t number = 0;
    std::uint16_t prefetch = 0;        ///< of consumers to come
    std::uint16_t shared_prefetch = 0; ///< basic.qos global = 1, RabbitMQ: of the whole channel
    bool flowing = true;               ///< channel.flow
    bool confirms = false;
    std::uint64_t publishes = 0;
    std::uint64_t confirmed = 0;
    unsettled open;
    std::vector<std::unique_ptr<consumer>> consumers; ///< by slot - 1
    std::vector<std::uint64_t> sent_at;               ///< paced: by the low bits of the tag
};

inline std::uint64_t consumer::sendable() const noexcept
{
    if (cancelled || !on->flowing)
        return 0;
    auto most = std::min(from->available(), deliveries->size() - in_batch);
    if (no_ack)
        return most;
    if (prefetch != 0)
        most = std::min(most, prefetch > outstanding ? prefetch - outstanding : 0);
    if (const std::uint64_t shared = on->shared_prefetch; shared != 0)
        most = std::min(most, shared > on->open.open() ? shared - on->open.open() : 0);
    return std::min(most, on->open.room());
}

} // namespace acquit::firehose
