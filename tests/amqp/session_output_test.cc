#include "session_peers.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace acquit::amqp::testing {
namespace {

void put(output_buffer& output, const bytes& what)
{
    const auto room = output.reserve(what.size());
    std::copy(what.begin(), what.end(), room.begin());
    output.commit(what.size());
}

TEST(output_buffer, gives_back_what_was_put_in_order)
{
    output_buffer output;
    EXPECT_TRUE(output.open_empty());
    bytes all;
    for (unsigned i = 0; i < 200; ++i) {
        const auto part = body_of(i * 7, i);
        put(output, part);
        all = std::move(all) + part;
    }
    EXPECT_EQ(output.pending(), all.size());
    const auto sent = output.begin_send();
    EXPECT_TRUE(std::equal(sent.begin(), sent.end(), all.begin(), all.end()));
    output.end_send();
    EXPECT_EQ(output.pending(), 0u);
}

TEST(output_buffer, what_is_in_flight_stays_in_place_while_more_comes)
{
    output_buffer output;
    put(output, body_of(100));
    const auto sent = output.begin_send();
    EXPECT_TRUE(output.sending());
    put(output, body_of(100000, 2));
    EXPECT_EQ(output.pending(), 100100u);
    EXPECT_EQ(output.open_size(), 100000u);
    EXPECT_EQ(digest(sent), digest(body_of(100)));
    output.clear();
    EXPECT_EQ(output.pending(), 100u);
    EXPECT_EQ(digest(sent), digest(body_of(100)));
    output.end_send();
    EXPECT_FALSE(output.sending());
}

TEST(output_buffer, keeps_small_memory_and_gives_large_memory_back)
{
    output_buffer output(1000);
    for (int i = 0; i < 2; ++i) { // once per half
        put(output, body_of(10));
        (void)output.begin_send();
        output.end_send();
    }
    put(output, body_of(5000));
    (void)output.begin_send();
    output.end_send();
    // The half that held 5000 bytes is gone, so its next use begins small.
    (void)output.begin_send();
    output.end_send();
    EXPECT_LT(output.reserve(1).size(), 5000u);
}

TEST(output_buffer, takes_no_new_memory_for_the_same_amount_again)
{
    output_buffer output;
    std::vector<const std::byte*> places;
    for (int i = 0; i < 6; ++i) {
        put(output, body_of(3000));
        places.push_back(output.begin_send().data());
        output.end_send();
    }
    EXPECT_EQ(places[2], places[4]);
    EXPECT_EQ(places[3], places[5]);
}

TEST(output_buffer, an_empty_send_is_empty)
{
    output_buffer output;
    EXPECT_TRUE(output.begin_send().empty());
    output.end_send();
}

} // namespace
} // namespace acquit::amqp::testing
