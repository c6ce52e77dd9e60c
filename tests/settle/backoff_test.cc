#include <acquit/settle/backoff.h>

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace acquit::settle {
namespace {

using namespace std::chrono_literals;

TEST(backoff_D12, a_fixed_delay_is_the_same_for_each_attempt)
{
    const backoff policy = backoff::fixed(3s);
    for (const std::uint32_t attempt : {0u, 1u, 2u, 1000u, UINT32_MAX})
        EXPECT_EQ(policy.delay(attempt, 12345), 3s);
}

TEST(backoff_D12, an_exponential_ceiling_grows_by_the_factor_up_to_the_cap)
{
    const backoff policy = backoff::exponential({.initial = 100ms, .factor = 2.0, .cap = 1s});
    EXPECT_EQ(policy.ceiling(0), 100ms);
    EXPECT_EQ(policy.ceiling(1), 100ms);
    EXPECT_EQ(policy.ceiling(2), 200ms);
    EXPECT_EQ(policy.ceiling(4), 800ms);
    EXPECT_EQ(policy.ceiling(5), 1s);
    EXPECT_EQ(policy.ceiling(UINT32_MAX), 1s); // no overflow on the way
}

TEST(backoff_D12, full_jitter_spreads_over_everything_below_the_ceiling)
{
    const backoff policy = backoff::exponential({.initial = 100ms, .factor = 2.0, .cap = 1s});
    EXPECT_EQ(policy.delay(5, 0), 0ns);
    EXPECT_EQ(policy.delay(5, std::uint64_t{1} << 63), 500ms);
    EXPECT_LE(policy.delay(5, UINT64_MAX), 1s);
    EXPECT_GT(policy.delay(5, UINT64_MAX), 999'999us);
    std::mt19937_64 random{1};
    std::chrono::nanoseconds sum{};
    for (int i = 0; i < 1000; ++i)
        sum += policy.delay(5, random());
    EXPECT_GT(sum / 1000, 450ms);
    EXPECT_LT(sum / 1000, 550ms);
}

TEST(backoff_D12, numbers_that_make_no_sense_are_named)
{
    EXPECT_FALSE(backoff::fixed(0s).problem());
    EXPECT_TRUE(backoff::fixed(-1s).problem());
    EXPECT_FALSE(backoff::exponential({}).problem());
    EXPECT_TRUE(backoff::exponential({.factor = 0.5}).problem());
    EXPECT_TRUE(
        backoff::exponential({.factor = std::numeric_limits<double>::quiet_NaN()}).problem());
    EXPECT_TRUE(
        backoff::exponential({.factor = std::numeric_limits<double>::infinity()}).problem());
    EXPECT_TRUE(backoff::exponential({.initial = 10s, .cap = 1s}).problem());
}

} // namespace
} // namespace acquit::settle
