#pragma once

#include <acquit/settle/backoff.h>
#include <acquit/settle/delay.h>
#include <acquit/settle/ledger.h>
#include <acquit/settle/outcome.h>
#include <acquit/settle/queue_description.h>
#include <acquit/settle/topology_arguments.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

/// What is done about an outcome: settle the original now, publish a copy and settle it when the
/// broker has confirmed that, or wait first. Pure: a function of outcome, attempt, kind of queue,
/// limit and delay mode, so that the whole table can be tested without a broker.
namespace acquit::settle {

struct retry_rules {
    std::string queue{}; ///< the name that the server knows
    queue_kind kind = queue_kind::classic;
    retry_limit limit{};
    settle::delay delay{};
    /// Delays `retry()` itself; nothing: at once.
    std::optional<backoff> pause{};
    /// The longest time that `delay::hold` keeps a delivery.
    std::chrono::nanoseconds hold_max = std::chrono::minutes(20);
};

/// Three quarters of the time that the broker waits for a settlement: of `x-consumer-timeout` of the
/// consumer or the queue, but of no more than RabbitMQ's 30 minutes (before 3.12 the argument is
/// ignored).
[[nodiscard]] std::chrono::nanoseconds hold_max_of(const queue_description& queue) noexcept;

struct retry_plan {
    enum class step : std::uint8_t {
        settle, ///< `how`, now
        copy,   ///< publish; `how` once it is confirmed
        later,  ///< `how` now; the copy is published when `wait` is over
        hold,   ///< nothing now; after `wait` what `after` says
    };
    step what = step::settle;
    disposition how = disposition::ack;
    step after = step::settle; ///< of hold: settle or copy
    std::chrono::nanoseconds wait{};

    // Of the copy.
    std::string exchange;
    std::string routing_key;
    std::uint32_t copies = 0; ///< value of the counting header
    bool mandatory = true;
    std::optional<std::uint64_t> expiration_ms;
    std::optional<std::int64_t> x_delay_ms;
    std::chrono::nanoseconds left{}; ///< buckets: to wait after this hop

    bool dead_letter = false;   ///< the limit is reached
    bool delay_dropped = false; ///< a delay was asked for and is not kept, or not all of it
};

/// `attempt` of the delivery, from 1. `held`: deliveries that delay::hold keeps now. `random`: 64
/// uniformly random bits, for the backoff's jitter.
[[nodiscard]] retry_plan plan_of(const retry_rules& rules, outcome decided, std::uint32_t attempt,
                                 std::uint32_t held, std::uint64_t random);

/// buckets: the next hop of a message that arrived with `left` still to wait; no handler sees it.
/// `copies`: what its counting header says.
[[nodiscard]] retry_plan next_hop(const retry_rules& rules, std::uint32_t copies,
                                  std::chrono::nanoseconds left);

} // namespace acquit::settle
