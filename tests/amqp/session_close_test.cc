#include "session_peers.h"

#include <gtest/gtest.h>

namespace acquit::amqp::testing {
namespace {

using diary = std::vector<std::string>;

TEST(session_close, by_the_client_ends_both)
{
    two_peers both;
    both.open_channels(1);
    ASSERT_EQ(both.client.session.close(wire::reply_code::success, "Goodbye"), send_status::sent);
    EXPECT_EQ(both.client.session.state(), session_state::closing);
    both.talk();
    EXPECT_EQ(both.client.diary, diary{"closed 0 200 'Goodbye' 0.0"});
    EXPECT_EQ(both.server.diary, diary{"closed 0 200 'Goodbye' 0.0 by peer"});
}

TEST(session_close, by_the_server_ends_both_with_its_words)
{
    two_peers both;
    both.open_channels(1);
    (void)both.server.session.close(wire::reply_code::connection_forced,
                                    "CONNECTION_FORCED - broker forced connection closure with "
                                    "reason 'shutdown'");
    both.talk();
    EXPECT_EQ(
        both.client.diary,
        diary{"closed 0 320 'CONNECTION_FORCED - broker forced connection closure with reason "
              "'shutdown'' 0.0 by peer"});
    EXPECT_EQ(both.client.session.channel(1), channel_state::closed);
    EXPECT_EQ(both.server.session.state(), session_state::closed);
}

TEST(session_close, at_once_from_both_sides_ends_both)
{
    two_peers both;
    both.open_channels(1);
    (void)both.client.session.close();
    (void)both.server.session.close(wire::reply_code::connection_forced);
    both.talk();
    EXPECT_EQ(both.client.session.state(), session_state::closed);
    EXPECT_EQ(both.server.session.state(), session_state::closed);
    EXPECT_EQ(both.client.diary.size(), 1u);
    EXPECT_EQ(both.server.diary.size(), 1u);
}

TEST(session_close, nothing_is_written_after_it)
{
    two_peers both;
    both.open_channels(2);
    auto& client = both.client.session;
    (void)client.close();
    const auto size = client.output().pending();
    EXPECT_EQ(client.send(1, wire::basic::qos{}), send_status::connection_not_open);
    EXPECT_EQ(client.send_content(1, wire::basic::publish{}, {}, {}),
              send_status::connection_not_open);
    EXPECT_EQ(client.open_channel(3), send_status::connection_not_open);
    EXPECT_EQ(client.close_channel(1), send_status::connection_not_open);
    EXPECT_EQ(client.close(), send_status::connection_not_open);
    EXPECT_EQ(client.send_update_secret("s", "r"), send_status::connection_not_open);
    (void)client.tick(std::uint64_t{1} << 60);
    EXPECT_EQ(client.output().pending(), size);
    both.client.receive(method_frame(1, wire::channel::close{}) +
                        method_frame(2, wire::channel::flow{}));
    EXPECT_EQ(client.output().pending(), size);
    both.talk();
    EXPECT_EQ(client.state(), session_state::closed);
}

TEST(session_close, what_was_on_its_way_is_skipped)
{
    two_peers both;
    both.open_channels(1);
    (void)both.server.session.send_content(1, wire::basic::deliver{}, {}, body_of(10));
    (void)both.server.session.send(1, wire::basic::ack{});
    (void)both.client.session.close();
    both.talk();
    EXPECT_EQ(both.client.diary, diary{"closed 0 200 '' 0.0"});
}

TEST(session_close, during_the_handshake_writes_nothing)
{
    // At each point of it: after the header, after start-ok, after tune-ok.
    for (int exchanges = 0; exchanges < 3; ++exchanges) {
        two_peers both;
        both.client.session.start(0);
        for (int i = 0; i < exchanges; ++i) {
            both.server.receive(both.client.say());
            both.client.receive(both.server.say());
        }
        ASSERT_EQ(both.client.session.state(), session_state::handshake);
        both.client.say();
        EXPECT_EQ(both.client.session.close(), send_status::sent);
        EXPECT_EQ(both.client.session.state(), session_state::closed);
        EXPECT_TRUE(both.client.say().empty());
    }
}

TEST(session_close, by_the_peer_during_the_handshake_is_answered)
{
    for (int exchanges = 0; exchanges < 3; ++exchanges) {
        two_peers both;
        both.client.session.start(0);
        for (int i = 0; i < exchanges; ++i) {
            both.server.receive(both.client.say());
            both.client.receive(both.server.say());
        }
        both.client.say();
        both.client.receive(method_frame(
            0, wire::connection::close{.reply_code = 320, .reply_text = "CONNECTION_FORCED - x"}));
        EXPECT_EQ(both.client.diary, diary{"closed 0 320 'CONNECTION_FORCED - x' 0.0 by peer"});
        EXPECT_TRUE(find_method<wire::connection::close_ok>(both.client.say()));
    }
}

TEST(session_close, after_it_all_input_is_taken_and_ignored)
{
    two_peers both;
    both.open_channels(1);
    (void)both.client.session.close();
    both.talk();
    both.client.diary.clear();
    both.client.receive(bytes_of("anything at all"));
    both.client.receive(method_frame(1, wire::basic::ack{}));
    EXPECT_EQ(both.client.diary, diary{});
    EXPECT_TRUE(both.client.inbox.empty());
    EXPECT_TRUE(both.client.say().empty());
    EXPECT_EQ(both.client.session.next({}).kind, event_kind::need_more);
}

TEST(session_close, a_long_text_is_cut_and_not_lost)
{
    two_peers both;
    both.open_channels(1);
    (void)both.server.session.close_channel(1, wire::reply_code::internal_error,
                                            std::string(400, 'x'));
    (void)both.server.session.close(wire::reply_code::internal_error, std::string(400, 'y'));
    both.talk();
    ASSERT_EQ(both.client.diary.size(), 2u);
    EXPECT_EQ(both.client.session.close_info().text, std::string(255, 'y'));
}

TEST(session_close, malformed_bytes_end_it_once_and_nothing_after_them_is_parsed)
{
    const bytes cases[] = {
        bytes_of("x"),
        raw_frame(wire::frame_body, 1, body_of(4), 0),
        raw_frame(7, 0, {}),
        raw_frame(wire::frame_heartbeat, 0, body_of(1)),
        raw_frame(wire::frame_method, 1, body_of(3)),
    };
    for (const auto& input : cases) {
        two_peers both;
        both.open_channels(1);
        both.client.receive(input);
        ASSERT_EQ(both.client.diary.size(), 1u);
        EXPECT_TRUE(both.client.diary[0].starts_with("failed 0 501")) << both.client.diary[0];
        EXPECT_TRUE(both.client.session.fault().close_written);
        EXPECT_NE(both.client.session.fault().what, wire::fault::none);
        both.client.receive(method_frame(0, wire::connection::close_ok{}) + bytes_of("x"));
        EXPECT_EQ(both.client.diary.size(), 1u);
        both.server.receive(both.client.say());
        EXPECT_TRUE(both.server.diary.back().starts_with("closed 0 501 'FRAME_ERROR - "))
            << both.server.diary.back();
    }
}

TEST(session_close, a_heartbeat_on_a_channel_is_a_frame_error)
{
    two_peers both;
    both.open_channels(1);
    both.client.receive(raw_frame(wire::frame_heartbeat, 1, {}));
    ASSERT_EQ(both.client.diary.size(), 1u);
    EXPECT_TRUE(both.client.diary[0].starts_with("failed 0 501"));
}

TEST(session_blocked, is_told_with_its_reason)
{
    two_peers both;
    both.open_channels(1);
    (void)both.server.session.send_blocked("low on memory");
    (void)both.server.session.send_unblocked();
    both.talk();
    EXPECT_EQ(both.client.diary, (diary{"blocked 0 'low on memory'", "unblocked 0"}));
    EXPECT_EQ(both.client.session.send_blocked("x"), send_status::bad_argument);
    EXPECT_EQ(both.client.session.send_unblocked(), send_status::bad_argument);
}

TEST(session_secret, is_updated_on_both_ends)
{
    two_peers both;
    both.open_channels(0);
    ASSERT_EQ(both.client.session.send_update_secret("token", "expired"), send_status::sent);
    both.talk();
    EXPECT_EQ(both.client.diary, diary{"secret_updated 0"});
    EXPECT_EQ(both.server.diary, diary{"secret_updated 0"});
    EXPECT_EQ(both.server.session.send_update_secret("x", "y"), send_status::bad_argument);
}

} // namespace
} // namespace acquit::amqp::testing
