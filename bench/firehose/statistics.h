#pragma once

#include "settings.h"

#include <acquit/settle/histogram.h>

#include <array>
#include <cstdint>
#include <string>

namespace acquit::firehose {

/// The clock of everything here: monotonic, nanoseconds.
[[nodiscard]] std::uint64_t clock_ns() noexcept;
/// User and system time of this process, nanoseconds.
[[nodiscard]] std::uint64_t cpu_ns() noexcept;

/// What the server saw. All counts are of deliveries where nothing else is said.
struct statistics {
    std::uint64_t deliveries = 0;  ///< handed to the kernel, or about to be
    std::uint64_t redelivered = 0; ///< of these, with redelivered = 1
    std::uint64_t no_ack = 0;      ///< of these, to consumers that do not settle

    std::uint64_t acked = 0;
    std::uint64_t rejected = 0;       ///< basic.reject requeue = 0
    std::uint64_t requeued = 0;       ///< basic.reject requeue = 1
    std::uint64_t nacked = 0;         ///< basic.nack requeue = 0
    std::uint64_t given_back = 0;     ///< basic.nack requeue = 1
    std::uint64_t recovered = 0;      ///< by basic.recover
    std::uint64_t left_unsettled = 0; ///< when their channel ended
    std::uint64_t settlement_frames = 0;
    std::uint64_t multiple_frames = 0; ///< of these, with multiple = 1
    std::uint64_t settled_twice = 0;   ///< settlements of a tag that was settled before
    std::uint64_t unknown_tags = 0;    ///< settlements of a tag that was never sent

    std::uint64_t connections = 0;
    std::uint64_t connections_refused = 0; ///< beyond the limit
    std::uint64_t channels = 0;
    std::uint64_t consumers = 0;
    std::uint64_t publishes = 0;
    std::uint64_t protocol_errors = 0; ///< connections ended for what their client sent
    std::uint64_t bytes_out = 0;
    std::uint64_t sends = 0;    ///< system calls
    std::uint64_t receives = 0; ///< system calls
    std::uint64_t turns = 0;    ///< looks at the kernel
    std::uint64_t sleeps = 0;   ///< waits that did not return at once

    /// Paced: sending to settlement.
    settle::histogram settlement_latency;
    std::uint64_t late = 0; ///< paced: deliveries sent when the next was due already

    // From the first delivery on, until there was nothing to deliver or settle any more.
    std::uint64_t first_delivery_ns = 0;
    std::uint64_t last_activity_ns = 0; ///< settlement, or delivery that needs none
    std::uint64_t first_cpu_ns = 0;
    std::uint64_t last_cpu_ns = 0;
    /// Time asleep while deliveries could not go on: the client's window was full, or its socket.
    std::uint64_t waited_window_ns = 0;
    std::uint64_t waited_socket_ns = 0;
    // The same, with what comes after the last activity.
    std::uint64_t asleep_window_ns = 0;
    std::uint64_t asleep_socket_ns = 0;

    void note_activity(std::uint64_t now_ns) noexcept
    {
        last_activity_ns = now_ns;
        waited_window_ns = asleep_window_ns;
        waited_socket_ns = asleep_socket_ns;
    }

    [[nodiscard]] std::uint64_t settled() const noexcept
    {
        return acked + rejected + requeued + nacked + given_back;
    }
};

/// Below this share of time waited for the client, the server may have been what limited the rate.
inline constexpr double waiting_share_least = 0.05;

struct summary {
    double seconds = 0;
    double rate = 0;               ///< deliveries per second
    double cpu_us_per_message = 0; ///< of the server
    double messages_per_frame = 0; ///< settled by one settlement frame, on average
    double waiting_share = 0;      ///< of the time, 0 to 1
    bool server_was_the_limit = false;
};

[[nodiscard]] summary summarize(const statistics& s, const settings& how);
[[nodiscard]] std::string to_json(const statistics& s, const settings& how);

} // namespace acquit::firehose
