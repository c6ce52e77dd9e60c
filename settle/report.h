#pragma once

#include <acquit/settle/subscription.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace acquit::settle {

/// What became of everything that a service received. It adds up: a delivery was decided by its
/// handler, sent on to its next waiting queue, given back, dropped with its channel before a handler
/// took it, or abandoned.
struct report {
    struct line {
        std::string queue;
        subscription_metrics metrics;
        /// What was in a handler, and copies and delays that were open, when the drain was cut short;
        /// at most `retrier::names_max` of each.
        std::vector<unfinished> left;
    };
    std::vector<line> queues;
    std::uint64_t reconnects = 0;
    std::chrono::nanoseconds drain_time{};
    /// The drain ended by its deadline or by a second signal, not by being done.
    bool cut_short = false;
    /// A handler's exception under `on_failure::stop`, or a lost connection during the drain.
    std::exception_ptr error;

    [[nodiscard]] std::uint64_t received() const noexcept;
    /// Decided by a handler, and the decision was sent.
    [[nodiscard]] std::uint64_t finished() const noexcept;
    [[nodiscard]] std::uint64_t given_back() const noexcept;
    /// Neither finished nor given back: the broker delivers these again, and nobody can say whether
    /// their handlers did their work.
    [[nodiscard]] std::uint64_t unknown() const noexcept;
    /// Copies whose delay ended in this process, and that the broker confirmed.
    [[nodiscard]] std::uint64_t timers_published() const noexcept;
    /// Copies that waited in this process when the drain was cut short; their originals are settled:
    /// these messages are lost.
    [[nodiscard]] std::uint64_t timers_lost() const noexcept;
    /// Drained to the end, without an error.
    [[nodiscard]] bool clean() const noexcept;
    /// A line per queue, and what to know beyond; ends with a newline.
    [[nodiscard]] std::string text() const;
};

} // namespace acquit::settle
