#include <acquit/amqp/session/session.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

/// Messages, in and out (AMQP 0-9-1 2.3.5.2): a method, a header, body frames; per channel in this
/// order, with frames of other channels between them.
namespace acquit::amqp {

namespace {

template <class M>
M arguments_of(std::span<const std::byte> arguments) noexcept
{
    M method;
    (void)wire::decode(arguments, method).ok(); // checked before
    return method;
}

} // namespace

event session::begin_content(const wire::frame_view& frame, wire::method_id id)
{
    auto& half = channels_.half_message(frame.channel);
    half.reset();
    const auto arguments = frame.payload.subspan(4);
    half.head.assign(arguments.begin(), arguments.end());
    auto& content = half.content;
    content.channel = frame.channel;
    switch (id.method_id) {
    case wire::basic::deliver::method_id: {
        const auto method = arguments_of<wire::basic::deliver>(half.head);
        content.kind = content_kind::deliver;
        content.consumer_tag = method.consumer_tag;
        content.delivery_tag = method.delivery_tag;
        content.redelivered = method.redelivered;
        content.exchange = method.exchange;
        content.routing_key = method.routing_key;
        break;
    }
    case wire::basic::get_ok::method_id: {
        const auto method = arguments_of<wire::basic::get_ok>(half.head);
        content.kind = content_kind::get_ok;
        content.delivery_tag = method.delivery_tag;
        content.redelivered = method.redelivered;
        content.exchange = method.exchange;
        content.routing_key = method.routing_key;
        content.message_count = method.message_count;
        break;
    }
    case wire::basic::return_::method_id: {
        const auto method = arguments_of<wire::basic::return_>(half.head);
        content.kind = content_kind::return_;
        content.return_code = method.reply_code;
        content.return_text = method.reply_text;
        content.exchange = method.exchange;
        content.routing_key = method.routing_key;
        break;
    }
    default: {
        const auto method = arguments_of<wire::basic::publish>(half.head);
        content.kind = content_kind::publish;
        content.exchange = method.exchange;
        content.routing_key = method.routing_key;
        content.mandatory = method.mandatory;
        content.immediate = method.immediate;
        break;
    }
    }
    half.now = assembly::phase::want_header;
    return {event_kind::nothing, frame.channel, frame.size, 0};
}

std::optional<event> session::content_frame_out_of_place(const wire::frame_view& frame)
{
    const auto* const what = frame.type == wire::frame_header ? "content header" : "content body";
    if (frame.channel == 0 || step_ != step::done) {
        return fail(wire::reply_code::unexpected_frame,
                    fmt::format("{} frame on channel {}", what, frame.channel), frame.size);
    }
    switch (channels_.state(frame.channel)) {
    case channel_state::open:
        break;
    case channel_state::closing:
        return event{event_kind::nothing, frame.channel, frame.size, 0};
    default:
        return fail(wire::reply_code::channel_error,
                    fmt::format("{} frame on channel {}, which is {}", what, frame.channel,
                                name(channels_.state(frame.channel))),
                    frame.size);
    }
    const auto phase = channels_.half_message(frame.channel).now;
    const auto wanted = frame.type == wire::frame_header ? assembly::phase::want_header
                                                         : assembly::phase::want_body;
    if (phase == wanted) {
        return std::nullopt;
    }
    return fail(wire::reply_code::unexpected_frame,
                fmt::format("expected {} on channel {}, got {} frame instead",
                            phase == assembly::phase::idle          ? "a method"
                            : phase == assembly::phase::want_header ? "a content header"
                                                                    : "a content body",
                            frame.channel, what),
                frame.size);
}

event session::header_frame(const wire::frame_view& frame)
{
    if (const auto out_of_place = content_frame_out_of_place(frame)) {
        return *out_of_place;
    }
    wire::content_header header;
    if (const auto decoded = wire::decode(frame.payload, header); !decoded) {
        return fail(decoded, frame.size);
    }
    if (header.class_id != wire::class_basic) {
        return fail(wire::reply_code::unexpected_frame,
                    fmt::format("expected content header for class {}, got one for class {} "
                                "instead",
                                wire::class_basic, header.class_id),
                    frame.size);
    }
    auto& half = channels_.half_message(frame.channel);
    const auto properties = header.props.raw();
    half.properties.assign(properties.begin(), properties.end());
    half.content.properties = half.properties;
    half.content.body_size = header.body_size;
    half.content.body_dropped = header.body_size > limits_.body_size_max;
    half.remaining = header.body_size;
    half.now = assembly::phase::want_body;
    if (half.remaining == 0) {
        return finish_content(half, frame.channel, frame.size);
    }
    return {event_kind::nothing, frame.channel, frame.size, 0};
}

event session::body_frame(const wire::frame_view& frame)
{
    if (const auto out_of_place = content_frame_out_of_place(frame)) {
        return *out_of_place;
    }
    auto& half = channels_.half_message(frame.channel);
    const auto size = frame.payload.size();
    if (size > half.remaining) {
        return fail(wire::reply_code::frame_error,
                    "content body frame exceeds remaining content size", frame.size);
    }
    const bool whole = size == half.content.body_size;
    half.remaining -= size;
    if (!half.content.body_dropped) {
        if (whole) {
            half.content.body = frame.payload;
            half.content.body_in_input = true;
        } else if (assembled_ + size > limits_.assembled_size_max) {
            drop_body(half);
        } else {
            half.append_body(frame.payload);
            assembled_ += size;
        }
    }
    if (half.remaining == 0) {
        return finish_content(half, frame.channel, frame.size);
    }
    return {event_kind::nothing, frame.channel, frame.size, 0};
}

event session::finish_content(assembly& half, std::uint16_t channel, std::size_t consumed)
{
    if (!half.content.body_in_input) {
        assembled_ -= half.body.size();
        half.content.body = half.body;
    }
    half.now = assembly::phase::idle;
    content_ = half.content;
    content_in_input_ = false;
    finished_channel_ = channel;
    return {event_kind::content, channel, consumed, 0};
}

void session::drop_body(assembly& half) noexcept
{
    assembled_ -= half.body.size();
    std::vector<std::byte>().swap(half.body);
    half.content.body_dropped = true;
}

std::vector<std::byte> session::take_body() noexcept
{
    if (finished_channel_ == 0 || content_.body_in_input) {
        return {};
    }
    return std::exchange(channels_.half_message(finished_channel_).body, {});
}

// The owner is done with the last message.
void session::release_finished() noexcept
{
    channels_.half_message(finished_channel_).reset();
    content_ = {};
    content_in_input_ = false;
    finished_channel_ = 0;
}

void session::forget_half_message(std::uint16_t channel) noexcept
{
    if (channels_.open_and_idle(channel) || channels_.state(channel) != channel_state::open) {
        return; // nothing there, or a finished message that the owner may still look at
    }
    auto& half = channels_.half_message(channel);
    assembled_ -= half.body.size();
    half.reset();
}

// ---- out ------------------------------------------------------------------------------------

template <class M, class Properties>
send_status session::write_content(std::uint16_t channel, const M& method,
                                   const Properties& properties, std::span<const std::byte> body,
                                   const std::shared_ptr<const void>& owner)
{
    if (const auto status = may_send(channel); status != send_status::sent) {
        return status;
    }
    const auto method_size = wire::encoded_size(method);
    const auto header_size = wire::header_frame_size(properties);
    if (method_size > tuned_.frame_size_max || header_size > tuned_.frame_size_max) {
        return send_status::too_large;
    }
    const auto payload_max = wire::body_payload_max(tuned_.frame_size_max);
    const auto frames = (body.size() + payload_max - 1) / payload_max;
    const bool shared = owner != nullptr && body.size() >= shared_body_size_min;
    const auto room = output_.reserve(method_size + header_size + frames * wire::frame_overhead +
                                      (shared ? 0 : body.size()));
    const auto after_method = wire::encode_frame(room, channel, method);
    const auto header =
        wire::encode_header_frame(room.subspan(after_method), channel, body.size(), properties);
    if (after_method == 0 || header == 0) {
        return send_status::bad_argument;
    }
    auto written = after_method + header;
    if (shared) {
        output_.commit(written);
        share_body(channel, body, payload_max, owner);
        return send_status::sent;
    }
    while (!body.empty()) {
        const auto part = body.first(std::min(body.size(), payload_max));
        written +=
            wire::encode_body_frame(room.subspan(written), channel, part, tuned_.frame_size_max);
        body = body.subspan(part.size());
    }
    output_.commit(written);
    return send_status::sent;
}

// Frame heads and ends are ours, what stands between them is not. The room is reserved.
void session::share_body(std::uint16_t channel, std::span<const std::byte> body,
                         std::size_t payload_max, const std::shared_ptr<const void>& owner)
{
    while (!body.empty()) {
        const auto part = body.first(std::min(body.size(), payload_max));
        output_.commit(wire::write_frame_head(output_.reserve(wire::frame_overhead).data(),
                                              wire::frame_body, channel,
                                              static_cast<std::uint32_t>(part.size())));
        output_.share(part, owner);
        output_.reserve(1)[0] = std::byte{wire::frame_end};
        output_.commit(1);
        body = body.subspan(part.size());
    }
}

send_status session::send_content(std::uint16_t channel, const wire::basic::publish& method,
                                  const wire::properties& properties,
                                  std::span<const std::byte> body,
                                  const std::shared_ptr<const void>& owner)
{
    return write_content(channel, method, properties, body, owner);
}

send_status session::send_raw_content(std::uint16_t channel, const wire::basic::publish& method,
                                      std::span<const std::byte> properties,
                                      std::span<const std::byte> body,
                                      const std::shared_ptr<const void>& owner)
{
    return write_content(channel, method, wire::properties_view(properties), body, owner);
}

send_status session::send_content(std::uint16_t channel, const wire::basic::deliver& method,
                                  const wire::properties& properties,
                                  std::span<const std::byte> body)
{
    return write_content(channel, method, properties, body);
}

send_status session::send_raw_content(std::uint16_t channel, const wire::basic::deliver& method,
                                      std::span<const std::byte> properties,
                                      std::span<const std::byte> body)
{
    return write_content(channel, method, wire::properties_view(properties), body);
}

send_status session::send_content(std::uint16_t channel, const wire::basic::get_ok& method,
                                  const wire::properties& properties,
                                  std::span<const std::byte> body)
{
    return write_content(channel, method, properties, body);
}

send_status session::send_raw_content(std::uint16_t channel, const wire::basic::get_ok& method,
                                      std::span<const std::byte> properties,
                                      std::span<const std::byte> body)
{
    return write_content(channel, method, wire::properties_view(properties), body);
}

send_status session::send_content(std::uint16_t channel, const wire::basic::return_& method,
                                  const wire::properties& properties,
                                  std::span<const std::byte> body)
{
    return write_content(channel, method, properties, body);
}

send_status session::send_raw_content(std::uint16_t channel, const wire::basic::return_& method,
                                      std::span<const std::byte> properties,
                                      std::span<const std::byte> body)
{
    return write_content(channel, method, wire::properties_view(properties), body);
}

} // namespace acquit::amqp
