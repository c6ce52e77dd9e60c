#include <acquit/settle/histogram.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

namespace acquit::settle {
namespace {

using namespace std::chrono_literals;

TEST(histogram, is_empty_at_first)
{
    const histogram h;
    EXPECT_EQ(h.count(), 0u);
    EXPECT_EQ(h.mean(), 0ns);
    EXPECT_EQ(h.max(), 0ns);
    EXPECT_EQ(h.percentile(99), 0ns);
}

TEST(histogram, small_values_are_exact)
{
    histogram h;
    for (int i = 0; i < 100; ++i)
        h.record(std::chrono::nanoseconds{i});
    EXPECT_EQ(h.percentile(0), 0ns);
    EXPECT_EQ(h.percentile(50), 49ns);
    EXPECT_EQ(h.percentile(99), 98ns);
    EXPECT_EQ(h.percentile(100), 99ns);
    EXPECT_EQ(h.mean(), 49ns);
    EXPECT_EQ(h.sum(), 4950ns);
}

TEST(histogram, each_value_up_to_its_range_is_answered_within_one_per_cent)
{
    for (std::int64_t value = 1; value <= histogram::largest_bucketed().count();
         value += 1 + value / 37) {
        histogram h;
        h.record(std::chrono::nanoseconds{value});
        h.record(histogram::largest_bucketed()); // so that percentile(50) is not the maximum
        const auto answer = static_cast<double>(h.percentile(50).count());
        ASSERT_LE(std::abs(answer - static_cast<double>(value)), 0.01 * static_cast<double>(value))
            << value;
    }
}

TEST(histogram, buckets_touch_and_hold_what_was_recorded)
{
    histogram h;
    std::mt19937_64 random{7};
    for (int i = 0; i < 100'000; ++i)
        h.record(std::chrono::nanoseconds{static_cast<std::int64_t>(random() >> (22 + i % 42))});
    std::uint64_t total = 0;
    auto before = -1ns;
    h.for_each_bucket(
        [&](std::chrono::nanoseconds lower, std::chrono::nanoseconds upper, std::uint64_t count) {
            EXPECT_GE(lower, before);
            EXPECT_LT(lower, upper);
            before = upper;
            total += count;
        });
    EXPECT_EQ(total, h.count());

    // Each value is in the bucket that says so.
    for (unsigned shift = 0; shift < 42; ++shift)
        for (const std::int64_t off : {-1, 0, 1}) {
            const std::int64_t value = std::max<std::int64_t>((std::int64_t{1} << shift) + off, 0);
            histogram one;
            one.record(std::chrono::nanoseconds{value});
            one.for_each_bucket([&](auto lower, auto upper, std::uint64_t) {
                EXPECT_LE(lower.count(), value);
                EXPECT_GT(upper.count(), value);
            });
        }
}

TEST(histogram, percentiles_agree_with_a_sorted_list)
{
    histogram h;
    std::vector<std::int64_t> all;
    std::mt19937_64 random{3};
    std::lognormal_distribution<double> latency{11, 2};
    for (int i = 0; i < 20'000; ++i) {
        all.push_back(static_cast<std::int64_t>(latency(random)));
        h.record(std::chrono::nanoseconds{all.back()});
    }
    std::ranges::sort(all);
    for (const double p : {0.0, 1.0, 25.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0}) {
        const auto rank = static_cast<std::size_t>(
            std::max(std::ceil(p / 100 * static_cast<double>(all.size())), 1.0));
        const auto exact = static_cast<double>(all[rank - 1]);
        EXPECT_NEAR(static_cast<double>(h.percentile(p).count()), exact, 0.01 * exact + 1) << p;
    }
    EXPECT_EQ(h.percentile(-5), h.percentile(0));
    EXPECT_EQ(h.percentile(500), h.max());
    EXPECT_EQ(h.percentile(std::nan("")), h.percentile(0));
}

TEST(histogram, what_lies_beyond_the_range_is_counted_and_its_maximum_is_exact)
{
    histogram h;
    h.record(-5ns);
    h.record(std::chrono::nanoseconds::max());
    EXPECT_EQ(h.count(), 2u);
    EXPECT_EQ(h.percentile(50), 0ns);
    EXPECT_EQ(h.max(), std::chrono::nanoseconds::max());
    EXPECT_EQ(h.percentile(99), std::chrono::nanoseconds::max());
}

TEST(histogram, merging_is_recording_both)
{
    histogram a;
    histogram b;
    histogram both;
    for (int i = 1; i < 1000; ++i) {
        const auto value = std::chrono::nanoseconds{i * i * 100};
        (i % 3 == 0 ? a : b).record(value);
        both.record(value);
    }
    a.merge(b);
    EXPECT_EQ(a.count(), both.count());
    EXPECT_EQ(a.sum(), both.sum());
    EXPECT_EQ(a.max(), both.max());
    for (int p = 0; p <= 100; ++p)
        EXPECT_EQ(a.percentile(p), both.percentile(p));
    a.reset();
    EXPECT_EQ(a.count(), 0u);
    EXPECT_EQ(a.max(), 0ns);
}

} // namespace
} // namespace acquit::settle
