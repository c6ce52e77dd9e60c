#include "belt.h"

#include <acquit/amqp/wire/frame.h>
#include <acquit/amqp/wire/methods.h>
#include <acquit/amqp/wire/properties.h>
#include <acquit/amqp/wire/table.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace acquit::firehose {

namespace wire = amqp::wire;

namespace {

// class and method id after the head of the frame, then the consumer tag as a short string.
std::size_t tag_offset(std::string_view consumer_tag) noexcept
{
    return wire::frame_head_size + 4 + 1 + consumer_tag.size();
}

std::byte filler(std::size_t i) noexcept
{
    return static_cast<std::byte>('a' + i % 26);
}

} // namespace

belt::belt(const description& what)
{
    const auto properties = encode_properties(what.headers);
    const auto once = [&] {
        for (const auto size : what.sizes)
            append(what, size, properties);
    };
    once();
    const auto round = block_.size();
    const auto rounds = std::clamp<std::size_t>(
        std::min(what.block_size / round,
                 static_cast<std::size_t>(what.deliveries_max / what.sizes.size())),
        1, what.block_size);
    block_.reserve(round * rounds);
    for (std::size_t i = 1; i < rounds; ++i)
        once();
}

void belt::append(const description& what, std::size_t body_size,
                  std::span<const std::byte> properties)
{
    const wire::basic::deliver method{.consumer_tag = what.consumer_tag,
                                      .delivery_tag = 0,
                                      .exchange = "",
                                      .routing_key = what.routing_key};
    const wire::properties_view props(properties);
    const auto payload_max = wire::body_payload_max(what.frame_size_max);
    const auto frames = (body_size + payload_max - 1) / payload_max;
    const auto begin = block_.size();
    block_.resize(begin + wire::encoded_size(method) + wire::header_frame_size(props) + body_size +
                  frames * wire::frame_overhead);
    auto room = std::span(block_).subspan(begin);
    room = room.subspan(wire::encode_frame(room, what.channel, method));
    room = room.subspan(wire::encode_header_frame(room, what.channel, body_size, props));
    const auto body = static_cast<std::size_t>(room.data() - block_.data()) + wire::frame_head_size;
    for (std::size_t done = 0; done < body_size;) {
        const auto size = std::min(payload_max, body_size - done);
        wire::write_frame_head(room.data(), wire::frame_body, what.channel,
                               static_cast<std::uint32_t>(size));
        for (std::size_t i = 0; i < size; ++i)
            room[wire::frame_head_size + i] = filler(done + i);
        room[wire::frame_head_size + size] = std::byte{wire::frame_end};
        room = room.subspan(size + wire::frame_overhead);
        done += size;
    }
    entries_.push_back({.tag = static_cast<std::uint32_t>(begin + tag_offset(what.consumer_tag)),
                        .end = static_cast<std::uint32_t>(block_.size()),
                        .body = body_size < 8 ? 0 : static_cast<std::uint32_t>(body)});
}

belt::portion belt::take(std::uint64_t first_tag, std::uint64_t most, bool redelivered) noexcept
{
    if (most == 0)
        return {};
    if (at_ == entries_.size())
        at_ = 0;
    const auto count = std::min<std::uint64_t>(most, entries_.size() - at_);
    const auto begin = at_ == 0 ? 0 : entries_[at_ - 1].end;
    auto* const base = block_.data();
    for (std::uint64_t i = 0; i < count; ++i) {
        auto* const to = base + entries_[at_ + i].tag;
        wire::detail::store_u64(to, first_tag + i);
        wire::detail::store_u8(to + 8, redelivered ? 1 : 0);
    }
    at_ += count;
    return {std::span(block_).subspan(begin, entries_[at_ - 1].end - begin), count};
}

void belt::stamp(std::uint64_t now_ns) noexcept
{
    const auto& next = entries_[at_ == entries_.size() ? 0 : at_];
    if (next.body != 0)
        wire::detail::store_u64(block_.data() + next.body, now_ns);
}

// ---- Properties ----------------------------------------------------------------------------------

namespace {

wire::table rich_headers()
{
    wire::table death;
    death.set("count", std::int64_t{2})
        .set("reason", "rejected")
        .set("queue", "orders")
        .set("time", wire::timestamp{1'700'000'000})
        .set("exchange", "")
        .set("routing-keys", wire::array().add("orders").add("orders.eu"));
    wire::table all;
    all.set("x-death", wire::array().add(death).add(death))
        .set("x-first-death-exchange", "")
        .set("x-first-death-queue", "orders")
        .set("x-first-death-reason", "rejected")
        .set("x-ruststream-retry-count", "1")
        .set("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .set("tenant", "blue")
        .set("attempt", std::int32_t{3})
        .set("ratio", 0.25)
        .set("urgent", true)
        .set("nothing", wire::void_t{});
    for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h", "i"})
        all.set(name, std::int64_t{1} << 40);
    return all;
}

std::vector<std::byte> encoded(const wire::properties& p)
{
    std::vector<std::byte> frame(wire::header_frame_size(p));
    const auto size = wire::encode_header_frame(frame, 1, 0, p);
    // Behind the head of the frame, class, weight and body size, before its end octet.
    constexpr std::size_t before = wire::frame_head_size + 12;
    return {frame.begin() + before, frame.begin() + static_cast<std::ptrdiff_t>(size) - 1};
}

} // namespace

std::vector<std::byte> encode_properties(header_kind kind)
{
    wire::properties p;
    wire::table headers;
    if (kind == header_kind::none)
        return encoded(p);
    p.content_type = "application/json";
    p.delivery_mode = std::uint8_t{2};
    p.message_id = "5f0c8a3e-6f2b-4a57-9d2e-0a1b2c3d4e5f";
    p.timestamp = wire::timestamp{1'700'000'000};
    headers.set("tenant", "blue").set("attempt", std::int32_t{1});
    if (kind == header_kind::rich) {
        headers = rich_headers();
        p.content_encoding = "utf-8";
        p.priority = std::uint8_t{4};
        p.correlation_id = "c-20391";
        p.reply_to = "amq.gen-replies";
        p.expiration = "60000";
        p.type = "order.created";
        p.app_id = "shop";
        p.cluster_id = "";
    }
    p.headers = headers.view();
    return encoded(p);
}

} // namespace acquit::firehose
