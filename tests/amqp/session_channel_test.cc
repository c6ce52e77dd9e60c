#include "session_peers.h"

#include <gtest/gtest.h>

namespace acquit::amqp::testing {
namespace {

using diary = std::vector<std::string>;

TEST(session_channel, opens_is_used_and_closes)
{
    two_peers both;
    both.open();
    both.client.diary.clear();
    both.server.diary.clear();
    auto& client = both.client.session;
    ASSERT_EQ(client.open_channel(3), send_status::sent);
    EXPECT_EQ(client.channel(3), channel_state::opening);
    EXPECT_EQ(client.send(3, wire::basic::qos{}), send_status::channel_not_open);
    both.talk();
    EXPECT_EQ(client.channel(3), channel_state::open);
    EXPECT_EQ(both.client.diary, diary{"channel_opened 3"});
    ASSERT_EQ(client.send(3, wire::basic::qos{.prefetch_count = 5}), send_status::sent);
    both.talk();
    ASSERT_EQ(client.close_channel(3), send_status::sent);
    EXPECT_EQ(client.channel(3), channel_state::closing);
    both.talk();
    EXPECT_EQ(client.channel(3), channel_state::closed);
    EXPECT_EQ(both.client.diary.back(), "channel_close_ok 3");
    ASSERT_EQ(both.server.diary.size(), 3u);
    EXPECT_TRUE(both.server.diary[1].starts_with("method 3 basic.qos"));
    EXPECT_EQ(both.server.diary[2], "channel_closed 3 200 '' 0.0 by peer");
}

TEST(session_channel, numbers_are_taken_from_below_and_come_back_after_close_ok)
{
    two_peers both({.channel_max = 3});
    both.open();
    auto& client = both.client.session;
    EXPECT_EQ(client.free_channel(), 1);
    ASSERT_EQ(client.open_channel(client.free_channel()), send_status::sent);
    ASSERT_EQ(client.open_channel(client.free_channel()), send_status::sent);
    EXPECT_EQ(client.free_channel(), 3);
    ASSERT_EQ(client.open_channel(3), send_status::sent);
    EXPECT_EQ(client.free_channel(), 0);
    both.talk();
    EXPECT_EQ(client.channels_in_use(), 3u);
    ASSERT_EQ(client.close_channel(2), send_status::sent);
    EXPECT_EQ(client.free_channel(), 0);
    EXPECT_EQ(client.open_channel(2), send_status::bad_argument);
    both.talk();
    EXPECT_EQ(client.free_channel(), 2);
    ASSERT_EQ(client.open_channel(2), send_status::sent);
    both.talk();
    EXPECT_EQ(client.channel(2), channel_state::open);
}

TEST(session_channel, wrong_numbers_are_refused)
{
    two_peers both({.channel_max = 10});
    both.open_channels(1);
    auto& client = both.client.session;
    EXPECT_EQ(client.open_channel(0), send_status::bad_argument);
    EXPECT_EQ(client.open_channel(1), send_status::bad_argument);
    EXPECT_EQ(client.open_channel(11), send_status::bad_argument);
    EXPECT_EQ(both.server.session.open_channel(2), send_status::bad_argument);
    EXPECT_EQ(client.close_channel(2), send_status::channel_not_open);
    EXPECT_TRUE(client.output().open_empty());
}

TEST(session_channel, the_limit_of_open_channels_holds_whatever_was_tuned)
{
    client_options options;
    options.limits.open_channels_max = 2;
    two_peers both(options);
    both.open_channels(2);
    EXPECT_EQ(both.client.session.free_channel(), 0);
    EXPECT_EQ(both.client.session.open_channel(3), send_status::bad_argument);

    server_options server;
    server.limits.open_channels_max = 2;
    two_peers other({}, server);
    other.open_channels(2);
    (void)other.client.session.open_channel(3);
    other.talk();
    ASSERT_FALSE(other.client.diary.empty());
    EXPECT_TRUE(other.client.diary.back().starts_with("closed 0 530 'NOT_ALLOWED - number of"));
}

TEST(session_channel, the_last_channel_number_can_be_opened)
{
    client_options options{.channel_max = 65535};
    options.limits.open_channels_max = 65535;
    two_peers both(options, {.channel_max = 0});
    both.open();
    ASSERT_EQ(both.client.session.open_channel(65535), send_status::sent);
    both.talk();
    EXPECT_EQ(both.client.session.channel(65535), channel_state::open);
}

TEST(session_channel, when_both_close_at_once_both_answer_and_both_are_done)
{
    two_peers both;
    both.open_channels(1);
    (void)both.client.session.close_channel(1);
    (void)both.server.session.close_channel(1, wire::reply_code::not_found, "NOT_FOUND - x");
    both.talk();
    EXPECT_EQ(both.client.session.channel(1), channel_state::closed);
    EXPECT_EQ(both.server.session.channel(1), channel_state::closed);
    EXPECT_EQ(both.client.diary,
              (diary{"channel_closed 1 404 'NOT_FOUND - x' 0.0 by peer", "channel_close_ok 1"}));
    EXPECT_EQ(both.server.diary,
              (diary{"channel_closed 1 200 '' 0.0 by peer", "channel_close_ok 1"}));
    // And the number is good for another life.
    (void)both.client.session.open_channel(1);
    both.talk();
    EXPECT_EQ(both.client.session.channel(1), channel_state::open);
}

TEST(session_channel, may_be_closed_while_it_opens)
{
    two_peers both;
    both.open_channels(0);
    (void)both.client.session.open_channel(1);
    (void)both.client.session.close_channel(1);
    both.talk();
    EXPECT_EQ(both.client.diary, diary{"channel_close_ok 1"});
    EXPECT_EQ(both.server.session.channel(1), channel_state::closed);
    EXPECT_TRUE(both.client.session.is_open());
}

TEST(session_channel, may_be_refused_while_it_opens)
{
    two_peers both;
    both.open_channels(0);
    (void)both.client.session.open_channel(1);
    both.client.say();
    both.client.receive(method_frame(1, wire::channel::close{.reply_code = 504}));
    EXPECT_EQ(both.client.diary, diary{"channel_closed 1 504 '' 0.0 by peer"});
    EXPECT_TRUE(find_method<wire::channel::close_ok>(both.client.say()));
}

TEST(session_channel, a_half_message_ends_with_its_channel)
{
    two_peers both;
    both.open_channels(1);
    const auto body = body_of(10);
    (void)both.client.session.output();
    both.client.receive(method_frame(1, wire::basic::deliver{}) + header_frame(1, 10) +
                        body_frame(1, std::span(body).first(4)));
    (void)both.client.session.close_channel(1);
    both.client.receive(body_frame(1, std::span(body).subspan(4)) +
                        method_frame(1, wire::channel::close_ok{}));
    EXPECT_EQ(both.client.diary, diary{"channel_close_ok 1"});
    both.client.say();
    (void)both.client.session.open_channel(1);
    both.client.receive(method_frame(1, wire::channel::open_ok{}) +
                        method_frame(1, wire::basic::deliver{.delivery_tag = 1}) +
                        header_frame(1, 0));
    ASSERT_EQ(both.client.diary.size(), 3u);
    EXPECT_TRUE(both.client.diary[2].starts_with("content 1 deliver tag=1"));
}

TEST(session_channel, what_a_peer_may_not_say_is_answered_with_503)
{
    for (const auto& input :
         {method_frame(1, wire::queue::declare{}), method_frame(1, wire::basic::publish{}),
          method_frame(1, wire::channel::open{}), method_frame(1, wire::channel::close_ok{}),
          method_frame(1, wire::channel::open_ok{}), method_frame(1, wire::basic::reject{}),
          method_frame(0, wire::basic::ack{}), method_frame(1, wire::connection::blocked{}),
          method_frame(0, wire::connection::start{}), method_frame(0, wire::connection::close_ok{}),
          method_frame(0, wire::connection::update_secret{}),
          method_frame(0, wire::connection::update_secret_ok{}),
          raw_frame(1, 1, bytes_of(std::string_view("\0\x3c\0\xff", 4)))}) {
        two_peers both;
        both.open_channels(1);
        both.client.receive(input);
        ASSERT_EQ(both.client.diary.size(), 1u);
        EXPECT_TRUE(both.client.diary[0].starts_with("failed 0 503")) << both.client.diary[0];
    }
    for (const auto& input :
         {method_frame(1, wire::queue::declare_ok{}), method_frame(1, wire::basic::deliver{}),
          method_frame(1, wire::basic::return_{}), method_frame(1, wire::basic::get_empty{}),
          method_frame(0, wire::connection::blocked{}),
          method_frame(0, wire::connection::unblocked{})}) {
        two_peers both;
        both.open_channels(1);
        both.server.receive(input);
        ASSERT_EQ(both.server.diary.size(), 1u);
        EXPECT_TRUE(both.server.diary[0].starts_with("failed 0 503")) << both.server.diary[0];
    }
}

TEST(session_channel, methods_on_closed_and_twice_opened_channels_are_answered_with_504)
{
    two_peers both;
    both.open_channels(1);
    both.client.receive(method_frame(2, wire::basic::ack{}));
    EXPECT_TRUE(both.client.diary.back().starts_with("failed 0 504"));
    both.server.receive(method_frame(1, wire::channel::open{}));
    EXPECT_TRUE(both.server.diary.back().starts_with("failed 0 504"));
    two_peers other({.channel_max = 5});
    other.open_channels(1);
    other.server.receive(method_frame(6, wire::channel::open{}));
    EXPECT_TRUE(other.server.diary.back().starts_with("failed 0 504"));
}

TEST(session_channel, a_method_that_is_cut_short_is_answered_with_502)
{
    two_peers both;
    both.open_channels(1);
    both.client.receive(raw_frame(1, 1, bytes_of(std::string_view("\0\x3c\0\x50\0\0\0", 7))));
    ASSERT_EQ(both.client.diary.size(), 1u);
    EXPECT_TRUE(both.client.diary[0].starts_with("failed 0 502 'SYNTAX_ERROR - basic.ack: "))
        << both.client.diary[0];
    EXPECT_EQ(both.client.session.fault().what, wire::fault::truncated);
}

TEST(session_channel, replies_confirms_and_cancels_reach_the_owner)
{
    two_peers both;
    both.open_channels(1);
    auto& server = both.server.session;
    (void)server.send(1, wire::queue::declare_ok{.queue = "q"});
    (void)server.send(1, wire::basic::ack{.delivery_tag = 5, .multiple = true});
    (void)server.send(1, wire::basic::nack{.delivery_tag = 6});
    (void)server.send(1, wire::basic::cancel{.consumer_tag = "c", .no_wait = true});
    (void)server.send(1, wire::basic::cancel_ok{.consumer_tag = "c"});
    (void)server.send(1, wire::basic::get_empty{});
    (void)server.send(1, wire::tx::commit_ok{});
    (void)server.send(1, wire::confirm::select_ok{});
    std::vector<std::string> queues;
    both.client.on_event = [&](const event& said) {
        if (said.kind == event_kind::method &&
            both.client.session.method().id == wire::id_of<wire::queue::declare_ok>) {
            wire::queue::declare_ok method;
            ASSERT_TRUE(wire::decode(both.client.session.method().payload, method));
            queues.emplace_back(method.queue);
        }
    };
    both.talk();
    EXPECT_EQ(both.client.diary.size(), 8u);
    EXPECT_EQ(queues, std::vector<std::string>{"q"});
}

TEST(session_channel, flow_is_answered_and_told)
{
    two_peers both;
    both.open_channels(1);
    (void)both.server.session.send(1, wire::channel::flow{.active = false});
    both.talk();
    ASSERT_EQ(both.client.diary.size(), 1u);
    EXPECT_TRUE(both.client.diary[0].starts_with("method 1 channel.flow "));
    ASSERT_EQ(both.server.diary.size(), 1u);
    EXPECT_TRUE(both.server.diary[0].starts_with("method 1 channel.flow-ok"));
}

} // namespace
} // namespace acquit::amqp::testing
