#include <acquit/amqp/session/session.h>

#include <fmt/format.h>

/// Channels: who may open, close and say what. Per channel (AMQP 0-9-1 2.2.5, 4.2.6):
///
///     closed --open--> opening --open-ok--> open --close--> closing --close-ok--> closed
///                                            |                                      ^
///                                            +---- the peer's close, our close-ok --+
namespace acquit::amqp {

namespace {

constexpr std::uint32_t key(wire::method_id id) noexcept
{
    return std::uint32_t{id.class_id} << 16 | id.method_id;
}

template <class M>
constexpr std::uint32_t key_of = key(wire::id_of<M>);

// Which end says what. Replies have odd numbers and come from the server, requests even ones and
// come from the client; the exceptions are listed.
bool from_server(wire::method_id id) noexcept
{
    namespace basic = wire::basic;
    namespace channel = wire::channel;
    switch (key(id)) {
    case key_of<channel::flow>:
    case key_of<basic::return_>:
    case key_of<basic::deliver>:
    case key_of<basic::get_empty>:
    case key_of<basic::ack>:
    case key_of<basic::nack>:
    case key_of<basic::cancel>:
        return true;
    default:
        return id.method_id % 2 == 1;
    }
}

bool from_client(wire::method_id id) noexcept
{
    namespace basic = wire::basic;
    namespace channel = wire::channel;
    switch (key(id)) {
    case key_of<channel::flow_ok>:
    case key_of<basic::cancel_ok>:
        return true;
    case key_of<basic::return_>:
    case key_of<basic::deliver>:
    case key_of<basic::get_empty>:
        return false;
    default:
        return id.method_id % 2 == 0;
    }
}

bool has_content(wire::method_id id) noexcept
{
    switch (key(id)) {
    case key_of<wire::basic::publish>:
    case key_of<wire::basic::return_>:
    case key_of<wire::basic::deliver>:
    case key_of<wire::basic::get_ok>:
        return true;
    default:
        return false;
    }
}

} // namespace

std::uint16_t session::free_channel() noexcept
{
    if (!is_open() || channels_.in_use() >= limits_.open_channels_max) {
        return 0;
    }
    return channels_.lowest_free(tuned_.channel_max);
}

send_status session::open_channel(std::uint16_t channel)
{
    if (!is_open()) {
        return send_status::connection_not_open;
    }
    if (!client_ || channel == 0 || channel > tuned_.channel_max ||
        channels_.state(channel) != channel_state::closed ||
        channels_.in_use() >= limits_.open_channels_max) {
        return send_status::bad_argument;
    }
    channels_.set(channel, channel_state::opening);
    return write_method(channel, wire::channel::open{});
}

send_status session::close_channel(std::uint16_t channel, wire::reply_code code,
                                   std::string_view text, wire::method_id offender)
{
    if (!is_open()) {
        return send_status::connection_not_open;
    }
    const auto state = channels_.state(channel);
    if (state != channel_state::open && state != channel_state::opening) {
        return send_status::channel_not_open;
    }
    forget_half_message(channel);
    channels_.set(channel, channel_state::closing);
    return write_method(channel,
                        wire::channel::close{.reply_code = static_cast<std::uint16_t>(code),
                                             .reply_text = text.substr(0, 255),
                                             .failing_class_id = offender.class_id,
                                             .failing_method_id = offender.method_id});
}

event session::channel_method(const wire::frame_view& frame, wire::method_id id)
{
    namespace channel = wire::channel;
    switch (channels_.state(frame.channel)) {
    case channel_state::open:
        return open_channel_method(frame, id);
    case channel_state::opening:
        if (id == wire::id_of<channel::open_ok>) {
            channel::open_ok method;
            if (const auto decoded = wire::decode(frame.payload.subspan(4), method); !decoded) {
                return fail(decoded, frame.size, id);
            }
            channels_.set(frame.channel, channel_state::open);
            return {event_kind::channel_opened, frame.channel, frame.size, 0};
        }
        if (id == wire::id_of<channel::close>) {
            return peer_closes_channel(frame, channel_state::closed);
        }
        break;
    case channel_state::closing:
        if (id == wire::id_of<channel::close_ok>) {
            channels_.set(frame.channel, channel_state::closed);
            return {event_kind::channel_close_ok, frame.channel, frame.size, 0};
        }
        if (id == wire::id_of<channel::close>) {
            // Both closed at once: both answer, and the number is free after the peer's answer.
            return peer_closes_channel(frame, channel_state::closing);
        }
        // On its way before the peer knew: deliveries, confirms, replies.
        return {event_kind::nothing, frame.channel, frame.size, 0};
    case channel_state::closed:
        if (!client_ && id == wire::id_of<channel::open>) {
            return peer_opens_channel(frame);
        }
        if (client_ && id == wire::id_of<channel::close>) {
            // RabbitMQ (up to 4.2) repeats the close of a consumer timeout until it is answered;
            // ours may have crossed the second one, and a second answer would be an error.
            return {event_kind::nothing, frame.channel, frame.size, 0};
        }
        break;
    }
    return fail(wire::reply_code::channel_error,
                fmt::format("{} on channel {}, which is {}", wire::method_name(id), frame.channel,
                            name(channels_.state(frame.channel))),
                frame.size, id);
}

event session::open_channel_method(const wire::frame_view& frame, wire::method_id id)
{
    namespace channel = wire::channel;
    if (!channels_.open_and_idle(frame.channel)) {
        return fail(wire::reply_code::unexpected_frame,
                    fmt::format("expected content frames on channel {}, got {} instead",
                                frame.channel, wire::method_name(id)),
                    frame.size, id);
    }
    if (id == wire::id_of<channel::close>) {
        return peer_closes_channel(frame, channel_state::closed);
    }
    if (!client_ && id == wire::id_of<channel::open>) {
        return fail(wire::reply_code::channel_error, "second 'channel.open' seen", frame.size, id);
    }
    const bool expected = id != wire::id_of<channel::close_ok> &&
                          id != wire::id_of<channel::open_ok> &&
                          (client_ ? from_server(id) : from_client(id));
    // A method that cannot be decoded is the session's affair, so that no owner meets one.
    const auto decoded = wire::visit_method(frame.payload, [](const auto&) {});
    if (!decoded) {
        return fail(decoded, frame.size, id);
    }
    if (!expected) {
        return fail(
            wire::reply_code::command_invalid,
            fmt::format("unexpected {} on channel {}", wire::method_name(id), frame.channel),
            frame.size, id);
    }
    if (has_content(id)) {
        return begin_content(frame, id);
    }
    if (id == wire::id_of<channel::flow>) {
        channel::flow method;
        (void)wire::decode(frame.payload.subspan(4), method).ok();
        write(frame.channel, channel::flow_ok{.active = method.active});
    }
    method_ = {frame.channel, id, frame.payload.subspan(4)};
    return {event_kind::method, frame.channel, frame.size, 0};
}

event session::peer_opens_channel(const wire::frame_view& frame)
{
    const auto id = wire::id_of<wire::channel::open>;
    wire::channel::open method;
    if (const auto decoded = wire::decode(frame.payload.subspan(4), method); !decoded) {
        return fail(decoded, frame.size, id);
    }
    if (frame.channel > tuned_.channel_max) {
        return fail(
            wire::reply_code::channel_error,
            fmt::format("channel {} is above channel_max {}", frame.channel, tuned_.channel_max),
            frame.size, id);
    }
    if (channels_.in_use() >= limits_.open_channels_max) {
        return fail(wire::reply_code::not_allowed,
                    fmt::format("number of channels opened ({}) has reached the maximum",
                                channels_.in_use()),
                    frame.size, id);
    }
    channels_.set(frame.channel, channel_state::open);
    write(frame.channel, wire::channel::open_ok{});
    return {event_kind::channel_opened, frame.channel, frame.size, 0};
}

event session::peer_closes_channel(const wire::frame_view& frame, channel_state after)
{
    wire::channel::close method;
    if (const auto decoded = wire::decode(frame.payload.subspan(4), method); !decoded) {
        return fail(decoded, frame.size, wire::id_of<wire::channel::close>);
    }
    close_ = {frame.channel,
              wire::reply_code{method.reply_code},
              std::string(method.reply_text),
              {method.failing_class_id, method.failing_method_id},
              true};
    write(frame.channel, wire::channel::close_ok{});
    forget_half_message(frame.channel);
    channels_.set(frame.channel, after);
    return {event_kind::channel_closed, frame.channel, frame.size, 0};
}

} // namespace acquit::amqp
