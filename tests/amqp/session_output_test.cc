#include "session_peers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

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

TEST(output_buffer, gathers_shared_bytes_in_their_place_and_keeps_their_owner_until_they_are_sent)
{
    output_buffer output;
    auto owner = std::make_shared<bytes>(body_of(5000, 3));
    const std::weak_ptr<bytes> alive = owner;
    bytes all = body_of(10) + *owner + *owner + body_of(20, 2);
    put(output, body_of(10));
    output.share(*owner, owner);
    output.share(*owner, owner);
    put(output, body_of(20, 2));
    owner.reset();
    EXPECT_EQ(output.pending(), all.size());
    EXPECT_TRUE(output.open_has_shared());

    bytes sent;
    const auto parts = output.begin_gathered_send();
    EXPECT_EQ(parts.size(), 4u);
    EXPECT_EQ(parts[1].data(), alive.lock()->data()); // not a copy
    put(output, body_of(30, 4));                      // goes with the next
    EXPECT_FALSE(output.open_has_shared());
    EXPECT_EQ(output.pending(), all.size() + 30);
    for (const auto part : parts)
        sent.insert(sent.end(), part.begin(), part.end());
    EXPECT_EQ(digest(sent), digest(all));
    EXPECT_FALSE(alive.expired());
    output.end_send();
    EXPECT_TRUE(alive.expired());
    EXPECT_EQ(output.pending(), 30u);
    EXPECT_EQ(digest(output.begin_send()), digest(body_of(30, 4)));
    output.end_send();
}

TEST(output_buffer, lets_go_of_shared_bytes_that_are_never_sent)
{
    output_buffer output;
    auto owner = std::make_shared<bytes>(body_of(5000));
    output.share(*owner, owner);
    EXPECT_EQ(owner.use_count(), 2);
    output.clear();
    EXPECT_EQ(owner.use_count(), 1);
    EXPECT_TRUE(output.open_empty());
}

TEST(session_output, a_body_that_is_shared_is_the_same_on_the_wire_as_one_that_is_copied)
{
    for (const std::size_t size :
         {0UL, 1UL, 16383UL, 16384UL, 130000UL, 131064UL, 131065UL, 500000UL}) {
        SCOPED_TRACE(size);
        two_peers copying;
        two_peers sharing;
        copying.open_channels(1);
        sharing.open_channels(1);
        auto body = std::make_shared<bytes>(body_of(size));
        const wire::basic::publish method{.routing_key = "q"};
        ASSERT_EQ(copying.client.session.send_content(1, method, {}, *body), send_status::sent);
        ASSERT_EQ(sharing.client.session.send_content(1, method, {}, *body, body),
                  send_status::sent);
        auto& output = sharing.client.session.output();
        EXPECT_EQ(output.open_has_shared(), size >= session::shared_body_size_min);
        bytes gathered;
        for (const auto part : output.begin_gathered_send())
            gathered.insert(gathered.end(), part.begin(), part.end());
        output.end_send();
        EXPECT_EQ(body.use_count(), 1);
        EXPECT_EQ(digest(copying.client.session.output().begin_send()), digest(gathered));
        copying.client.session.output().end_send();
    }
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
