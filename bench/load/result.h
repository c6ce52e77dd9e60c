#pragma once

#include <acquit/settle/histogram.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

/// What was measured: plain values between those who measure and those who write.
namespace acquit::bench {

using settle::histogram;

/// Counts of messages and frames over some time.
struct counts {
    std::uint64_t sent = 0;
    std::uint64_t confirmed = 0;
    std::uint64_t nacked = 0; ///< and those without an answer in time
    std::uint64_t returned = 0;
    std::uint64_t received = 0;
    std::uint64_t acked = 0;
    std::uint64_t dropped = 0;
    std::uint64_t retried = 0;
    std::uint64_t delayed = 0; ///< retry_after

    void add(const counts& other) noexcept;
};

/// Settling, of all channels with one prefetch.
struct settling {
    std::uint32_t prefetch = 0; ///< N of the settlement latency; 0: no limit, nothing measured
    std::uint64_t settled = 0;  ///< messages
    std::uint64_t frames = 0;   ///< basic.ack, basic.reject and basic.nack that settled them
    histogram latency{};        ///< of what it is, see credit.h
    histogram hold{};           ///< empty where it cannot be known

    void add(const settling& other) noexcept;
    /// What was added since `before`. The histograms are those of the buckets: within 1 %.
    [[nodiscard]] settling since(const settling& before) const;
    [[nodiscard]] double messages_per_frame() const noexcept
    {
        return frames == 0 ? 0 : static_cast<double>(settled) / static_cast<double>(frames);
    }
};

/// min, median, 75th, 95th, 99th percentile.
using five = std::array<std::chrono::nanoseconds, 5>;
[[nodiscard]] five five_of(const histogram& h) noexcept;

/// One interval.
struct sample {
    double at = 0;      ///< seconds from the start to its end
    double seconds = 0; ///< its length
    bool warm_up = false;
    counts done{};
    std::uint64_t settled = 0;
    std::uint64_t frames = 0;
    double cpu_seconds = 0; ///< user and system, of this process
    bool has_consumer_latency = false;
    bool has_confirm_latency = false;
    bool has_settlement_latency = false;
    five consumer_latency{};
    five confirm_latency{};
    five settlement_latency{};

    [[nodiscard]] double per_second(std::uint64_t count) const noexcept
    {
        return seconds > 0 ? static_cast<double>(count) / seconds : 0;
    }
};

/// What the proxy saw on a channel of somebody's that consumed.
struct watched {
    std::string client{};         ///< as it calls itself
    std::uint32_t connection = 0; ///< in the order of their coming, from 1
    std::uint16_t channel = 0;
    std::uint32_t prefetch = 0; ///< of its first consumer
    std::uint64_t deliveries = 0;
    std::uint64_t settled = 0;
    std::uint64_t frames = 0;
    std::shared_ptr<histogram> latency{}; ///< null where nothing was measured
};
/// So many are told of one by one; the others count in the totals.
inline constexpr std::size_t watched_max = 128;

struct result {
    std::string id{};
    std::string command{}; ///< without a password
    std::string version{}; ///< of this program
    std::string broker{};  ///< "RabbitMQ 4.3.0"
    std::string system{};  ///< "Linux 6.1.0, 2 CPUs"
    std::string began{};   ///< "2025-01-31 12:00:00 UTC"
    bool proxy = false;    ///< the clients are others
    bool milliseconds = false;
    bool publishes = false;
    bool consumes = false;
    bool confirms = false;
    std::string settle{}; ///< how; "" where nothing is settled
    std::uint32_t body_size = 0;
    std::string verdict{}; ///< "" where nothing was verified
    bool verified = true;

    double seconds = 0; ///< without the warm-up
    double warm_up = 0;
    counts totals{};
    double cpu_seconds = 0;
    histogram consumer_latency{};
    histogram confirm_latency{};
    std::vector<settling> settlements{}; ///< by prefetch, ascending
    std::vector<sample> samples{};
    std::vector<watched> channels{};    ///< of a proxy
    std::uint32_t looks = 0;            ///< at the queues: how often they were looked at...
    std::uint32_t empty_looks = 0;      ///< ...and had no message ready
    std::vector<std::string> remarks{}; ///< sentences that belong beside the figures

    [[nodiscard]] double per_second(std::uint64_t count) const noexcept
    {
        return seconds > 0 ? static_cast<double>(count) / seconds : 0;
    }
    /// Messages that passed: received or sent, whichever were more.
    [[nodiscard]] std::uint64_t messages() const noexcept
    {
        return std::max(totals.received, totals.sent);
    }
    /// CPU time of this process for each of them, in microseconds.
    [[nodiscard]] double cpu_us_per_message() const noexcept;
    /// Of the prefetch with the most measurements; null where there are none.
    [[nodiscard]] const settling* main_settlement() const noexcept;
};

/// So many samples are kept. Beyond that two neighbours become one, so that a run of days has a
/// report; a last one that is much shorter than the others becomes a part of the one before.
inline constexpr std::size_t samples_max = 4096;
void keep(std::vector<sample>& samples, const sample& next);

} // namespace acquit::bench
