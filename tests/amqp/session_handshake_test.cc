#include "session_peers.h"

#include <acquit/amqp/session/mechanism.h>

#include <gtest/gtest.h>

namespace acquit::amqp::testing {
namespace {

using diary = std::vector<std::string>;

TEST(session_handshake, both_ends_open)
{
    two_peers both;
    both.open();
    EXPECT_TRUE(both.client.session.is_open());
    EXPECT_TRUE(both.server.session.is_open());
    EXPECT_EQ(both.client.diary, diary{"opened 0"});
    EXPECT_EQ(both.server.diary, diary{"opened 0"});
    EXPECT_EQ(both.client.session.tuned(), (tuned{131072, 2047, 60}));
    EXPECT_EQ(both.server.session.tuned(), (tuned{131072, 2047, 60}));
    EXPECT_EQ(both.server.session.user(), "guest");
    EXPECT_EQ(both.server.session.vhost(), "/");
}

TEST(session_handshake, the_first_bytes_are_the_protocol_header)
{
    peer client{client_options{}};
    client.session.start(0);
    EXPECT_EQ(text_of(client.say()), std::string("AMQP\0\0\x09\x01", 8));
}

TEST(session_handshake, each_end_knows_what_the_other_says_of_itself)
{
    two_peers both({.connection_name = "orders"}, {.version = "4.3.6"});
    both.open();
    EXPECT_EQ(both.client.session.server_product(), "RabbitMQ");
    EXPECT_EQ(both.client.session.server_version(), "4.3.6");
    EXPECT_TRUE(both.client.session.server_has("consumer_cancel_notify"));
    EXPECT_TRUE(both.client.session.server_has("basic.nack"));
    EXPECT_FALSE(both.client.session.server_has("flying"));
    const auto said = both.server.session.peer_properties();
    EXPECT_EQ(said.find("connection_name")->as_string(), "orders");
    EXPECT_EQ(said.find("product")->as_string(), "acquit");
    EXPECT_TRUE(both.server.session.server_has("authentication_failure_close"));
    EXPECT_TRUE(both.server.session.server_has("connection.blocked"));
}

TEST(session_handshake, the_users_properties_stand_over_ours)
{
    client_options options;
    options.properties.set("product", "warehouse").set("shelf", 7);
    two_peers both(options);
    both.open();
    const auto said = both.server.session.peer_properties();
    EXPECT_EQ(said.find("product")->as_string(), "warehouse");
    EXPECT_EQ(said.find("shelf")->as_int64(), 7);
    EXPECT_TRUE(said.find("capabilities").has_value());
}

TEST(session_handshake, every_known_mechanism_that_both_have_works)
{
    for (const auto* mechanism : {"PLAIN", "AMQPLAIN"}) {
        two_peers both({.user = "u", .password = "p@/ss", .mechanisms = {"EXTERNAL", mechanism}},
                       {.users = {{"u", "p@/ss"}}});
        both.open();
        EXPECT_TRUE(both.client.session.is_open()) << mechanism;
        EXPECT_EQ(both.client.session.mechanism(), mechanism);
        EXPECT_EQ(both.server.session.mechanism(), mechanism);
    }
}

TEST(session_handshake, our_order_of_mechanisms_decides_and_not_the_servers)
{
    EXPECT_EQ(choose_mechanism({"AMQPLAIN", "PLAIN"}, "PLAIN AMQPLAIN"), "AMQPLAIN");
    EXPECT_EQ(choose_mechanism({"PLAIN"}, "ANONYMOUS AMQPLAIN PLAIN"), "PLAIN");
    EXPECT_EQ(choose_mechanism({"PLAIN"}, "AMQPLAIN"), std::nullopt);
    EXPECT_EQ(choose_mechanism({"SCRAM"}, "SCRAM PLAIN"), std::nullopt);
    EXPECT_EQ(choose_mechanism({"PLAIN"}, ""), std::nullopt);
}

TEST(session_handshake, external_sends_an_empty_response)
{
    peer client{client_options{.mechanisms = {"EXTERNAL"}}};
    client.session.start(0);
    client.say();
    client.receive(method_frame(0, wire::connection::start{.mechanisms = "PLAIN EXTERNAL"}));
    const auto said = client.say();
    const auto answer = find_method<wire::connection::start_ok>(said);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->mechanism, "EXTERNAL");
    EXPECT_EQ(answer->response, "");
}

TEST(session_handshake, plain_is_user_and_password_between_zero_bytes)
{
    EXPECT_EQ(mechanism_response("PLAIN", "me", "secret"), std::string("\0me\0secret", 10));
    EXPECT_EQ(mechanism_response("PLAIN", std::string_view("m\0e", 3), "secret"), std::nullopt);
    EXPECT_EQ(mechanism_response("AMQPLAIN", "me", "secret"),
              std::string("\5LOGINS\0\0\0\2me\x08PASSWORDS\0\0\0\6secret", 33));
}

TEST(session_handshake, malformed_responses_are_no_login)
{
    EXPECT_FALSE(read_response("PLAIN", ""));
    EXPECT_FALSE(read_response("PLAIN", std::string_view("\0me", 3)));
    EXPECT_FALSE(read_response("AMQPLAIN", "xx"));
    EXPECT_FALSE(read_response("SCRAM", std::string_view("\0a\0b", 4)));
}

TEST(session_handshake, a_refused_login_is_said_with_403)
{
    two_peers both({.password = "wrong"});
    both.open();
    EXPECT_EQ(
        both.client.diary,
        diary{"closed 0 403 'ACCESS_REFUSED - Login was refused using authentication mechanism "
              "PLAIN. For details see the broker logfile.' 0.0 by peer"});
    EXPECT_EQ(both.client.session.state(), session_state::closed);
    ASSERT_EQ(both.server.diary.size(), 2u);
    EXPECT_TRUE(both.server.diary[0].starts_with("failed 0 403"));
    EXPECT_TRUE(both.server.diary[1].starts_with("closed 0 403"));
}

TEST(session_handshake, a_refused_login_without_the_capability_says_nothing)
{
    client_options options{.password = "wrong"};
    options.properties.set("capabilities", wire::table{});
    two_peers both(options);
    both.open();
    EXPECT_EQ(both.client.diary, diary{});
    EXPECT_EQ(both.client.session.state(), session_state::handshake);
    EXPECT_EQ(both.server.session.state(), session_state::failed);
    EXPECT_FALSE(both.server.session.fault().close_written);
}

TEST(session_handshake, an_unknown_vhost_is_said_with_530)
{
    two_peers both({.vhost = "nope"});
    both.open();
    EXPECT_EQ(both.client.diary,
              diary{"closed 0 530 'NOT_ALLOWED - vhost nope not found' 10.40 by peer"});
}

TEST(session_handshake, an_empty_vhost_is_a_vhost)
{
    two_peers both({.vhost = ""}, {.vhosts = {"/", ""}});
    both.open();
    EXPECT_TRUE(both.client.session.is_open());
    EXPECT_EQ(both.server.session.vhost(), "");
}

TEST(session_handshake, no_mechanism_in_common_is_said_with_the_servers_list)
{
    two_peers both({}, {.mechanisms = "EXTERNAL SCRAM"});
    both.open();
    ASSERT_EQ(both.client.diary.size(), 1u);
    EXPECT_EQ(
        both.client.diary[0],
        "failed 0 403 'ACCESS_REFUSED - no authentication mechanism in common: the server has "
        "EXTERNAL SCRAM'");
    EXPECT_TRUE(both.client.say().empty());
}

TEST(session_handshake, properties_too_large_for_any_server_are_refused_before_they_are_sent)
{
    client_options options;
    options.properties.set("novel", std::string(5000, 'x'));
    two_peers both(options);
    both.open();
    ASSERT_EQ(both.client.diary.size(), 1u);
    EXPECT_TRUE(both.client.diary[0].starts_with("failed 0 530 'NOT_ALLOWED - start-ok of "));
}

TEST(session_handshake, a_server_of_another_version_is_named)
{
    for (const std::size_t piece : {0u, 1u, 3u}) {
        peer client{client_options{}};
        client.session.start(0);
        client.say();
        client.receive(bytes_of(std::string_view("AMQP\3\1\0\0", 8)), piece);
        EXPECT_EQ(client.diary, diary{"failed 0 540 'NOT_IMPLEMENTED - the server does not speak "
                                      "AMQP 0-9-1 but offers AMQP 3.1.0.0'"});
        EXPECT_TRUE(client.say().empty());
    }
}

TEST(session_handshake, a_client_of_another_version_is_answered_with_ours)
{
    for (const std::size_t piece : {0u, 1u}) {
        peer server{server_options{}};
        server.receive(bytes_of(std::string_view("AMQP\1\1\0\x0a", 8)), piece);
        EXPECT_EQ(text_of(server.say()), std::string("AMQP\0\0\x09\x01", 8));
        EXPECT_EQ(server.session.state(), session_state::failed);
    }
}

TEST(session_handshake, what_is_not_amqp_fails_at_its_first_byte)
{
    peer client{client_options{}};
    client.session.start(0);
    client.receive(bytes_of("H"));
    ASSERT_EQ(client.diary.size(), 1u);
    EXPECT_TRUE(client.diary[0].starts_with("failed 0 501"));
    peer server{server_options{}};
    server.receive(bytes_of("G"));
    EXPECT_EQ(server.session.state(), session_state::failed);
}

TEST(session_handshake, methods_out_of_order_are_refused_without_a_word)
{
    peer client{client_options{}};
    client.session.start(0);
    client.say();
    client.receive(method_frame(0, wire::connection::tune{}));
    ASSERT_EQ(client.diary.size(), 1u);
    EXPECT_TRUE(client.diary[0].starts_with("failed 0 503"));
    // AMQP 0-9-1 2.2.4: before open nothing is said, the socket is closed.
    EXPECT_TRUE(client.say().empty());
    EXPECT_FALSE(client.session.fault().close_written);
}

TEST(session_handshake, contents_and_channels_before_open_are_refused)
{
    for (const auto& frame :
         {body_frame(1, body_of(3)), header_frame(1, 3), method_frame(1, wire::channel::open{})}) {
        peer server{server_options{}};
        server.receive(bytes_of(std::string_view("AMQP\0\0\x09\x01", 8)));
        server.say();
        server.receive(frame);
        EXPECT_EQ(server.session.state(), session_state::failed);
        EXPECT_TRUE(server.say().empty());
    }
}

TEST(session_handshake, whole_and_cut_input_are_the_same)
{
    two_peers whole;
    whole.open();
    for (const std::size_t piece : {1u, 2u, 3u, 7u, 64u}) {
        two_peers cut;
        cut.piece = piece;
        cut.open();
        EXPECT_EQ(cut.client.diary, whole.client.diary) << piece;
        EXPECT_EQ(cut.server.diary, whole.server.diary) << piece;
    }
}

TEST(session_handshake, a_server_refuses_what_rabbitmq_refuses)
{
    // frame_max 0 or above the offer or below 4096, channel_max 0 or above: a reset, no words.
    for (const auto& answer :
         {wire::connection::tune_ok{.channel_max = 2047, .frame_max = 0},
          wire::connection::tune_ok{.channel_max = 2047, .frame_max = 131073},
          wire::connection::tune_ok{.channel_max = 2047, .frame_max = 4095},
          wire::connection::tune_ok{.channel_max = 0, .frame_max = 131072},
          wire::connection::tune_ok{.channel_max = 2048, .frame_max = 131072}}) {
        peer server{server_options{}};
        server.receive(bytes_of(std::string_view("AMQP\0\0\x09\x01", 8)));
        server.receive(method_frame(
            0, wire::connection::start_ok{.mechanism = "PLAIN",
                                          .response = std::string_view("\0guest\0guest", 12)}));
        server.say();
        ASSERT_TRUE(server.diary.empty());
        server.receive(method_frame(0, answer));
        EXPECT_EQ(server.session.state(), session_state::failed);
        EXPECT_TRUE(server.say().empty());
    }
}

TEST(session_handshake, the_password_is_in_no_text)
{
    client_options options{.password = "hunter2", .vhost = "nope"};
    EXPECT_EQ(describe(options).find("hunter2"), std::string::npos);
    two_peers both(options);
    both.open();
    for (const auto* const end : {&both.client, &both.server}) {
        for (const auto& said : end->diary) {
            EXPECT_EQ(said.find("hunter2"), std::string::npos);
        }
        EXPECT_EQ(end->session.fault_text().find("hunter2"), std::string_view::npos);
    }
}

TEST(session_handshake, a_wiped_secret_is_gone_from_its_memory)
{
    std::string secret(64, 'x');
    const char* const memory = secret.data();
    const auto capacity = secret.capacity();
    wipe(secret);
    EXPECT_TRUE(secret.empty());
    EXPECT_EQ(secret.capacity(), capacity);
    EXPECT_EQ(std::string_view(memory, 1), std::string_view("\0", 1));
}

} // namespace
} // namespace acquit::amqp::testing
