#include "../../../bench/load/credit.h"
#include "../../../bench/load/meter.h"
#include "../../../bench/load/pace.h"

#include <gtest/gtest.h>

namespace acquit::bench {
namespace {

using namespace std::chrono_literals;
using runtime::time_point;

constexpr time_point start{1000s};

TEST(load_credit, measures_from_the_handing_over_that_freed_the_slot)
{
    histogram latency;
    credit slots(2, latency);
    EXPECT_FALSE(slots.arrived(start));
    EXPECT_FALSE(slots.arrived(start));
    slots.settled(1, start + 1ms);
    slots.settled(1, start + 2ms);
    EXPECT_EQ(slots.arrived(start + 5ms), 4ms);
    EXPECT_EQ(slots.arrived(start + 5ms), 3ms);
    EXPECT_EQ(latency.count(), 2u);
}

TEST(load_credit, one_frame_frees_many_slots)
{
    histogram latency;
    credit slots(4, latency);
    for (int i = 0; i < 4; ++i)
        (void)slots.arrived(start);
    slots.settled(4, start + 1ms);
    for (int i = 0; i < 4; ++i)
        EXPECT_EQ(slots.arrived(start + 3ms), 2ms);
    EXPECT_FALSE(slots.arrived(start + 4ms)) << "more than the window allows: nothing to measure";
}

TEST(load_credit, keeps_order_while_its_ring_grows_and_turns)
{
    histogram latency;
    credit slots(100, latency);
    for (int i = 0; i < 100; ++i)
        (void)slots.arrived(start);
    auto now = start;
    for (int round = 0; round < 50; ++round) {
        for (int i = 0; i < 20 + round; ++i)
            slots.settled(1, now + i * 1us);
        for (int i = 0; i < 20 + round; ++i)
            ASSERT_EQ(slots.arrived(now + 1ms), 1ms - i * 1us) << round << " " << i;
        now += 1s;
    }
}

TEST(load_credit, measures_nothing_without_a_limit)
{
    histogram latency;
    credit slots(0, latency);
    (void)slots.arrived(start);
    slots.settled(1, start);
    EXPECT_FALSE(slots.arrived(start + 1s));
}

TEST(load_pace, does_not_drift_and_makes_up_for_less_than_a_second)
{
    pace p(1000);
    EXPECT_EQ(p.next(start), start);
    EXPECT_EQ(p.next(start), start + 1ms);
    EXPECT_EQ(p.next(start + 500ms), start + 2ms) << "late, and still on its schedule";
    EXPECT_EQ(p.next(start + 10s), start + 10s) << "too late: that time is lost";
    EXPECT_EQ(p.next(start + 10s), start + 10s + 1ms);
}

TEST(load_meter, counts_the_warm_up_in_no_total)
{
    meter m(start);
    settling so_far{.prefetch = 10};
    m.now.received = 100;
    m.consumer_latency.record(5s);
    so_far.settled = 100;
    so_far.frames = 50;
    so_far.latency.record(5s);
    EXPECT_TRUE(m.tick(start + 1s, {so_far}, stage::warm_up).warm_up);
    m.now.received = 40;
    m.consumer_latency.record(1ms);
    so_far.settled += 40;
    so_far.frames += 4;
    so_far.latency.record(2ms);
    const sample second = m.tick(start + 3s, {so_far}, stage::measured);
    EXPECT_EQ(second.per_second(second.done.received), 20);
    EXPECT_EQ(second.settled, 40u);
    EXPECT_EQ(second.frames, 4u);

    result r;
    m.fill(r);
    EXPECT_EQ(r.seconds, 2);
    EXPECT_EQ(r.warm_up, 1);
    EXPECT_EQ(r.totals.received, 40u);
    EXPECT_EQ(r.consumer_latency.count(), 1u);
    ASSERT_EQ(r.settlements.size(), 1u);
    EXPECT_EQ(r.settlements[0].messages_per_frame(), 10);
    EXPECT_EQ(r.settlements[0].latency.count(), 1u);
    EXPECT_NEAR(static_cast<double>(r.settlements[0].latency.percentile(50).count()), 2e6, 2e4);
}

TEST(load_meter, counts_what_a_finished_run_has_left_but_not_its_time)
{
    meter m(start);
    m.now.sent = 10;
    m.tick(start + 1s, {}, stage::measured);
    m.now.sent = 5;
    m.tick(start + 9s, {}, stage::rest);
    m.now.sent = 5;
    m.tick(start + 10s, {}, stage::over);
    result r;
    m.fill(r);
    EXPECT_EQ(r.totals.sent, 15u);
    EXPECT_EQ(r.seconds, 1);
    EXPECT_EQ(m.all().sent, 20u);
}

TEST(load_samples, are_halved_when_there_are_too_many_and_keep_their_sums)
{
    std::vector<sample> all;
    for (std::size_t i = 0; i < 3 * samples_max; ++i)
        keep(all, {.at = static_cast<double>(i + 1), .seconds = 1, .done = {.received = 2}});
    EXPECT_LT(all.size(), samples_max);
    std::uint64_t received = 0;
    double seconds = 0;
    for (const auto& s : all) {
        received += s.done.received;
        seconds += s.seconds;
    }
    EXPECT_EQ(received, 2 * 3 * samples_max);
    EXPECT_EQ(seconds, 3.0 * samples_max);
}

TEST(load_samples, what_is_left_over_at_the_end_joins_the_one_before)
{
    std::vector<sample> all;
    keep(all, {.at = 1, .seconds = 1, .done = {.received = 10}});
    keep(all, {.at = 1.1, .seconds = 0.1, .done = {.received = 1}});
    ASSERT_EQ(all.size(), 1u);
    EXPECT_DOUBLE_EQ(all[0].per_second(all[0].done.received), 10);
    keep(all, {.at = 1.6, .seconds = 0.5, .done = {.received = 1}});
    EXPECT_EQ(all.size(), 2u);
}

} // namespace
} // namespace acquit::bench
