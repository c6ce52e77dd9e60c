#include "wire_support.h"

namespace acquit::amqp::wire {
namespace {

using namespace testing;

constexpr std::uint32_t frame_max = frame_size_min;

buffer delivery(const basic::deliver& method, const properties& props, std::string_view body,
                std::uint16_t channel = 5)
{
    auto frames = join({frame_of(channel, method), header_frame_of(channel, body.size(), props)});
    if (!body.empty())
        frames = join({frames, raw_frame(frame_body, channel, detail::as_bytes(body))});
    return frames;
}

const basic::deliver sample{.consumer_tag = "ctag",
                            .delivery_tag = 77,
                            .redelivered = true,
                            .exchange = "ex",
                            .routing_key = "key"};

TEST(delivery, in_three_frames_is_found_in_one_pass)
{
    auto input = delivery(sample, {.content_type = "text/plain"}, "hello");
    auto more = join({input, bytes("01")});
    delivery_frames out;
    ASSERT_TRUE(parse_delivery(more, frame_max, out));
    EXPECT_EQ(out.channel, 5);
    EXPECT_EQ(out.consumer_tag, "ctag");
    EXPECT_EQ(out.delivery_tag, 77u);
    EXPECT_TRUE(out.redelivered);
    EXPECT_EQ(out.exchange, "ex");
    EXPECT_EQ(out.routing_key, "key");
    EXPECT_EQ(text(out.body), "hello");
    EXPECT_EQ(out.consumed, input.size());
    properties props;
    ASSERT_TRUE(properties_view(out.properties).decode(props).ok());
    EXPECT_EQ(props.content_type, "text/plain");
}

TEST(delivery, without_a_body_is_two_frames)
{
    auto input = delivery({.delivery_tag = 1}, {}, "");
    delivery_frames out;
    out.body = std::span<const std::byte>(input).first(1); // left from another delivery
    ASSERT_TRUE(parse_delivery(input, frame_max, out));
    EXPECT_TRUE(out.body.empty());
    EXPECT_EQ(out.consumed, input.size());
    EXPECT_EQ(out.properties.size(), 2u);
}

TEST(delivery, cut_anywhere_goes_the_general_way)
{
    for (auto& input : {delivery(sample, {.content_type = "text/plain"}, "hello"),
                        delivery({}, {}, ""), delivery({}, {}, "x")}) {
        for (std::size_t size = 0; size < input.size(); ++size) {
            buffer part(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(size));
            delivery_frames out;
            EXPECT_FALSE(parse_delivery(part, frame_max, out)) << size;
        }
    }
}

TEST(delivery, in_two_body_frames_or_interrupted_goes_the_general_way)
{
    delivery_frames out;
    auto method = frame_of(5, sample);
    auto header = header_frame_of(5, 5, {});
    auto heartbeat = raw_frame(frame_heartbeat, 0, {});
    auto body = raw_frame(frame_body, 5, bytes("'hello'"));
    EXPECT_TRUE(parse_delivery(join({method, header, body}), frame_max, out));
    EXPECT_FALSE(parse_delivery(join({method, header, raw_frame(frame_body, 5, bytes("'hel'")),
                                      raw_frame(frame_body, 5, bytes("'lo'"))}),
                                frame_max, out));
    EXPECT_FALSE(parse_delivery(join({method, header, raw_frame(frame_body, 5, bytes("'hello!'"))}),
                                frame_max, out));
    EXPECT_FALSE(parse_delivery(join({method, heartbeat, header, body}), frame_max, out));
    EXPECT_FALSE(parse_delivery(join({method, header, heartbeat, body}), frame_max, out));
    EXPECT_FALSE(parse_delivery(join({heartbeat, method, header, body}), frame_max, out));
    EXPECT_FALSE(parse_delivery(join({method, method, header, body}), frame_max, out));
    EXPECT_FALSE(parse_delivery(join({method, header_frame_of(6, 5, {}), body}), frame_max, out));
    EXPECT_FALSE(parse_delivery(join({method, header, raw_frame(frame_body, 6, bytes("'hello'"))}),
                                frame_max, out));
    EXPECT_FALSE(
        parse_delivery(join({frame_of(5, basic::get_ok{}), header, body}), frame_max, out));
    EXPECT_FALSE(parse_delivery(delivery(sample, {}, "hello", 0), frame_max, out)) << "channel 0";
}

// The general path, frame by frame: what the fast one must agree with.
bool parse_generally(std::span<const std::byte> input, std::uint32_t max, delivery_frames& out)
{
    auto next = [&](frame_view& frame) {
        if (!parse_frame(input.subspan(out.consumed), max, frame).complete())
            return false;
        out.consumed += frame.size;
        return out.consumed == frame.size || frame.channel == out.channel;
    };
    frame_view frame;
    out = {};
    basic::deliver method;
    if (!next(frame) || frame.type != frame_method ||
        method_of(frame.payload) != id_of<basic::deliver> || frame.channel == 0 ||
        !decode(frame.payload.subspan(4), method).ok())
        return false;
    out.channel = frame.channel;
    out.consumer_tag = method.consumer_tag;
    out.delivery_tag = method.delivery_tag;
    out.redelivered = method.redelivered;
    out.exchange = method.exchange;
    out.routing_key = method.routing_key;
    content_header header;
    if (!next(frame) || frame.type != frame_header || !decode(frame.payload, header).ok() ||
        header.class_id != class_basic)
        return false;
    out.properties = header.props.raw();
    if (header.body_size == 0)
        return true;
    if (!next(frame) || frame.type != frame_body || frame.payload.size() != header.body_size)
        return false;
    out.body = frame.payload;
    return true;
}

TEST(delivery, is_judged_by_the_fast_path_as_by_the_general_one)
{
    seeded random;
    int agreed_true = 0;
    for (int round = 0; round < 20000; ++round) {
        auto tag = random.string(10), exchange = random.string(10),
             key = random.string(random.coin() ? 10 : 255);
        auto message_id = random.string(20), body = random.string(40);
        auto input =
            delivery({.consumer_tag = tag,
                      .delivery_tag = random.bits(),
                      .redelivered = random.coin(),
                      .exchange = exchange,
                      .routing_key = key},
                     {.message_id = message_id}, body, static_cast<std::uint16_t>(random.bits()));
        for (auto flips = random.below(3); flips > 0; --flips)
            input[random.below(input.size())] = static_cast<std::byte>(random.bits());
        if (random.below(8) == 0)
            input.resize(random.below(input.size() + 1));
        input.shrink_to_fit();
        delivery_frames fast, general;
        bool found = parse_delivery(input, 200, fast); // some frames are too large
        ASSERT_EQ(found, parse_generally(input, 200, general)) << hex(input);
        if (!found)
            continue;
        ++agreed_true;
        auto same = [](auto a, auto b) { return a.data() == b.data() && a.size() == b.size(); };
        EXPECT_TRUE(fast.channel == general.channel && fast.delivery_tag == general.delivery_tag &&
                    fast.redelivered == general.redelivered && fast.consumed == general.consumed &&
                    same(fast.consumer_tag, general.consumer_tag) &&
                    same(fast.exchange, general.exchange) &&
                    same(fast.routing_key, general.routing_key) &&
                    same(fast.properties, general.properties) &&
                    (fast.body.empty() || same(fast.body, general.body)))
            << hex(input);
    }
    EXPECT_GT(agreed_true, 2000);
}

TEST(settle_frames, are_the_frames_of_ack_reject_and_nack)
{
    seeded random;
    for (int round = 0; round < 200; ++round) {
        auto channel = static_cast<std::uint16_t>(random.bits());
        auto tag = random.bits();
        for (bool first : {false, true}) {
            buffer out(settle_frame_size);
            auto* end = out.data() + out.size();
            EXPECT_EQ(write_ack(out.data(), channel, tag, first), end);
            EXPECT_EQ(hex(out),
                      hex(frame_of(channel, basic::ack{.delivery_tag = tag, .multiple = first})));
            EXPECT_EQ(write_reject(out.data(), channel, tag, first), end);
            EXPECT_EQ(hex(out),
                      hex(frame_of(channel, basic::reject{.delivery_tag = tag, .requeue = first})));
            for (bool second : {false, true}) {
                EXPECT_EQ(write_nack(out.data(), channel, tag, first, second), end);
                EXPECT_EQ(hex(out), hex(frame_of(channel, basic::nack{.delivery_tag = tag,
                                                                      .multiple = first,
                                                                      .requeue = second})));
            }
        }
    }
}

} // namespace
} // namespace acquit::amqp::wire
