/// From a descriptor and a retry limit to the arguments that are really declared, by server version.
///
/// On a classic queue the limit is ours (counted copies): the arguments stay as described. On a
/// quorum queue the server counts, so the pair max_attempts / dead_letter becomes queue arguments:
///
///     x-delivery-limit          = max_attempts - 1      (the server counts returns, not deliveries)
///     x-dead-letter-exchange    = "" unless the descriptor names one
///     x-dead-letter-routing-key = dead_letter
///
/// A dead-letter queue is classic unless described otherwise. As a quorum queue it gets no limit of
/// its own: on RabbitMQ 4.3 the delivery count travels along with a dead-lettered message and would
/// eat the target's default limit of 20 (measured: one delivery left, then the message was dropped).
#pragma once

#include <acquit/settle/delay.h>
#include <acquit/settle/queue_description.h>

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace acquit::settle {

/// From server-properties; a part that cannot be read is 0.
struct server_version {
    std::uint32_t major = 0;
    std::uint32_t minor = 0;
    std::uint32_t patch = 0;

    auto operator<=>(const server_version&) const = default;

    /// "4.3.6", "4.0.5-rc.1", "3.10.8+deb".
    [[nodiscard]] static server_version parse(std::string_view text) noexcept;
    [[nodiscard]] std::string text() const;
};

/// The delayed retry of quorum queues: `delay::native`.
inline constexpr server_version delayed_retry_since{4, 3, 0};
/// A delivery count survives dead-lettering, and counts against the target's own limit.
inline constexpr server_version count_travels_since{4, 3, 0};

struct retry_limit {
    /// Deliveries of one message, the first included; nothing: no limit. 0 is a problem.
    std::optional<std::uint32_t> max_attempts{};
    /// The queue for what reached the limit.
    std::optional<std::string> dead_letter{};
};

struct declared_arguments {
    amqp::wire::table table;
    std::vector<std::string> problems; // the start must fail with these, before any channel opens
    std::vector<std::string> warnings;
};

/// What is wrong with a limit on this queue whatever the server: half a pair, max_attempts(0), a
/// quorum queue that we may not declare, a descriptor that says otherwise. Needs no connection.
[[nodiscard]] std::vector<std::string>
limit_problems(const queue_description& queue, const retry_limit& limit, bool declare_topology);

/// The arguments for the queue's queue.declare; problems include limit_problems with
/// declare_topology. `delay::native` becomes arguments of the queue.
[[nodiscard]] declared_arguments arguments_of(const queue_description& queue,
                                              const retry_limit& limit, server_version server,
                                              const delay& waiting = {});

/// For a server that has no delayed retry: what it lacks and what to use instead.
[[nodiscard]] std::string needs_delayed_retry(server_version server);

/// The arguments for a dead-letter queue's queue.declare.
[[nodiscard]] declared_arguments dead_letter_arguments_of(const queue_description& queue,
                                                          server_version server);

/// The dead-letter queue that is declared when only its name is known: classic, durable.
[[nodiscard]] queue_description default_dead_letter_queue(std::string name);

} // namespace acquit::settle
