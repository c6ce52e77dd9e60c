#include "canned_stream.h"

#include "collect.h"

#include <acquit/amqp/wire/wire.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace acquit::bench {

namespace wire = amqp::wire;

namespace {

/// What a receive gives at most, as from a socket whose buffer is full.
constexpr std::size_t read_max = 128 * 1024;

void store_tag(std::byte* at, std::uint64_t tag)
{
    for (int shift = 56; shift >= 0; shift -= 8)
        *at++ = static_cast<std::byte>(tag >> shift);
}

} // namespace

std::vector<std::byte> encoded_delivery(std::uint16_t channel, std::string_view consumer_tag,
                                        std::size_t body_size, std::size_t& tag_at)
{
    constexpr std::uint32_t frame_max = 131072;
    const wire::basic::deliver method{
        .consumer_tag = consumer_tag, .delivery_tag = 0, .exchange = "", .routing_key = "orders"};
    const wire::properties properties{.content_type = "text/plain",
                                      .delivery_mode = std::uint8_t{2}};
    const std::vector<std::byte> body(body_size, std::byte{'x'});
    std::vector<std::byte> out(512 + body_size);
    std::span<std::byte> rest(out);
    rest = rest.subspan(wire::encode_frame(rest, channel, method));
    rest = rest.subspan(wire::encode_header_frame(rest, channel, body_size, properties));
    if (body_size != 0)
        rest = rest.subspan(wire::encode_body_frame(rest, channel, body, frame_max));
    out.resize(out.size() - rest.size());
    // Behind head, class, method and the tag's short string.
    tag_at = wire::frame_head_size + 4 + 1 + consumer_tag.size();
    return out;
}

canned_stream::canned_stream(std::uint16_t prefetch, std::size_t body_size)
    : open_(std::size_t{prefetch} + 1), body_size_(body_size), prefetch_(prefetch)
{
    session_.start(0);
}

void canned_stream::start_read(runtime::read_op& operation) noexcept
{
    if (closed_)
        return operation.finish(-ECONNABORTED);
    std::int32_t count = 0;
    not_counted([&] { count = fill(operation.into()); });
    if (count == 0)
        reader_ = &operation;
    else
        operation.finish(count);
}

void canned_stream::start_write(runtime::write_op& operation) noexcept
{
    if (closed_)
        return operation.finish(-ECONNABORTED);
    std::int32_t count = 0;
    not_counted([&] {
        for (;;) {
            const auto part = operation.next_bytes();
            take(part);
            if (!operation.advance(part.size()))
                break;
        }
        if (reader_ != nullptr)
            count = fill(reader_->into());
    });
    operation.finish(0);
    if (count != 0)
        std::exchange(reader_, nullptr)->finish(count);
}

void canned_stream::cancel_read(runtime::read_op& operation) noexcept
{
    if (reader_ == &operation)
        std::exchange(reader_, nullptr)->finish(-ECANCELED);
}

std::int32_t canned_stream::fill(std::span<std::byte> into)
{
    into = into.first(std::min(into.size(), read_max));
    while (consuming_ && waiting_.size() - begin_ < into.size() &&
           delivered_ - settled_ < prefetch_)
        put_delivery();
    const std::size_t count = std::min(into.size(), waiting_.size() - begin_);
    std::memcpy(into.data(), waiting_.data() + begin_, count);
    begin_ += count;
    if (begin_ > read_max) {
        waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(begin_));
        begin_ = 0;
    }
    return static_cast<std::int32_t>(count);
}

void canned_stream::put_delivery()
{
    ++delivered_;
    open_[delivered_ % open_.size()] = true;
    store_tag(delivery_.data() + tag_at_, delivered_);
    waiting_.insert(waiting_.end(), delivery_.begin(), delivery_.end());
}

void canned_stream::take(std::span<const std::byte> bytes)
{
    received_.insert(received_.end(), bytes.begin(), bytes.end());
    std::span<const std::byte> rest(received_);
    for (;;) {
        const auto e = session_.next(rest);
        if (e.kind == amqp::event_kind::need_more)
            break;
        if (e.kind == amqp::event_kind::method)
            answer(session_.method());
        published_ += e.kind == amqp::event_kind::content ? 1 : 0;
        wrong_ += e.kind == amqp::event_kind::failed ? 1 : 0;
        rest = rest.subspan(e.consumed);
    }
    received_.erase(received_.begin(), received_.end() - static_cast<std::ptrdiff_t>(rest.size()));
    if (published_ > confirmed_) {
        confirmed_ = published_;
        (void)session_.send(1, wire::basic::ack{.delivery_tag = confirmed_, .multiple = true});
    }
    auto& output = session_.output();
    if (!output.open_empty()) {
        const auto said = output.begin_send();
        waiting_.insert(waiting_.end(), said.begin(), said.end());
        output.end_send();
    }
}

void canned_stream::answer(const amqp::method_event& m)
{
    if (m.id == wire::id_of<wire::queue::declare>) {
        (void)session_.send(m.channel, wire::queue::declare_ok{.queue = "orders"});
    } else if (m.id == wire::id_of<wire::confirm::select>) {
        (void)session_.send(m.channel, wire::confirm::select_ok{});
    } else if (m.id == wire::id_of<wire::basic::qos>) {
        (void)session_.send(m.channel, wire::basic::qos_ok{});
    } else if (m.id == wire::id_of<wire::basic::consume>) {
        wire::basic::consume asked;
        (void)wire::decode(m.payload, asked).ok();
        (void)session_.send(m.channel, wire::basic::consume_ok{.consumer_tag = asked.consumer_tag});
        delivery_ = encoded_delivery(m.channel, asked.consumer_tag, body_size_, tag_at_);
        consuming_ = true;
    } else if (m.id == wire::id_of<wire::basic::ack>) {
        wire::basic::ack method;
        (void)wire::decode(m.payload, method).ok();
        settle(method.multiple ? oldest_ : method.delivery_tag, method.delivery_tag);
    } else {
        ++wrong_;
    }
}

void canned_stream::settle(std::uint64_t first, std::uint64_t last)
{
    ++frames_;
    wrong_ += first > last || last > delivered_ || first < oldest_ ? 1 : 0;
    for (auto tag = first; tag <= last && tag <= delivered_; ++tag) {
        auto open = open_[tag % open_.size()];
        if (open)
            ++settled_;
        else
            wrong_ += first == last ? 1 : 0; // within a range others may have been settled before
        open = false;
    }
    while (oldest_ <= delivered_ && !open_[oldest_ % open_.size()])
        ++oldest_;
}

} // namespace acquit::bench
