#include "session_peers.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

namespace acquit::amqp::testing {
namespace {

using diary = std::vector<std::string>;

const wire::basic::deliver a_delivery{.consumer_tag = "ctag",
                                      .delivery_tag = 7,
                                      .redelivered = true,
                                      .exchange = "ex",
                                      .routing_key = "key"};

/// What a client has to say of one whole content, copied while it holds.
struct seen {
    content_event content;
    bytes body;
    bytes properties;
    std::string exchange;
};

std::vector<seen> watch(peer& end, std::vector<seen>& into)
{
    end.on_event = [&end, &into](const event& said) {
        if (said.kind == event_kind::content) {
            const auto& c = end.session.content();
            into.push_back({c,
                            {c.body.begin(), c.body.end()},
                            {c.properties.begin(), c.properties.end()},
                            std::string(c.exchange)});
        }
    };
    return into;
}

TEST(session_content, each_kind_arrives_with_all_its_fields)
{
    two_peers both;
    both.open_channels(1);
    auto& server = both.server.session;
    const auto body = body_of(20);
    ASSERT_EQ(server.send_content(1, a_delivery, {}, body), send_status::sent);
    ASSERT_EQ(server.send_content(1,
                                  wire::basic::get_ok{.delivery_tag = 8,
                                                      .redelivered = true,
                                                      .exchange = "e",
                                                      .routing_key = "k",
                                                      .message_count = 99},
                                  {}, body),
              send_status::sent);
    ASSERT_EQ(server.send_content(1,
                                  wire::basic::return_{.reply_code = 312,
                                                       .reply_text = "NO_ROUTE",
                                                       .exchange = "e",
                                                       .routing_key = "k"},
                                  {}, body),
              send_status::sent);
    ASSERT_EQ(both.client.session.send_content(
                  1, wire::basic::publish{.exchange = "e", .routing_key = "k", .mandatory = true},
                  {}, body),
              send_status::sent);
    both.talk();
    ASSERT_EQ(both.client.diary.size(), 3u);
    EXPECT_TRUE(
        both.client.diary[0].starts_with("content 1 deliver tag=7 consumer=ctag exchange=ex "
                                         "key=key redelivered=true mandatory=false "
                                         "immediate=false count=0 code=0 text= "))
        << both.client.diary[0];
    EXPECT_TRUE(both.client.diary[1].starts_with(
        "content 1 get_ok tag=8 consumer= exchange=e key=k redelivered=true mandatory=false "
        "immediate=false count=99 code=0 text= "))
        << both.client.diary[1];
    EXPECT_TRUE(both.client.diary[2].starts_with(
        "content 1 return tag=0 consumer= exchange=e key=k redelivered=false mandatory=false "
        "immediate=false count=0 code=312 text=NO_ROUTE "))
        << both.client.diary[2];
    ASSERT_EQ(both.server.diary.size(), 1u);
    EXPECT_TRUE(both.server.diary[0].starts_with(
        "content 1 publish tag=0 consumer= exchange=e key=k redelivered=false mandatory=true "))
        << both.server.diary[0];
}

TEST(session_content, bodies_of_every_edge_size_arrive_whole_however_they_are_cut)
{
    const std::size_t frame_max = 8192;
    const auto payload = frame_max - 8;
    for (const auto size :
         {std::size_t{0}, std::size_t{1}, payload - 1, payload, payload + 1, payload + 8,
          2 * payload - 1, 2 * payload, 2 * payload + 1, 5 * payload}) {
        const auto body = body_of(size);
        diary whole;
        for (const std::size_t piece : {0u, 1u, 8191u}) {
            two_peers both({.frame_size_max = 8192});
            both.open_channels(1);
            both.piece = piece;
            std::vector<seen> contents;
            watch(both.client, contents);
            ASSERT_EQ(both.server.session.send_content(1, a_delivery, {}, body), send_status::sent);
            both.talk();
            ASSERT_EQ(contents.size(), 1u) << size << ' ' << piece;
            EXPECT_EQ(contents[0].body, body);
            EXPECT_EQ(contents[0].content.body_size, size);
            if (piece == 0) {
                whole = both.client.diary;
            }
            EXPECT_EQ(both.client.diary, whole);
        }
    }
}

TEST(session_content, no_frame_is_larger_than_what_was_tuned)
{
    for (const std::size_t size : {0u, 8184u, 8185u, 100000u}) {
        two_peers both({.frame_size_max = 8192});
        both.open_channels(1);
        const auto body = body_of(size);
        ASSERT_EQ(both.client.session.send_content(1, wire::basic::publish{}, {}, body),
                  send_status::sent);
        const auto said = both.client.say();
        std::size_t bodies = 0;
        for (std::span<const std::byte> rest = said; !rest.empty();) {
            wire::frame_view frame;
            ASSERT_TRUE(wire::parse_frame(rest, 131072, frame).complete());
            EXPECT_LE(frame.size, 8192u);
            bodies += frame.type == wire::frame_body ? 1 : 0;
            rest = rest.subspan(frame.size);
        }
        EXPECT_EQ(bodies, (size + 8183) / 8184);
    }
}

TEST(session_content, one_whole_delivery_is_a_view_into_the_input)
{
    two_peers both;
    both.open_channels(1);
    const auto body = body_of(100);
    (void)both.server.session.send_content(1, a_delivery, {}, body);
    const auto input = both.server.say();
    const auto said = both.client.session.next(input);
    ASSERT_EQ(said.kind, event_kind::content);
    EXPECT_EQ(said.consumed, input.size());
    const auto& c = both.client.session.content();
    EXPECT_TRUE(c.head_in_input);
    EXPECT_TRUE(c.body_in_input);
    const auto inside = [&](const void* p) {
        return p >= input.data() && p < input.data() + input.size();
    };
    EXPECT_TRUE(inside(c.body.data()));
    EXPECT_TRUE(inside(c.exchange.data()));
    EXPECT_TRUE(inside(c.properties.data()));
    EXPECT_TRUE(both.client.session.take_body().empty());
}

TEST(session_content, a_body_in_one_frame_is_never_copied_even_when_its_head_came_before)
{
    two_peers both;
    both.open_channels(1);
    const auto body = body_of(100);
    (void)both.server.session.send_content(1, a_delivery, {}, body);
    const auto input = both.server.say();
    auto& client = both.client.session;
    const auto before_body = std::span(input).first(input.size() - body.size() - 8);
    std::size_t done = 0;
    for (event said;
         (said = client.next(before_body.subspan(done))).kind != event_kind::need_more;) {
        done += said.consumed;
    }
    ASSERT_EQ(done, before_body.size());
    const auto rest = std::span(input).subspan(done);
    ASSERT_EQ(client.next(rest).kind, event_kind::content);
    EXPECT_FALSE(client.content().head_in_input);
    EXPECT_TRUE(client.content().body_in_input);
    EXPECT_EQ(client.content().body.data(), rest.data() + 7);
    EXPECT_EQ(client.content().exchange, "ex");
}

TEST(session_content, an_assembled_body_can_be_taken_and_the_views_stay)
{
    two_peers both({.frame_size_max = 8192});
    both.open_channels(1);
    const auto body = body_of(30000);
    (void)both.server.session.send_content(1, a_delivery, {}, body);
    const auto input = both.server.say();
    auto& client = both.client.session;
    std::size_t done = 0;
    event said;
    while ((said = client.next(std::span(input).subspan(done))).kind != event_kind::content) {
        done += said.consumed;
    }
    EXPECT_FALSE(client.content().body_in_input);
    const auto taken = client.take_body();
    EXPECT_EQ(taken, body);
    EXPECT_EQ(client.content().body.data(), taken.data());
    EXPECT_TRUE(client.take_body().empty());
    (void)client.next({});
    EXPECT_EQ(taken, body);
}

TEST(session_content, a_finished_message_outlives_the_close_of_its_channel_until_the_next_call)
{
    two_peers both({.frame_size_max = 8192});
    both.open_channels(1);
    const auto body = body_of(30000);
    (void)both.server.session.send_content(1, a_delivery, {}, body);
    bool looked = false;
    both.client.on_event = [&](const event& said) {
        if (said.kind == event_kind::content) {
            (void)both.client.session.close_channel(1);
            EXPECT_EQ(digest(both.client.session.content().body), digest(body));
            EXPECT_EQ(both.client.session.content().exchange, "ex");
            looked = true;
        }
    };
    both.talk();
    EXPECT_TRUE(looked);
    EXPECT_EQ(both.client.session.channel(1), channel_state::closed);
}

TEST(session_content, empty_and_tiny_body_frames_are_fine)
{
    two_peers both;
    both.open_channels(1);
    const auto body = body_of(3);
    const auto parts = std::span(body);
    both.client.receive(method_frame(1, a_delivery) + header_frame(1, 3) + body_frame(1, {}) +
                        body_frame(1, parts.first(1)) + body_frame(1, {}) +
                        body_frame(1, parts.subspan(1)));
    ASSERT_EQ(both.client.diary.size(), 1u);
    EXPECT_TRUE(both.client.diary[0].ends_with(fmt::format("body={:x}", digest(body))));
}

TEST(session_content, properties_come_and_go_byte_for_byte)
{
    two_peers both;
    both.open_channels(1);
    wire::table headers;
    headers.set("n", 5).set("text", "x");
    const wire::properties properties{
        .content_type = "text/plain", .headers = headers.view(), .delivery_mode = std::uint8_t{2}};
    std::vector<seen> at_client;
    std::vector<seen> at_server;
    watch(both.client, at_client);
    watch(both.server, at_server);
    (void)both.server.session.send_content(1, a_delivery, properties, body_of(3));
    both.talk();
    ASSERT_EQ(at_client.size(), 1u);
    ASSERT_EQ(both.client.session.send_raw_content(1, wire::basic::publish{},
                                                   at_client[0].properties, body_of(3)),
              send_status::sent);
    both.talk();
    ASSERT_EQ(at_server.size(), 1u);
    EXPECT_EQ(at_server[0].properties, at_client[0].properties);
    wire::properties decoded;
    ASSERT_TRUE(wire::properties_view(at_server[0].properties).decode(decoded));
    EXPECT_EQ(decoded.content_type, "text/plain");
    EXPECT_EQ(decoded.headers->find("n")->as_int64(), 5);
}

TEST(session_content, what_cannot_be_sent_is_refused_and_nothing_of_it_is_written)
{
    two_peers both({.frame_size_max = 8192});
    both.open_channels(1);
    auto& client = both.client.session;
    wire::table headers;
    headers.set("novel", std::string(9000, 'x'));
    const wire::properties huge{.headers = headers.view()};
    const std::string long_name(256, 'q');
    EXPECT_EQ(client.send_content(1, wire::basic::publish{}, huge, body_of(3)),
              send_status::too_large);
    EXPECT_EQ(client.send_content(1, wire::basic::publish{.exchange = long_name}, {}, body_of(3)),
              send_status::bad_argument);
    EXPECT_EQ(client.send_content(1, wire::basic::publish{}, {.message_id = long_name}, body_of(3)),
              send_status::bad_argument);
    EXPECT_EQ(client.send(1, wire::queue::declare{.queue = long_name}), send_status::bad_argument);
    EXPECT_EQ(client.send(1, wire::queue::declare{.arguments = headers.view()}),
              send_status::too_large);
    EXPECT_EQ(client.send_content(2, wire::basic::publish{}, {}, body_of(3)),
              send_status::channel_not_open);
    EXPECT_TRUE(client.output().open_empty());
}

TEST(session_content, a_body_above_the_limit_is_skipped_and_reported)
{
    client_options options{.frame_size_max = 8192};
    options.limits.body_size_max = 10000;
    for (const std::size_t piece : {0u, 1u, 1000u}) {
        two_peers both(options);
        both.open_channels(1);
        both.piece = piece;
        (void)both.server.session.send_content(1, a_delivery, {}, body_of(10001));
        (void)both.server.session.send_content(1, a_delivery, {}, body_of(10000));
        both.talk();
        ASSERT_EQ(both.client.diary.size(), 2u);
        EXPECT_NE(both.client.diary[0].find("size=10001 dropped=true"), std::string::npos);
        EXPECT_NE(both.client.diary[1].find("size=10000 dropped=false"), std::string::npos);
    }
}

TEST(session_content, a_limit_below_the_frame_size_holds_for_bodies_in_one_frame_too)
{
    client_options options;
    options.limits.body_size_max = 10;
    for (const std::size_t piece : {0u, 1u}) {
        two_peers both(options);
        both.open_channels(1);
        both.piece = piece;
        (void)both.server.session.send_content(1, a_delivery, {}, body_of(11));
        both.talk();
        ASSERT_EQ(both.client.diary.size(), 1u);
        EXPECT_NE(both.client.diary[0].find("dropped=true"), std::string::npos);
    }
}

TEST(session_content, half_messages_of_all_channels_together_are_bounded)
{
    client_options options{.frame_size_max = 8192};
    options.limits.assembled_size_max = 20000;
    two_peers both(options);
    both.open_channels(3);
    const auto body = body_of(16368);
    const auto half = std::span(body).first(8184);
    for (const std::uint16_t channel : {std::uint16_t{1}, std::uint16_t{2}, std::uint16_t{3}}) {
        both.client.receive(method_frame(channel, a_delivery) + header_frame(channel, body.size()) +
                            body_frame(channel, half));
    }
    for (const std::uint16_t channel : {std::uint16_t{1}, std::uint16_t{2}, std::uint16_t{3}}) {
        both.client.receive(body_frame(channel, std::span(body).subspan(8184)));
    }
    ASSERT_EQ(both.client.diary.size(), 3u);
    EXPECT_NE(both.client.diary[0].find("dropped=true"), std::string::npos);
    EXPECT_NE(both.client.diary[1].find("dropped=false"), std::string::npos);
    EXPECT_NE(both.client.diary[2].find("dropped=true"), std::string::npos);
    // What was counted is given back: the same fits again.
    both.client.diary.clear();
    both.client.receive(method_frame(1, a_delivery) + header_frame(1, body.size()) +
                        body_frame(1, half) + body_frame(1, std::span(body).subspan(8184)));
    ASSERT_EQ(both.client.diary.size(), 1u);
    EXPECT_NE(both.client.diary[0].find("dropped=false"), std::string::npos);
}

struct wrong_frames {
    const char* what;
    bytes input;
    const char* begins;
};

TEST(session_content, frames_out_of_place_close_the_connection_with_the_code_of_the_specification)
{
    const auto body = body_of(10);
    bytes wrong_class = header_frame(1, 10);
    wrong_class[8] = std::byte{10};
    const wrong_frames cases[] = {
        {"header without method", header_frame(1, 3), "failed 0 505"},
        {"body without method", body_frame(1, body), "failed 0 505"},
        {"body without header", method_frame(1, a_delivery) + body_frame(1, body), "failed 0 505"},
        {"header twice", method_frame(1, a_delivery) + header_frame(1, 3) + header_frame(1, 3),
         "failed 0 505"},
        {"method instead of header",
         method_frame(1, a_delivery) + method_frame(1, wire::basic::ack{.delivery_tag = 1}),
         "failed 0 505"},
        {"method instead of body",
         method_frame(1, a_delivery) + header_frame(1, 3) + method_frame(1, a_delivery),
         "failed 0 505"},
        {"close instead of body",
         method_frame(1, a_delivery) + header_frame(1, 3) + method_frame(1, wire::channel::close{}),
         "failed 0 505"},
        {"header of another class", method_frame(1, a_delivery) + wrong_class, "failed 0 505"},
        {"longer than announced",
         method_frame(1, a_delivery) + header_frame(1, 9) + body_frame(1, body), "failed 0 501"},
        {"header on channel 0", header_frame(0, 3), "failed 0 505"},
        {"body on channel 0", body_frame(0, body), "failed 0 505"},
        {"header on a closed channel", header_frame(9, 3), "failed 0 504"},
        {"body on a closed channel", body_frame(9, body), "failed 0 504"},
        {"delivery on a closed channel",
         method_frame(9, a_delivery) + header_frame(9, 10) + body_frame(9, body), "failed 0 504"},
    };
    for (const auto& [what, input, begins] : cases) {
        diary whole;
        for (const std::size_t piece : {0u, 1u}) {
            two_peers both;
            both.open_channels(1);
            both.client.receive(input, piece);
            ASSERT_EQ(both.client.diary.size(), 1u) << what;
            EXPECT_TRUE(both.client.diary[0].starts_with(begins)) << what << both.client.diary[0];
            const auto said = both.client.say();
            const auto close = find_method<wire::connection::close>(said);
            ASSERT_TRUE(close) << what;
            EXPECT_EQ(close->reply_code, static_cast<unsigned>(both.client.session.fault().code));
            if (piece == 0) {
                whole = both.client.diary;
            }
            EXPECT_EQ(both.client.diary, whole) << what;
            // The server answers, and that is the end.
            both.server.receive(said);
            both.talk();
            EXPECT_EQ(both.client.session.state(), session_state::closed) << what;
            EXPECT_EQ(both.server.session.state(), session_state::closed) << what;
        }
    }
}

TEST(session_content, random_conversations_are_the_same_however_they_are_cut)
{
    const auto seed = std::random_device{}();
    RecordProperty("seed", static_cast<int>(seed));
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937 random(seed);
    for (int round = 0; round < 20; ++round) {
        // Frames of several channels, each channel's in order, mixed at random.
        std::array<std::vector<bytes>, 4> queues;
        for (std::uint16_t channel = 1; channel <= 4; ++channel) {
            auto& frames = queues[channel - 1u];
            for (int message = 0; message < 6; ++message) {
                const auto body = body_of(random() % 40, static_cast<unsigned>(random()));
                frames.push_back(method_frame(
                    channel, wire::basic::deliver{.consumer_tag = "c",
                                                  .delivery_tag = static_cast<unsigned>(message),
                                                  .exchange = "e",
                                                  .routing_key = "k"}));
                frames.push_back(header_frame(channel, body.size()));
                for (std::span<const std::byte> rest = body; !rest.empty();) {
                    const auto part = std::min<std::size_t>(rest.size(), 1 + random() % 40);
                    frames.push_back(body_frame(channel, rest.first(part)));
                    rest = rest.subspan(part);
                }
                if (random() % 3 == 0) {
                    frames.push_back(method_frame(
                        channel, wire::basic::ack{.delivery_tag = static_cast<unsigned>(message)}));
                }
            }
        }
        bytes input;
        std::array<std::size_t, 4> next{};
        for (;;) {
            const auto left = [&](std::size_t q) { return next[q] < queues[q].size(); };
            if (!left(0) && !left(1) && !left(2) && !left(3)) {
                break;
            }
            // Runs, so that whole deliveries stand together often enough for the fast path.
            const std::size_t q = random() % 4;
            for (auto run = random() % 5; run != 0 && left(q); --run) {
                input = std::move(input) + queues[q][next[q]++];
            }
        }
        diary whole;
        for (const std::size_t piece : {std::size_t{0}, std::size_t{1}, 2 + random() % 100}) {
            two_peers both;
            both.open_channels(4);
            both.client.receive(input, piece);
            ASSERT_TRUE(both.client.session.is_open()) << both.client.session.fault_text();
            if (piece == 0) {
                whole = both.client.diary;
                EXPECT_GE(whole.size(), 24u);
            }
            ASSERT_EQ(both.client.diary, whole) << piece;
        }
    }
}

} // namespace
} // namespace acquit::amqp::testing
