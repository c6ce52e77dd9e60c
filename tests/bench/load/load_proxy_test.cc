#include "../../../bench/load/conversation.h"

#include <acquit/amqp/wire/frame.h>
#include <acquit/amqp/wire/methods.h>
#include <acquit/amqp/wire/properties.h>
#include <acquit/amqp/wire/table.h>

#include <gtest/gtest.h>

#include <vector>

namespace acquit::bench {
namespace {

using namespace std::chrono_literals;
namespace wire = amqp::wire;
namespace basic = amqp::wire::basic;
using bytes = std::vector<std::byte>;
using runtime::time_point;

constexpr time_point start{1000s};

template <class Method>
bytes frame(const Method& m, std::uint16_t channel = 1)
{
    bytes out(wire::encoded_size(m));
    EXPECT_EQ(wire::encode_frame(out, channel, m), out.size());
    return out;
}

void append(bytes& to, const bytes& more)
{
    to.insert(to.end(), more.begin(), more.end());
}

bytes content(std::size_t size, std::uint16_t channel = 1)
{
    bytes out(100);
    out.resize(wire::encode_header_frame(out, channel, size, wire::properties{}));
    const bytes body(size, std::byte{0xCE}); // the octet that ends frames, to be told apart
    bytes framed(size + wire::frame_overhead);
    if (size != 0 && wire::encode_body_frame(framed, channel, body, 1u << 20) != 0)
        append(out, framed);
    return out;
}

bytes delivery(std::uint64_t tag, std::string_view consumer = "c", std::size_t size = 5)
{
    auto out = frame(basic::deliver{.consumer_tag = consumer, .delivery_tag = tag});
    append(out, content(size));
    return out;
}

bytes greeting()
{
    return {wire::protocol_header.begin(), wire::protocol_header.end()};
}

/// A conversation with one consumer that has said what is needed.
struct heard {
    explicit heard(std::uint16_t prefetch = 2)
    {
        client(greeting());
        client(frame(basic::qos{.prefetch_count = prefetch}));
        client(frame(basic::consume{.queue = "q", .consumer_tag = "c"}));
        broker(frame(basic::consume_ok{.consumer_tag = "c"}));
    }
    void client(const bytes& said, time_point at = start)
    {
        talk.client_says(said);
        talk.handed_over(at);
    }
    void broker(const bytes& said, time_point at = start) { talk.broker_says(said, at); }
    settling& of(std::uint32_t prefetch) { return seen.settling[prefetch]; }

