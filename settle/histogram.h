/// A latency histogram: nanoseconds to an hour in 18 KiB, no allocation, percentiles within 1 %.
///
/// Log-linear: values below 128 have a bucket each; above, every power of two is divided into 64
/// equal buckets. A bucket answers with its middle, so an answer is off by at most half a bucket:
/// 1/128 of the value. Values beyond the range count in the last bucket; max() stays exact.
///
///     histogram latency;
///     latency.record(now - received);
///     log("p50 {} p99 {} max {}", latency.percentile(50), latency.percentile(99), latency.max());
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace acquit::settle {

class histogram {
public:
    using nanoseconds = std::chrono::nanoseconds;

    /// A negative duration (two clocks that disagree) counts as zero.
    void record(nanoseconds duration, std::uint64_t times = 1) noexcept
    {
        const auto value = static_cast<std::uint64_t>(std::max<std::int64_t>(duration.count(), 0));
        buckets_[index_of(value)] += times;
        count_ += times;
        sum_ += value * times;
        max_ = std::max(max_, value);
    }

    [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
    [[nodiscard]] nanoseconds sum() const noexcept { return as_duration(sum_); }
    [[nodiscard]] nanoseconds max() const noexcept { return as_duration(max_); }
    /// Exact, like sum(); zero when nothing was recorded.
    [[nodiscard]] nanoseconds mean() const noexcept;

    /// The smallest recorded value that at least p per cent of all values do not exceed, within 1 %;
    /// p is clamped to 0..100. percentile(100) is max(). Zero when nothing was recorded.
    [[nodiscard]] nanoseconds percentile(double p) const noexcept;

    void merge(const histogram& other) noexcept;
    void reset() noexcept;

    /// Calls f(lower, upper, count) for each bucket that is not empty, ascending: lower <= value <
    /// upper.
    template <class F>
    void for_each_bucket(F&& f) const
    {
        for (std::size_t i = 0; i < bucket_count; ++i)
            if (buckets_[i] != 0)
                f(as_duration(lower_of(i)), as_duration(lower_of(i + 1)), buckets_[i]);
    }

    /// Values up to here (73 minutes) have a bucket of their own size.
    static constexpr nanoseconds largest_bucketed() noexcept
    {
        return as_duration((std::uint64_t{1} << range_bits) - 1);
    }

private:
    static constexpr unsigned half_bits = 6; // 64 buckets per power of two
    static constexpr unsigned range_bits = 42;
    static constexpr std::uint64_t half = std::uint64_t{1} << half_bits;
    static constexpr std::size_t bucket_count = (range_bits - half_bits + 1) * half;

    /// With b = the bits of value beyond the leading 7, the upper 7 bits say which of 64 buckets, b
    /// says which power of two.
    static constexpr std::size_t index_of(std::uint64_t value) noexcept
    {
        const auto beyond = static_cast<unsigned>(std::bit_width(value | half)) - (half_bits + 1);
        const auto index = (std::uint64_t{beyond} << half_bits) + (value >> beyond);
        return static_cast<std::size_t>(std::min<std::uint64_t>(index, bucket_count - 1));
    }
    static constexpr std::uint64_t lower_of(std::size_t index) noexcept
    {
        if (index < 2 * half)
            return index;
        const auto beyond = (index >> half_bits) - 1;
        return (std::uint64_t{index & (half - 1)} + half) << beyond;
    }
    static constexpr nanoseconds as_duration(std::uint64_t value) noexcept
    {
        return nanoseconds{static_cast<std::int64_t>(value)};
    }

    std::array<std::uint64_t, bucket_count> buckets_{};
    std::uint64_t count_ = 0;
    std::uint64_t sum_ = 0;
    std::uint64_t max_ = 0;
};

} // namespace acquit::settle
