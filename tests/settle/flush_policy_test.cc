#include <acquit/settle/flush_policy.h>

#include <gtest/gtest.h>

namespace acquit::settle {
namespace {

using namespace std::chrono_literals;

constexpr flush_clock::time_point start{1h};

TEST(flush_policy_L4, a_lone_settlement_after_idling_is_due_at_once)
{
    flush_clock clock{{}, 256};
    EXPECT_TRUE(clock.due(start, 1, 0)); // the first one ever
    clock.flushed(start);
    EXPECT_TRUE(clock.due(start + 100us, 1, 0));
}

TEST(flush_policy_L4, within_the_hold_time_it_waits_for_the_count)
{
    flush_clock clock{{.hold = 100us}, 256};
    clock.flushed(start);
    EXPECT_FALSE(clock.due(start + 99us, 63, 100));
    EXPECT_TRUE(clock.due(start + 99us, 64, 100));
    EXPECT_EQ(clock.next_deadline(63), start + 100us);
    EXPECT_TRUE(clock.due(clock.next_deadline(63), 63, 100));
}

TEST(flush_policy_L4, nothing_to_tell_is_never_due_and_needs_no_timer)
{
    flush_clock clock{{.hold = 0ns}, 10};
    EXPECT_FALSE(clock.due(start, 0, 5));
    EXPECT_EQ(clock.next_deadline(0), flush_clock::time_point::max());
}

TEST(flush_policy_L4, hold_0_is_due_at_the_end_of_every_turn)
{
    flush_clock clock{{.hold = 0ns}, 256};
    clock.flushed(start);
    EXPECT_TRUE(clock.due(start, 1, 200));
}

TEST(flush_policy_L4, the_count_is_a_quarter_of_the_prefetch_between_1_and_256)
{
    for (const auto& [prefetch, count] : {std::pair{1u, 1u},
                                          {3u, 1u},
                                          {4u, 1u},
                                          {8u, 2u},
                                          {256u, 64u},
                                          {1024u, 256u},
                                          {65535u, 256u},
                                          {0u, 256u}})
        EXPECT_EQ((flush_clock{{}, prefetch}.count()), count) << prefetch;
    EXPECT_EQ((flush_clock{{.count = 7}, 10}.count()), 7u);
}

TEST(flush_policy_L4, a_count_above_the_prefetch_is_refused)
{
    EXPECT_FALSE(validate({}, 1));
    EXPECT_FALSE(validate({.count = 10}, 10));
    EXPECT_TRUE(validate({.count = 11}, 10));
    EXPECT_FALSE(validate({.count = 11}, 0)); // pulling only: no window
    EXPECT_TRUE(validate({.hold = -1ns}, 10));
    EXPECT_TRUE(validate({.hold = 61s}, 10));
    const std::string text = *validate({.count = 11}, 10);
    EXPECT_NE(text.find("11"), std::string::npos);
    EXPECT_NE(text.find("10"), std::string::npos);
}

TEST(flush_policy_L4, a_full_window_never_runs_dry_because_of_the_ledger)
{
    flush_clock clock{{.hold = 1s, .count = 100}, 100};
    clock.flushed(start);
    EXPECT_FALSE(clock.due(start + 1us, 74, 25)); // the broker may still send
    EXPECT_FALSE(clock.due(start + 1us, 74, 26)); // most of what is left to do is here
    EXPECT_TRUE(clock.due(start + 1us, 75, 25));  // full, and little is left to do
    EXPECT_TRUE(clock.due(start + 1us, 99, 1));
}

TEST(field_case_s22, a_batch_larger_than_the_prefetch_is_refused_and_a_partial_one_leaves_by_time)
{
    EXPECT_TRUE(validate({.count = 10}, 5));
    flush_clock clock{{.hold = 200us, .count = 5}, 5};
    clock.flushed(start);
    EXPECT_FALSE(clock.due(start + 1us, 2, 3));
    EXPECT_TRUE(clock.due(clock.next_deadline(2), 2, 3));
    EXPECT_EQ(clock.next_deadline(2), start + 200us);
}

} // namespace
} // namespace acquit::settle
