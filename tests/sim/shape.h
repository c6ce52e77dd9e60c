#pragma once

#include <acquit/runtime/random.h>
#include <acquit/settle/subscription.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace acquit::testing {

/// How a service of the simulation ends.
enum class ending : std::uint8_t {
    when_quiet, ///< after the faults, when nothing is left to do: the drain must be clean
    whenever,   ///< `stop()` at any moment, in the middle of faults
    aborted,    ///< the same, and `abort()` soon after
};

/// What handlers do: parts of a hundred. What is left is an ack.
struct behaviour {
    unsigned drop = 0;
    unsigned retry = 0;
    unsigned retry_after = 0;
    unsigned fail = 0;
    /// Of a hundred messages, so many never succeed, whatever the rest says (limited shapes only).
    unsigned poison = 0;
    /// From this call on a message succeeds, so that every run comes to an end.
    unsigned patience = 4;
    std::chrono::nanoseconds work_max{};
    std::chrono::nanoseconds delay_max{};
};

/// One world: a service, its handlers, its broker and what befalls them, all drawn from a seed.
struct shape {
    std::uint64_t seed = 0;

    // The service.
    bool quorum = false;
    std::uint16_t prefetch = 1;
    std::uint32_t concurrency = 1;
    bool plain = false;
    std::optional<std::uint32_t> max_attempts;
    bool dead_letter = false;
    settle::delay delay;
    std::optional<settle::backoff> pause;
    settle::copies order = settle::copies::confirmed;
    settle::timers_at_drain timers = settle::timers_at_drain::wait;
    settle::on_failure on_error = settle::on_failure::retry;
    settle::drain_policy policy = settle::drain_policy::finish_received;
    std::chrono::nanoseconds hold{}; ///< of the flush policy
    std::chrono::nanoseconds drain_deadline{};
    behaviour handlers;

    // The broker and the way to it.
    std::string version;
    std::uint16_t heartbeat_s = 60;
    std::uint32_t frame_size_max = 131072;
    std::size_t capacity = 65536;
    std::uint64_t chunk_seed = 0;
    std::uint64_t shuffle_seed = 0;
    std::chrono::nanoseconds on_the_way{};

    // What happens.
    std::size_t messages = 0;
    std::size_t body_max = 0;
    std::chrono::nanoseconds feeding{}; ///< over which messages are published
    std::chrono::nanoseconds trouble{}; ///< how long faults are injected; 0: never
    std::chrono::nanoseconds between_faults{};
    ending end = ending::when_quiet;
    std::chrono::nanoseconds end_after{}; ///< but for when_quiet

    /// Of a hundred copies, so many are refused, returned, confirmed late, or never confirmed.
    unsigned copy_trouble = 0;

    [[nodiscard]] bool calm() const noexcept { return trouble.count() == 0; }
    /// A retry may leave the queue and wait in this process alone (D1, or copies::unconfirmed).
    [[nodiscard]] bool keeps_in_process() const noexcept;
    /// How many handlers a message may find before it in its queue.
    [[nodiscard]] std::int64_t patience_in_queue() const noexcept
    {
        return static_cast<std::int64_t>(messages / concurrency) + 1;
    }
    /// The limit is kept by one count: a message has exactly max_attempts deliveries.
    [[nodiscard]] bool counts_exactly() const noexcept;
    /// From the broker's version: whether basic.nack counts as a failed delivery.
    [[nodiscard]] bool counts_nacks() const { return !version.starts_with("4.3"); }
};

[[nodiscard]] shape shape_of(std::uint64_t seed);

/// One line.
[[nodiscard]] std::string describe(const shape& s);

} // namespace acquit::testing
