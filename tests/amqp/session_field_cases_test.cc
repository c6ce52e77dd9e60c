#include "session_peers.h"

#include <gtest/gtest.h>

namespace acquit::amqp::testing {
namespace {

using diary = std::vector<std::string>;

const wire::basic::deliver a_delivery{.consumer_tag = "c", .delivery_tag = 1};

TEST(field_case_c11, a_new_session_holds_nothing_of_an_earlier_connection)
{
    two_peers first;
    first.open_channels(1);
    (void)first.server.session.send_content(1, a_delivery, {}, body_of(100));
    auto cut = first.server.say();
    cut.resize(cut.size() / 2); // the connection dies within a frame
    first.client.receive(cut);
    EXPECT_FALSE(first.client.inbox.empty());
    two_peers second;
    second.open();
    EXPECT_EQ(second.client.diary, diary{"opened 0"});
}

TEST(field_case_c21, a_handshake_cut_anywhere_goes_on)
{
    // Record what a server says to a client, then give it to other clients at every split point.
    peer server{server_options{}};
    peer client{client_options{}};
    client.session.start(0);
    std::vector<bytes> flights;
    for (;;) {
        const auto said = client.say();
        if (said.empty()) {
            break;
        }
        server.receive(said);
        flights.push_back(server.say());
        client.receive(flights.back());
    }
    ASSERT_TRUE(client.session.is_open());
    for (std::size_t flight = 0; flight < flights.size(); ++flight) {
        for (std::size_t at = 0; at <= flights[flight].size(); ++at) {
            peer other{client_options{}};
            other.session.start(0);
            for (std::size_t i = 0; i < flights.size(); ++i) {
                const auto said = std::span<const std::byte>(flights[i]);
                other.receive(said.first(i == flight ? at : 0));
                other.receive(said.subspan(i == flight ? at : 0));
            }
            ASSERT_EQ(other.diary, diary{"opened 0"}) << flight << ' ' << at;
        }
    }
    // All of it in one piece, as when TLS hands over one big record.
    peer eager{client_options{}};
    eager.session.start(0);
    bytes all;
    for (const auto& flight : flights) {
        all = std::move(all) + flight;
    }
    eager.receive(all);
    EXPECT_EQ(eager.diary, diary{"opened 0"});
}

TEST(field_case_c28, undersized_frames_are_refused_before_login_and_after)
{
    const auto header_of_three = raw_frame(wire::frame_header, 1, body_of(3));
    for (std::size_t size = 0; size <= 3; ++size) {
        const auto method = raw_frame(wire::frame_method, 0, body_of(size));
        for (const auto& frame : {method, header_of_three}) {
            peer client{client_options{}};
            client.session.start(0);
            client.receive(frame);
            EXPECT_EQ(client.session.state(), session_state::failed);
            two_peers both;
            both.open_channels(1);
            both.client.receive(frame);
            EXPECT_TRUE(both.client.diary.back().starts_with("failed 0 501"));
        }
    }
}

TEST(field_case_c29, a_length_near_2_to_the_32_is_refused_at_the_head)
{
    for (const std::uint32_t size : {0xFFFFFFFFu, 0xFFFFFFF8u, 131073u}) {
        for (const auto type : {wire::frame_method, wire::frame_header, wire::frame_body}) {
            if (type == wire::frame_header && size == 131073) {
                continue; // a header may be that large (s73)
            }
            two_peers both;
            both.open_channels(1);
            bytes head(7);
            wire::write_frame_head(head.data(), type, 1, size);
            both.client.receive(head); // and no byte of the payload
            ASSERT_EQ(both.client.diary.size(), 1u);
            EXPECT_TRUE(both.client.diary[0].starts_with("failed 0 501"));
        }
    }
}

TEST(field_case_c30, an_offer_of_a_tiny_frame_max_ends_the_handshake_with_a_reason)
{
    for (const std::uint32_t offer : {1u, 8u, 4095u}) {
        two_peers both({}, {.frame_size_max = offer});
        both.open();
        ASSERT_EQ(both.client.diary.size(), 1u);
        EXPECT_TRUE(both.client.diary[0].starts_with(
            fmt::format("failed 0 530 'NOT_ALLOWED - the server offers a frame_max of {}", offer)));
        EXPECT_TRUE(both.client.say().empty());
    }
    two_peers both({}, {.frame_size_max = 0});
    both.open();
    EXPECT_TRUE(both.client.session.is_open());
}

TEST(field_case_c31, a_string_longer_than_its_frame_is_refused)
{
    // connection.start with a mechanism list of 0xFFFFFFFF bytes.
    peer client{client_options{}};
    client.session.start(0);
    client.receive(raw_frame(
        1, 0, bytes_of(std::string_view("\0\x0a\0\x0a\0\x09\0\0\0\0\xff\xff\xff\xff", 14))));
    ASSERT_EQ(client.diary.size(), 1u);
    EXPECT_TRUE(client.diary[0].starts_with("failed 0 502")) << client.diary[0];
}

TEST(field_case_c32, a_body_of_one_byte_too_many_is_split)
{
    two_peers both({.frame_size_max = 8192});
    both.open_channels(1);
    (void)both.client.session.send_content(1, wire::basic::publish{}, {}, body_of(8193));
    both.talk();
    ASSERT_EQ(both.server.diary.size(), 1u);
    EXPECT_NE(both.server.diary[0].find("size=8193"), std::string::npos);
}

TEST(field_case_c36, a_body_of_three_gibibytes_is_counted_in_64_bits)
{
    two_peers both;
    both.open_channels(1);
    const std::uint64_t size = std::uint64_t{3} << 30;
    const auto part = body_frame(1, body_of(std::size_t{1} << 17)); // RabbitMQ's slack of 8 bytes
    both.client.receive(method_frame(1, a_delivery) + header_frame(1, size));
    auto& client = both.client.session;
    for (std::uint64_t sent = 0; sent < size; sent += std::size_t{1} << 17) {
        ASSERT_NE(client.next(part).kind, event_kind::failed);
    }
    EXPECT_EQ(client.content().body_size, size);
    EXPECT_TRUE(client.content().body_dropped);
    both.client.receive(method_frame(1, a_delivery) + header_frame(1, 0));
    EXPECT_EQ(both.client.diary.size(), 1u);
}

TEST(field_case_c37, frames_of_two_channels_may_alternate_within_a_body)
{
    two_peers both;
    both.open_channels(2);
    const auto one = body_of(4, 1);
    const auto two = body_of(6, 2);
    both.client.receive(method_frame(1, a_delivery) + header_frame(1, 4) +
                        method_frame(2, a_delivery) + body_frame(1, std::span(one).first(2)) +
                        header_frame(2, 6) + body_frame(2, std::span(two).first(1)) +
                        body_frame(1, std::span(one).subspan(2)) +
                        body_frame(2, std::span(two).subspan(1)));
    ASSERT_EQ(both.client.diary.size(), 2u);
    EXPECT_TRUE(both.client.diary[0].starts_with("content 1"));
    EXPECT_TRUE(both.client.diary[0].ends_with(fmt::format("body={:x}", digest(one))));
    EXPECT_TRUE(both.client.diary[1].starts_with("content 2"));
    EXPECT_TRUE(both.client.diary[1].ends_with(fmt::format("body={:x}", digest(two))));
}

TEST(field_case_c39, an_announced_body_of_2_to_the_62_costs_nothing)
{
    client_options options;
    options.limits.body_size_max = ~std::uint64_t{0}; // even where the owner set no limit
    two_peers both(options);
    both.open_channels(1);
    both.client.receive(method_frame(1, a_delivery) + header_frame(1, std::uint64_t{1} << 62) +
                        body_frame(1, body_of(100)));
    EXPECT_TRUE(both.client.session.is_open());
    EXPECT_TRUE(both.client.diary.empty());

    assembly half;
    half.content.body_size = std::uint64_t{1} << 62;
    half.append_body(body_of(100));
    EXPECT_LE(half.body.capacity(), assembly::reserve_ahead_max);
}

TEST(field_case_c52, close_of_a_channel_is_answered_by_itself_and_others_live_on)
{
    two_peers both;
    both.open_channels(2);
    (void)both.server.session.close_channel(1, wire::reply_code::precondition_failed,
                                            "PRECONDITION_FAILED - unknown delivery tag 999",
                                            wire::id_of<wire::basic::ack>);
    both.talk();
    EXPECT_EQ(both.client.diary, diary{"channel_closed 1 406 'PRECONDITION_FAILED - unknown "
                                       "delivery tag 999' 60.80 by peer"});
    EXPECT_EQ(both.server.diary, diary{"channel_close_ok 1"});
    EXPECT_EQ(both.client.session.channel(2), channel_state::open);
}

TEST(field_case_s41, deliveries_in_flight_at_the_close_of_a_channel_are_ignored)
{
    two_peers both;
    both.open_channels(2);
    for (int i = 0; i < 5; ++i) {
        (void)both.server.session.send_content(1, a_delivery, {}, body_of(10));
        (void)both.server.session.send_content(2, a_delivery, {}, body_of(200000));
    }
    (void)both.server.session.send(1, wire::basic::ack{});
    (void)both.client.session.close_channel(1);
    both.talk();
    ASSERT_EQ(both.client.diary.size(), 6u);
    for (int i = 0; i < 5; ++i) {
        EXPECT_TRUE(both.client.diary[static_cast<std::size_t>(i)].starts_with("content 2"));
    }
    EXPECT_EQ(both.client.diary[5], "channel_close_ok 1");
}

TEST(field_case_s47, nothing_is_written_on_a_channel_that_the_server_closed)
{
    two_peers both;
    both.open_channels(1);
    (void)both.server.session.close_channel(1, wire::reply_code::precondition_failed, "x");
    both.client.receive(both.server.say());
    auto& client = both.client.session;
    EXPECT_EQ(client.send(1, wire::basic::cancel{.consumer_tag = "c"}),
              send_status::channel_not_open);
    EXPECT_EQ(client.close_channel(1), send_status::channel_not_open);
    EXPECT_EQ(client.send_content(1, wire::basic::publish{}, {}, {}),
              send_status::channel_not_open);
    both.talk();
    EXPECT_TRUE(both.server.session.is_open());
}

TEST(field_case_s46, a_close_that_the_server_repeats_is_answered_once)
{
    // RabbitMQ up to 4.2 repeats the close of a consumer timeout each minute until it is answered.
    two_peers both;
    both.open_channels(1);
    const auto close = method_frame(1, wire::channel::close{.reply_code = 406});
    both.client.receive(close + close);
    EXPECT_EQ(both.client.diary, diary{"channel_closed 1 406 '' 0.0 by peer"});
    EXPECT_EQ(both.client.say(), method_frame(1, wire::channel::close_ok{}));
    EXPECT_TRUE(both.client.session.is_open());
}

TEST(field_case_s73, a_header_frame_above_frame_max_is_accepted)
{
    two_peers both({.frame_size_max = 8192});
    both.open_channels(1);
    wire::table headers;
    headers.set("x-death", std::string(50000, 'd'));
    const auto input = method_frame(1, a_delivery) +
                       header_frame(1, 3, {.headers = headers.view()}) + body_frame(1, body_of(3));
    for (const std::size_t piece : {0u, 997u}) {
        both.client.receive(input, piece);
    }
    ASSERT_EQ(both.client.diary.size(), 2u);
    EXPECT_TRUE(both.client.diary[0].starts_with("content 1 deliver"));
    EXPECT_EQ(both.client.diary[0], both.client.diary[1]);
}

} // namespace
} // namespace acquit::amqp::testing