    sightings seen;
    conversation talk{seen, 1};
};

TEST(load_proxy, measures_from_the_bytes_handed_on_to_the_whole_delivery)
{
    heard h(2);
    h.broker(delivery(1));
    h.broker(delivery(2));
    h.client(frame(basic::ack{.delivery_tag = 1}), start + 1ms);
    h.client(frame(basic::ack{.delivery_tag = 2}), start + 2ms);
    h.broker(delivery(3), start + 7ms);
    ASSERT_EQ(h.of(2).latency.count(), 1u);
    EXPECT_EQ(h.of(2).latency.max(), 6ms);
    h.broker(delivery(4), start + 7ms);
    EXPECT_EQ(h.of(2).latency.count(), 2u);
    EXPECT_EQ(h.of(2).settled, 2u);
    EXPECT_EQ(h.of(2).frames, 2u);
    EXPECT_EQ(h.seen.done.received, 4u);
    EXPECT_EQ(h.talk.confusion(), "");
}

TEST(load_proxy, a_delivery_has_arrived_with_the_last_byte_of_its_body)
{
    heard h(1);
    h.broker(delivery(1));
    h.client(frame(basic::ack{.delivery_tag = 1}), start);
    const auto whole = delivery(2, "c", 1000);
    const auto cut = whole.begin() + 500;
    h.broker(bytes(whole.begin(), cut), start + 1ms);
    EXPECT_EQ(h.of(1).latency.count(), 0u);
    h.broker(bytes(cut, whole.end()), start + 9ms);
    EXPECT_EQ(h.of(1).latency.max(), 9ms);
}

TEST(load_proxy, understands_the_same_byte_by_byte)
{
    heard h(2);
    bytes said;
    for (std::uint64_t tag = 1; tag <= 3; ++tag)
        append(said, delivery(tag, "c", tag == 2 ? 0 : 40));
    append(said, bytes{std::byte{8}, {}, {}, {}, {}, {}, {}, std::byte{0xCE}}); // a heartbeat
    append(said, delivery(4));
    for (const auto each : said)
        h.broker({each});
    for (const auto each : frame(basic::ack{.delivery_tag = 3, .multiple = true}))
        h.client({each});
    EXPECT_EQ(h.talk.confusion(), "");
    EXPECT_EQ(h.seen.done.received, 4u);
    EXPECT_EQ(h.of(2).settled, 3u);
    EXPECT_EQ(h.of(2).frames, 1u);
}

TEST(load_proxy, counts_what_a_multiple_frame_settles_and_nothing_twice)
{
    heard h(100);
    for (std::uint64_t tag = 1; tag <= 10; ++tag)
        h.broker(delivery(tag));
    h.client(frame(basic::reject{.delivery_tag = 4}));
    h.client(frame(basic::ack{.delivery_tag = 6, .multiple = true}));
    EXPECT_EQ(h.of(100).settled, 6u);
    h.client(frame(basic::ack{.delivery_tag = 6, .multiple = true})); // a mistake of the client
    h.client(frame(basic::ack{.delivery_tag = 99}));
    EXPECT_EQ(h.of(100).settled, 6u);
    EXPECT_EQ(h.of(100).frames, 2u);
    h.client(frame(basic::nack{.delivery_tag = 0, .multiple = true, .requeue = true})); // all
    EXPECT_EQ(h.of(100).settled, 10u);
}

TEST(load_proxy, keeps_consumers_with_different_windows_apart)
{
    heard h(1);
    h.client(frame(basic::qos{.prefetch_count = 3}));
    h.client(frame(basic::consume{.queue = "q"})); // the server names it
    h.broker(frame(basic::consume_ok{.consumer_tag = "srv"}));
    h.broker(delivery(1, "c"));
    h.broker(delivery(2, "srv"));
    h.client(frame(basic::ack{.delivery_tag = 1}), start);
    h.broker(delivery(3, "srv"), start + 1ms); // within its own window
    h.broker(delivery(4, "c"), start + 2ms);
    EXPECT_EQ(h.of(3).latency.count(), 0u);
    ASSERT_EQ(h.of(1).latency.count(), 1u);
    EXPECT_EQ(h.of(1).latency.max(), 2ms);
}

TEST(load_proxy, deliveries_that_need_no_answer_hold_nothing_up)
{
    heard h(1);
    h.client(frame(basic::consume{.queue = "q", .consumer_tag = "free", .no_ack = true}));
    h.broker(frame(basic::consume_ok{.consumer_tag = "free"}));
    h.client(frame(basic::get{.queue = "q", .no_ack = true}));
    h.client(frame(basic::get{.queue = "q"}));
    h.client(frame(basic::get{.queue = "q"}));
    std::uint64_t tag = 0;
    for (int i = 0; i < 3; ++i)
        h.broker(delivery(++tag, "free"));
    h.broker(frame(basic::get_ok{.delivery_tag = ++tag}));
    h.broker(content(3));
    h.broker(frame(basic::get_empty{}));
    h.broker(frame(basic::get_ok{.delivery_tag = ++tag}));
    h.broker(content(3));
    h.client(frame(basic::ack{.delivery_tag = tag, .multiple = true}));
    EXPECT_EQ(h.seen.done.acked, 1u);
    EXPECT_EQ(h.seen.done.received, 5u);
    EXPECT_EQ(h.talk.confusion(), "");
}

TEST(load_proxy, a_channel_that_is_opened_again_begins_anew)
{
    heard h(2);
    h.broker(delivery(1));
    h.client(frame(wire::channel::close{}));
    h.broker(delivery(2)); // under way
    h.broker(frame(wire::channel::close_ok{}));
    h.client(frame(wire::channel::open{}));
    h.client(frame(basic::consume{.queue = "q", .consumer_tag = "c"}));
    h.broker(delivery(1));
    EXPECT_EQ(h.talk.confusion(), "");
    ASSERT_EQ(h.seen.channels.size(), 1u);
    EXPECT_EQ(h.seen.channels[0].deliveries, 2u);
}

TEST(load_proxy, knows_how_client_and_server_call_themselves_and_no_password)
{
    sightings seen;
    {
        conversation talk(seen, 1);
        talk.client_says(greeting());
        wire::table server;
        server.set("product", "RabbitMQ").set("version", "4.3.0");
        talk.broker_says(frame(wire::connection::start{.server_properties = server.view(),
                                                       .mechanisms = "PLAIN",
                                                       .locales = "en_US"},
                               0),
                         start);
        wire::table client;
        client.set("product", "some").set("connection_name", "orders");
        talk.client_says(frame(wire::connection::start_ok{.client_properties = client.view(),
                                                          .mechanism = "PLAIN",
                                                          .response = "secret"},
                               0));
        EXPECT_EQ(talk.client(), "some (orders)");
    }
    EXPECT_EQ(seen.broker, "RabbitMQ 4.3.0");
}

TEST(load_proxy, says_what_it_does_not_understand_and_keeps_quiet_after_that)
{
    heard h;
    h.broker(bytes(20, std::byte{0x55}));
    const auto said = h.talk.confusion();
    EXPECT_NE(said, "");
    h.broker(delivery(1));
    h.client(frame(basic::ack{.delivery_tag = 1}));
    EXPECT_EQ(h.talk.confusion(), said);
    EXPECT_EQ(h.seen.done.received, 0u);

    sightings other;
    conversation web(other, 2);
    web.client_says(amqp::wire::byte_view(std::as_bytes(std::span("GET / HTTP/1.1", 14))));
    EXPECT_NE(web.confusion(), "");
}

TEST(load_proxy, takes_no_memory_for_frames_that_claim_to_be_huge)
{
    heard h;
    h.broker({std::byte{1}, {}, std::byte{1}, std::byte{0x7f}, {}, {}, {}});
    EXPECT_NE(h.talk.confusion(), "");
}

TEST(load_proxy, takes_a_bounded_number_of_unsettled_deliveries)
{
    heard h(65535);
    bytes many;
    for (std::uint64_t tag = 1; tag <= conversation::unsettled_max + 1; ++tag) {
        append(many, delivery(tag, "c", 0));
        if (many.size() > 1'000'000) {
            h.broker(many);
            many.clear();
        }
    }
    h.broker(many);
    EXPECT_NE(h.talk.confusion(), "");
    EXPECT_EQ(h.seen.done.received, conversation::unsettled_max);
}

} // namespace
} // namespace acquit::bench
