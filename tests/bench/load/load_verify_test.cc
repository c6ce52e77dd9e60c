#include "../../../bench/load/verify.h"

#include <gtest/gtest.h>

#include <array>

namespace acquit::bench {
namespace {

constexpr std::uint16_t run = 77;

book with_published(std::uint64_t messages)
{
    book kept(run);
    for (std::uint64_t n = 0; n < messages; ++n)
        kept.sent(0, n);
    return kept;
}

stamp message(std::uint64_t number, std::uint16_t producer = 0)
{
    return {.sent_ns = 1, .run = run, .producer = producer, .number = number};
}

TEST(load_verify, a_stamp_is_read_as_it_was_written)
{
    std::array<std::byte, stamp_size> body{};
    const stamp s{.sent_ns = -5,
                  .run = run_max,
                  .producer = static_cast<std::uint16_t>(producers_max - 1),
                  .number = (std::uint64_t{1} << 38) - 1};
    write_stamp(body, s);
    EXPECT_EQ(read_stamp(body), s);
    EXPECT_FALSE(read_stamp(std::span(body).first(stamp_size - 1)));
}

TEST(load_verify, is_content_when_each_message_was_settled_once_in_any_order)
{
    auto kept = with_published(1000);
    for (std::uint64_t n = 1000; n-- > 0;)
        EXPECT_TRUE(kept.settled(message(n)));
    EXPECT_EQ(kept.open(), 0u);
    EXPECT_TRUE(kept.judge().good());
    EXPECT_EQ(kept.judge().settled, 1000u);
}

TEST(load_verify, finds_what_was_lost_and_names_it)
{
    auto kept = with_published(100);
    for (std::uint64_t n = 0; n < 100; ++n)
        if (n != 17 && n != 64)
            kept.settled(message(n));
    EXPECT_EQ(kept.open(), 2u);
    const auto found = kept.judge();
    EXPECT_FALSE(found.good());
    EXPECT_EQ(found.lost, 2u);
    EXPECT_EQ(found.examples, "producer 0: 17, 64");
    EXPECT_NE(found.text().find("2 LOST"), std::string::npos) << found.text();
}

TEST(load_verify, finds_what_was_settled_twice)
{
    auto kept = with_published(10);
    for (std::uint64_t n = 0; n < 10; ++n)
        kept.settled(message(n));
    kept.settled(message(3));
    EXPECT_EQ(kept.judge().twice, 1u);
    EXPECT_EQ(kept.judge().lost, 0u);
    EXPECT_FALSE(kept.judge().good());
}

TEST(load_verify, does_not_miss_what_the_broker_refused)
{
    auto kept = with_published(10);
    for (std::uint64_t n = 0; n < 9; ++n)
        kept.settled(message(n));
    kept.refused(0, 9);
    EXPECT_EQ(kept.open(), 0u);
    EXPECT_TRUE(kept.judge().good());
    EXPECT_EQ(kept.judge().refused, 1u);
}

TEST(load_verify, counts_a_message_once_that_was_refused_and_came_all_the_same)
{
    for (const bool refused_first : {true, false}) {
        auto kept = with_published(2);
        kept.settled(message(0));
        if (refused_first)
            kept.refused(0, 1);
        kept.settled(message(1));
        if (!refused_first)
            kept.refused(0, 1);
        EXPECT_EQ(kept.open(), 0u);
        EXPECT_EQ(kept.judge().settled, 2u);
        EXPECT_EQ(kept.judge().refused, 0u);
    }
}

TEST(load_verify, does_not_owe_what_was_not_sent)
{
    auto kept = with_published(5);
    kept.unsent(0, 4);
    for (std::uint64_t n = 0; n < 4; ++n)
        kept.settled(message(n));
    EXPECT_TRUE(kept.judge().good());
    EXPECT_EQ(kept.judge().published, 4u);
}

TEST(load_verify, knows_messages_of_other_runs_and_never_grows_by_them)
{
    auto kept = with_published(1);
    EXPECT_FALSE(kept.settled({.run = run + 1, .number = 0}));
    EXPECT_FALSE(kept.settled(message(std::uint64_t{1} << 37)));
    EXPECT_FALSE(kept.settled(message(0, 5)));
    kept.settled(message(0));
    EXPECT_EQ(kept.judge().foreign, 3u);
    EXPECT_EQ(kept.judge().lost, 0u);
}

TEST(load_verify, tells_gaps_where_the_producers_are_another_process)
{
    book kept;
    kept.settled(message(0));
    kept.settled(message(3));
    kept.settled(message(1, 9));
    const auto found = kept.judge();
    EXPECT_EQ(found.published, 6u);
    EXPECT_EQ(found.lost, 3u);
    EXPECT_EQ(found.examples, "producer 0: 1, 2; producer 9: 0");
}

} // namespace
} // namespace acquit::bench
